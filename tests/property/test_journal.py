"""The journal under damage: cut anywhere it tells the truth, changed anywhere it says so."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairshare.model import InvalidFileError, JobRef, JobRequest, NotFoundError
from fairshare.submit.conditions import Skip
from fairshare.submit.holder import Holder
from fairshare.submit.journal import Journal, jobs_by_id, read_run
from fairshare.submit.outcomes import Ending, ending_in, note_endings
from fairshare.submit.records import RunRecord
from fairshare.submit.requests import Alternative, PlannedJob, RunIdentity, moved
from fairshare.submit.waves import plan_waves

RUN = "lunar-otter-3f2a"
HOLDER = Holder("fairshare submit", 1)
Step = tuple[str, int]


def write_run(runs: Path, count: int, steps: list[Step]) -> tuple[Path, list[tuple[int, dict[int, str]]]]:
    """Write a journal; return its path and, after each write, the file's length and the states that are then true."""
    requests = [JobRequest(f"jöb-{i}", "q", "{}", f"token-{i}", "SHARE", i) for i in range(count)]
    jobs = [PlannedJob(i, 1, request, alternatives=(Alternative("other"),)) for i, request in enumerate(requests)]
    states = dict.fromkeys(range(count), "waiting")
    with Journal.create(runs, RUN, HOLDER) as journal:
        journal.begin(RunIdentity(RUN, 1, "us-west-2", "111122223333"), plan_waves(count, None, 0, 1), jobs)
        history = [(journal.path.stat().st_size, dict(states))]
        for kind, index in steps:
            match kind:
                case "intend":
                    journal.intend([jobs[index]], 2)
                    states[index] = "unknown" if states[index] == "waiting" else states[index]
                case "sent":
                    journal.sent(index, JobRef(f"id-{index}", f"arn/id-{index}", f"jöb-{index}"), 3)
                    states[index] = "sent"
                case "failed":
                    journal.failed(index, "zurückgewiesen", 3)
                    states[index] = "failed"
                case "ended":
                    journal.ended(index, "FAILED", 4, reason="kaputt")
                    states[index] = "failed"
                case "skipped":
                    journal.skipped(index, Skip("jöb-0 failed"), 4)
                    states[index] = "skipped"
                case "moved":
                    journal.moved(moved(jobs[index], "other", 2), 4)
                    states[index] = "waiting"
            history.append((journal.path.stat().st_size, dict(states)))
    return journal.path, history


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


def states_of(run: RunRecord) -> dict[int, str]:
    return {job.index: job.state for job in run.jobs}


def steps_for(outcomes: list[str]) -> list[Step]:
    return [step for index, outcome in enumerate(outcomes) for step in (("intend", index), (outcome, index))]


def test_c25_cut_at_every_byte_it_tells_the_truth(tmp_path: Path) -> None:
    steps = [*steps_for(["sent", "failed", "sent"]), ("moved", 0), ("ended", 2), ("skipped", 3)]
    path, history = write_run(tmp_path, 4, steps)
    begun, _ = history[0]

    for length in range(path.stat().st_size, -1, -1):
        os.truncate(path, length)
        if length < begun:
            with pytest.raises(NotFoundError, match="nothing was sent"):
                read_run(path)
            continue
        sound, states = max((at, true) for at, true in history if at <= length)
        run = read_run(path)
        assert states_of(run) == states
        assert bool(run.warnings) == (length > sound)
        written = sum(at <= length for at, _ in history[1:])
        made = [index for kind, index in steps[:written] if kind == "sent"]
        assert set(jobs_by_id(tmp_path)) == {f"id-{index}" for index in made}


def test_c25_cut_at_every_byte_it_can_go_on(tmp_path: Path) -> None:
    path, history = write_run(tmp_path, 2, steps_for(["sent", "failed"]))
    whole = path.read_bytes()
    begun, _ = history[0]

    for length in range(begun, len(whole) + 1):
        path.write_bytes(whole[:length])
        _, states = max((at, true) for at, true in history if at <= length)
        with Journal.open(path, HOLDER) as journal:
            for index in states:
                journal.sent(index, JobRef(f"new-{index}", f"arn/new-{index}", ""), 9)

        run = read_run(path)
        assert run.warnings == ()
        assert [job.job_id for job in run.jobs] == ["new-0", "new-1"]


@functools.cache
def small_journal() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path, _ = write_run(Path(folder), 2, steps_for(["sent", "failed"]))
        return path.read_bytes()


@settings(max_examples=300)
@given(data=st.data())
def test_c25_any_changed_byte_is_noticed_and_its_line_named(data: st.DataObject) -> None:
    whole = small_journal()
    position = data.draw(st.integers(0, len(whole) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda value: value != whole[position]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{RUN}.jsonl")
        path.write_bytes(whole[:position] + bytes([value]) + whole[position + 1 :])

        if position == len(whole) - 1:
            assert read_run(path).warnings, "without its newline the last line counts as torn"
        else:
            with pytest.raises(InvalidFileError) as caught:
                read_run(path)
            assert caught.value.problems[0].line == whole[:position].count(b"\n") + 1


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
requests = st.builds(
    JobRequest,
    job_name=names,
    job_queue=names,
    payload=st.just('{"ResourceConfig":{"InstanceCount":1,"InstanceType":"ml.m5.large"}}'),
    client_token=names,
    share_identifier=st.none() | names,
    scheduling_priority=st.none() | st.integers(0, 99),
    retry_strategy=st.none() | st.fixed_dictionaries({"attempts": st.integers(1, 10)}),
    attempt_duration_seconds=st.none() | st.integers(60, 2**31),
    tags=st.dictionaries(names, names, max_size=2),
    quota_share=st.none() | names,
    preemption_retries=st.none() | st.integers(0, 2**31 - 1),
)
alternatives = st.builds(
    Alternative,
    job_queue=names,
    share_identifier=st.none() | names,
    scheduling_priority=st.none() | st.integers(0, 99),
    instance_type=st.none() | names,
    quota_share=st.none() | names,
)


@given(request=requests, alternative=alternatives)
def test_a_request_and_where_it_may_move_are_read_back_whole(request: JobRequest, alternative: Alternative) -> None:
    job = PlannedJob(0, 1, request, alternatives=(alternative,))
    with tempfile.TemporaryDirectory() as folder:
        with Journal.create(Path(folder), RUN, HOLDER) as journal:
            journal.begin(RunIdentity(RUN, 1, "us-west-2", "111122223333"), plan_waves(1, None, 0, 1), [job])
            (first,) = read_run(journal.path).jobs
            assert (first.request, first.alternatives) == (request, (alternative,))
            there = moved(job, alternative.job_queue, 2)
            journal.moved(there, 4)

        (second,) = read_run(journal.path).jobs
        assert second.as_planned().request == there.request


@given(
    ending=st.builds(
        Ending,
        status=st.sampled_from(["SUCCEEDED", "FAILED"]),
        reason=st.none() | names,
        training_job_name=st.none() | names,
        started_at=st.none() | st.integers(0, 2**43),
        stopped_at=st.none() | st.integers(0, 2**43),
        attempts=st.none() | st.integers(0, 10),
        preemptions=st.none() | st.integers(1, 10_000),
        preemption_reason=st.none() | names,
    )
)
def test_an_ending_is_read_back_whole(ending: Ending) -> None:
    job = PlannedJob(0, 1, JobRequest("a", "q", "{}", "token", quota_share="TEAMA"))
    with tempfile.TemporaryDirectory() as folder:
        with Journal.create(Path(folder), RUN, HOLDER) as journal:
            journal.begin(RunIdentity(RUN, 1, "us-west-2", "111122223333"), plan_waves(1, None, 0, 1), [job])
            journal.sent(0, JobRef("id-0", "arn/id-0", "a"), 3)
        note_endings(Path(folder), RUN, {"id-0": ending}, HOLDER)

        (kept,) = read_run(journal.path).jobs
        assert ending_in(kept) == ending


@given(steps=st.lists(st.tuples(st.sampled_from(["intend", "sent", "failed"]), st.integers(0, 3)), max_size=12))
def test_whatever_is_noted_is_read_back(steps: list[Step]) -> None:
    settled: set[int] = set()
    legal = []
    for kind, index in steps:
        if kind == "intend" or index not in settled:
            legal.append((kind, index))
        if kind != "intend":
            settled.add(index)
    with tempfile.TemporaryDirectory() as folder:
        path, history = write_run(Path(folder), 4, legal)

        assert states_of(read_run(path)) == history[-1][1]
