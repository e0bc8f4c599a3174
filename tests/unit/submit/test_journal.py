from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import AutoWaves, LaunchPeak, Limits, SecretRef
from fairshare.config.times import Window
from fairshare.model import FairshareError, InvalidFileError, JobRef, JobRequest, NotFoundError, UsageError
from fairshare.submit.conditions import Skip
from fairshare.submit.holder import Holder, RunHeldError
from fairshare.submit.journal import Journal, find_run, jobs_by_id, journal_path, list_runs, read_run
from fairshare.submit.requests import Alternative, PlannedJob, RunIdentity, canonical_json, payload_sha256
from fairshare.submit.rules import RunRules
from fairshare.submit.waves import Wave, plan_waves
from fairshare.submit.windows import Gate

MakePlanned = Callable[..., PlannedJob]
T0 = 1_764_500_000_000
HOLDER = Holder("fairshare submit", T0)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def begun(runs: Path, identity: RunIdentity, make_planned: MakePlanned) -> Callable[..., Journal]:
    """A journal of a run that began."""

    def begin(count: int = 3, run_id: str = identity.run_id, created_at: int = T0, **job: Any) -> Journal:
        journal = Journal.create(runs, run_id, HOLDER)
        jobs = [make_planned(index, 1 + index // 2, run_id, **job) for index in range(count)]
        journal.begin(RunIdentity(run_id, created_at, "us-west-2", "111122223333"), plan_waves(count, 2, 90, T0), jobs)
        return journal

    return begin


def jobs(*indexes: int) -> list[PlannedJob]:
    return [PlannedJob(index, 1, JobRequest(f"job-{index}", "q", "{}", "t")) for index in indexes]


def ref(index: int) -> JobRef:
    return JobRef(f"id-{index}", f"arn:aws:batch:us-west-2:111122223333:service-job/id-{index}", f"job-{index}")


def test_what_is_written_can_be_read(begun: Callable[..., Journal], runs: Path, make_planned: MakePlanned) -> None:
    with begun(4) as journal:
        journal.intend(jobs(0), T0 + 1)
        journal.sent(0, ref(0), T0 + 2)
        journal.intend(jobs(1), T0 + 3)
        journal.failed(1, "no such queue", T0 + 4)
        journal.intend(jobs(2), T0 + 5)

    run = read_run(journal_path(runs, "lunar-otter-3f2a"))

    assert run.identity == RunIdentity("lunar-otter-3f2a", T0, "us-west-2", "111122223333")
    assert run.queues == ("search-ml-gpu",)
    assert run.waves == (Wave(1, T0, 0, 2), Wave(2, T0 + 90_000, 2, 2))
    assert [job.state for job in run.jobs] == ["sent", "failed", "unknown", "waiting"]
    assert [job.request for job in run.jobs] == [make_planned(index).request for index in range(4)]
    assert [job.wave for job in run.jobs] == [1, 1, 2, 2]
    assert (run.jobs[0].job_id, run.jobs[0].job_arn) == ("id-0", ref(0).job_arn)
    assert run.jobs[1].error == "no such queue"
    assert run.warnings == ()
    assert (run.count("sent"), run.count("unknown", "waiting")) == (1, 2)


def test_every_line_is_one_json_object_with_a_consecutive_seq(begun: Callable[..., Journal]) -> None:
    with begun(2) as journal:
        journal.intend(jobs(0, 1), T0)
        journal.sent(0, ref(0), T0)

    records = [json.loads(line) for line in journal.path.read_text().splitlines()]

    assert [record["seq"] for record in records] == list(range(6))
    assert [record["type"] for record in records] == ["header", "job", "job", "intent", "intent", "outcome"]
    assert all(list(record)[-1] == "crc" for record in records)


def test_the_file_and_its_directory_are_the_users_alone(begun: Callable[..., Journal], runs: Path) -> None:
    with begun() as journal:
        assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(runs.stat().st_mode) == 0o700


def test_nothing_exists_before_the_run_begins(runs: Path) -> None:
    with Journal.create(runs, "run-1", HOLDER) as journal:
        assert not journal.path.exists()
        with pytest.raises(RuntimeError, match="has not begun"):
            journal.intend(jobs(0), T0)


def test_an_intent_is_on_the_disk_before_the_call(
    begun: Callable[..., Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun() as journal:
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
        journal.intend(jobs(0), T0)

        assert synced == [journal.path.stat().st_size]
        assert read_run(journal.path).jobs[0].state == "unknown"


def test_c26_a_run_is_held_by_one_process(begun: Callable[..., Journal], runs: Path) -> None:
    with begun() as journal:
        with pytest.raises(RunHeldError) as caught:
            Journal.open(journal.path, Holder("fairshare resume", T0 + 5_000))
        assert caught.value.message == (
            f'run "lunar-otter-3f2a" is held by process {os.getpid()} on {socket.gethostname()} '
            "since 2025-11-30 10:53:20 UTC (`fairshare submit`)"
        )
        with pytest.raises(RunHeldError, match="is held by"):
            Journal.create(runs, "lunar-otter-3f2a", HOLDER)
        Journal.create(runs, "another-run", HOLDER).close()

    Journal.open(journal.path, HOLDER).close()


def test_a_run_id_is_used_once(begun: Callable[..., Journal], runs: Path) -> None:
    begun().close()

    with pytest.raises(UsageError, match='run "lunar-otter-3f2a" exists already'):
        Journal.create(runs, "lunar-otter-3f2a", HOLDER)
    Journal.open(runs / "lunar-otter-3f2a.jsonl", HOLDER).close()


def test_a_run_that_never_began_can_be_submitted_again(begun: Callable[..., Journal], runs: Path) -> None:
    with begun(3) as journal:
        whole = journal.path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in (b"", lines[0], b"".join(lines[:3]), b"".join(lines[:3]) + lines[3][:-1]):
        journal.path.write_bytes(kept)

        with pytest.raises(NotFoundError) as caught:
            read_run(journal.path)
        assert caught.value.message == 'there is no run "lunar-otter-3f2a": nothing was sent'
        assert list_runs(runs) == []
        begun(3).close()
        assert journal.path.read_bytes() == whole


def test_c25_a_torn_last_line_is_cut_with_a_warning(begun: Callable[..., Journal]) -> None:
    with begun() as journal:
        journal.intend(jobs(0), T0)
        sound = journal.path.read_bytes()
        journal.failed(0, "Zurückgewiesen", T0)
    torn = journal.path.read_bytes()
    middle_of_a_character = torn.index("ü".encode()) + 1
    journal.path.write_bytes(torn[:middle_of_a_character])

    run = read_run(journal.path)

    assert run.jobs[0].state == "unknown"
    lost = middle_of_a_character - len(sound)
    assert run.warnings == (f"{journal.path}: the last record was torn by a crash and is ignored ({lost} bytes)",)
    assert journal.path.read_bytes() == torn[:middle_of_a_character], "reading changes nothing"
    with Journal.open(journal.path, HOLDER) as again:
        assert again.warnings == run.warnings
        assert journal.path.read_bytes() == sound
        again.sent(0, ref(0), T0)
    assert read_run(journal.path).jobs[0].state == "sent"
    assert read_run(journal.path).warnings == ()


def test_c25_other_damage_stops_with_its_line(begun: Callable[..., Journal], runs: Path) -> None:
    with begun() as journal:
        journal.intend(jobs(0), T0)
        journal.intend(jobs(1), T0)
    lines = journal.path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"index":0', b'"index":1')
    journal.path.write_bytes(b"".join(lines))

    for attempt in (read_run, lambda path: Journal.open(path, HOLDER)):
        with pytest.raises(InvalidFileError) as caught:
            attempt(journal.path)
        assert f"{journal.path}:5:1: error: damaged journal: its checksum is wrong" in caught.value.message
    with pytest.raises(InvalidFileError):
        Journal.create(runs, "lunar-otter-3f2a", HOLDER)


@pytest.mark.parametrize(
    ("damage", "line", "what"),
    [
        (lambda lines: [*lines[:2], b"garbage\n", *lines[3:]], 3, "it is not a record of a journal"),
        (lambda lines: [*lines[:4], *lines[5:]], 5, "seq is 5, expected 4"),
        (lambda lines: [lines[1], *lines[1:]], 1, "seq is 1, expected 0"),
        (lambda lines: [*lines, lines[-1]], 7, "seq is 5, expected 6"),
        (lambda lines: [*lines[:3], b"\n", *lines[3:]], 4, "it is not a record of a journal"),
    ],
)
def test_c25_damage_is_named(
    begun: Callable[..., Journal], damage: Callable[[list[bytes]], list[bytes]], line: int, what: str
) -> None:
    with begun() as journal:
        journal.intend(jobs(0, 1), T0)
    journal.path.write_bytes(b"".join(damage(journal.path.read_bytes().splitlines(keepends=True))))

    with pytest.raises(InvalidFileError) as caught:
        read_run(journal.path)
    assert [(problem.line, problem.message) for problem in caught.value.problems] == [
        (line, f"damaged journal: {what}")
    ]


def test_a_format_of_the_future_asks_for_an_upgrade(
    begun: Callable[..., Journal], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("fairshare.submit.journal.FORMAT", 7)
        begun().close()

    with pytest.raises(InvalidFileError, match="this journal has format 7, this fairshare reads up to 3"):
        list_runs(runs)


def test_a_journal_of_format_1_loads_for_ever(make_planned: MakePlanned) -> None:
    """The file was written by the first version and is never written again."""
    run = read_run(Path(__file__).with_name("journal-format-1.jsonl"))

    assert run.identity == RunIdentity("lunar-otter-3f2a", T0, "us-west-2", "111122223333")
    assert [job.state for job in run.jobs] == ["sent", "failed", "unknown", "waiting"]
    assert run.jobs[3].request == make_planned(3).request
    assert run.jobs[0].secrets == {"HF_TOKEN": SecretRef(from_env="HF_TOKEN")}
    assert run.jobs[1].error == "no such queue"
    assert run.waves == (Wave(1, T0, 0, 2), Wave(2, T0 + 90_000, 2, 2))


def test_a_journal_of_format_2_loads_for_ever() -> None:
    """The file was written by the second version and is never written again."""
    run = read_run(Path(__file__).with_name("journal-format-2.jsonl"))

    assert run.identity == RunIdentity("lunar-otter-3f2a", T0, "us-west-2", "111122223333", "/home/me/jobs.yaml")
    assert [job.state for job in run.jobs] == ["sent", "failed", "unknown", "waiting", "sent", "waiting"]
    assert [job.attempt for job in run.jobs] == [1, 1, 1, 1, 2, 1]
    assert run.jobs[1].status == "FAILED"
    assert run.jobs[4].as_planned().request.job_name == "job-4-try2"
    assert run.jobs[0].request.payload == '{"Environment":{"HF_TOKEN":{"from_env":"HF_TOKEN"},"WANDB_API_KEY":{}}}'


def test_a_journal_of_format_3_loads_for_ever() -> None:
    """The file was written by the third version and is never written again."""
    run = read_run(Path(__file__).with_name("journal-format-3.jsonl"))

    assert [job.state for job in run.jobs] == [
        *("sent", "sent", "failed", "waiting"),
        *("skipped", "skipped", "skipped", "unknown"),
    ]
    assert run.rules == RunRules(
        Gate(T0 + 60_000, Window("20:00", "06:00", (0, 1), "Europe/Berlin")),
        max_in_flight=40,
        auto=AutoWaves(first=4, hold_runnable=True),
        limits=Limits(8, 16, 2 << 30, None),
    )
    assert run.waves == (Wave(1, T0 + 60_000, 0, 4, gap=0), Wave(2, T0 + 150_000, 4, 4))
    assert run.queues == ("p4", "search-ml-gpu", "spare")
    moved, peak, failed = run.jobs[:3]
    assert moved.alternatives == (Alternative("spare"),)
    assert (moved.attempt, moved.job_id, moved.fallback_after) == (2, "id-0b", 1800)
    there = moved.as_planned().request
    assert (there.job_queue, there.job_name, there.share_identifier) == ("p4", "job-0-try2", "HIGHPRI")
    assert (there.scheduling_priority, "ml.p4d.24xlarge" in there.payload) == (0, True)
    assert peak.launch_peak == LaunchPeak(6 << 30, 200 << 20, 90)
    assert (peak.status, peak.started_at, peak.stopped_at) == ("SUCCEEDED", T0 + 3, T0 + 7)
    assert peak.output is not None
    assert peak.output["training"]["metrics"] == {"accuracy": 0.9}
    assert (failed.reason, failed.output) == ("AlgorithmError", None)
    assert [job.after for job in run.jobs[4:7]] == [
        (((1, 2, 3), "ok"),),
        (((0, 2), "any"), ((4,), "failed")),
        (((4,), "ok"),),
    ]
    assert run.jobs[4].skip == Skip("job-2 failed")
    assert run.jobs[5].skip == Skip("nothing before it failed", is_failure=False)


def test_what_jobs_come_after_takes_little_room_and_is_shared(
    runs: Path, identity: RunIdentity, make_planned: MakePlanned
) -> None:
    after = ((tuple(range(1000)), "ok"),)
    planned = [make_planned(index) for index in range(1000)]
    planned += [replace(make_planned(index), after=after) for index in range(1000, 1010)]
    with Journal.create(runs, identity.run_id, HOLDER) as journal:
        journal.begin(identity, plan_waves(len(planned), None, 0, T0), planned)

    assert '"after":[{"jobs":[[0,999]],"when":"ok"}]' in journal.path.read_text()
    later = read_run(journal.path).jobs[1000:]
    assert {job.after for job in later} == {after}
    assert len({id(job.after[0][0]) for job in later}) == 1


def test_an_attempt_begins_without_what_was_known_of_the_one_before(begun: Callable[..., Journal]) -> None:
    with begun() as journal:
        journal.sent(0, ref(0), T0)
        journal.ended(0, "FAILED", T0, reason="AlgorithmError", stopped_at=T0)
        journal.skipped(1, Skip("job-0 failed"), T0)
        journal.intend([replace(each, attempt=2 - each.index) for each in jobs(0, 1)], T0)

    first, second = read_run(journal.path).jobs[:2]
    assert (first.state, first.job_id, first.status, first.reason, first.stopped_at) == ("unknown", *[None] * 4)
    assert (second.state, second.skip) == ("unknown", None)


def test_c46_secret_values_are_not_in_the_file(begun: Callable[..., Journal], runs: Path) -> None:
    payload = canonical_json({"Environment": {"HF_TOKEN": "hf_very_secret", "MODE": "fast"}, "TrainingJobName": "j"})
    secrets = {"HF_TOKEN": SecretRef(from_env="HF_TOKEN")}

    begun(1, payload=payload, secrets=secrets).close()

    text = (runs / "lunar-otter-3f2a.jsonl").read_text()
    (job,) = read_run(runs / "lunar-otter-3f2a.jsonl").jobs
    assert "hf_very_secret" not in text
    assert job.secrets == secrets
    assert json.loads(job.request.payload)["Environment"] == {"HF_TOKEN": {"from_env": "HF_TOKEN"}, "MODE": "fast"}
    assert job.payload_sha256 == payload_sha256(payload)


def test_c08_priority_zero_is_kept(begun: Callable[..., Journal], runs: Path) -> None:
    with begun(1, scheduling_priority=0) as journal:
        journal.intend(jobs(0), T0)
        journal.sent(0, ref(0), T0)

    assert read_run(journal.path).jobs[0].request.scheduling_priority == 0
    assert jobs_by_id(runs) == {"id-0": 0}


def test_priorities_of_all_runs_by_job_id(begun: Callable[..., Journal], runs: Path) -> None:
    with begun(2, "one", scheduling_priority=5) as journal:
        journal.sent(0, ref(0), T0)
        journal.failed(1, "no", T0)
    with begun(1, "fifo", scheduling_priority=None) as journal:
        journal.sent(0, ref(1), T0)
    with begun(2, "damaged", scheduling_priority=9) as journal:
        journal.sent(0, ref(2), T0)
        journal.sent(1, ref(3), T0)
    journal.path.write_bytes(journal.path.read_bytes().replace(b'"job_id":"id-2"', b'"job_id":"id-X"'))

    assert jobs_by_id(runs) == {"id-0": 5, "id-3": 9}
    assert jobs_by_id(runs / "nowhere") == {}


def test_priorities_survive_reopening(begun: Callable[..., Journal], runs: Path) -> None:
    begun(2, scheduling_priority=5).close()
    with Journal.open(runs / "lunar-otter-3f2a.jsonl", HOLDER) as journal:
        journal.sent(1, ref(1), T0)

    assert jobs_by_id(runs) == {"id-1": 5}


def test_runs_are_listed_newest_first(begun: Callable[..., Journal], runs: Path) -> None:
    for run_id, created_at in (("b", T0), ("a", T0), ("c", T0 + 1)):
        begun(1, run_id, created_at).close()

    assert [run.run_id for run in list_runs(runs)] == ["c", "a", "b"]
    assert list_runs(runs / "nowhere") == []


def test_a_damaged_journal_does_not_hide_the_others(begun: Callable[..., Journal], runs: Path) -> None:
    begun(1, "good").close()
    begun(1, "bad").close()
    (runs / "bad.jsonl").write_bytes(b"{}\n")
    damaged: list[InvalidFileError] = []

    assert [run.run_id for run in list_runs(runs, damaged.append)] == ["good"]
    assert [error.problems[0].file for error in damaged] == [str(runs / "bad.jsonl")]
    with pytest.raises(InvalidFileError):
        list_runs(runs)


def test_a_run_is_found_by_a_unique_beginning(begun: Callable[..., Journal], runs: Path) -> None:
    for run_id in ("lunar-otter-3f2a", "lunar-owl-0001", "lunar"):
        begun(1, run_id).close()

    assert find_run(runs, "lunar-ot").run_id == "lunar-otter-3f2a"
    assert find_run(runs, "lunar").run_id == "lunar"
    with pytest.raises(UsageError, match='"lunar-o" fits 2 runs: lunar-otter-3f2a, lunar-owl-0001'):
        find_run(runs, "lunar-o")
    for missing in ("solar", ""):
        with pytest.raises(NotFoundError, match=f'no run goes by "{missing}"'):
            find_run(runs, missing)


def test_c25_a_full_disk_leaves_no_half_record(begun: Callable[..., Journal], monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with begun() as journal:
        journal.intend(jobs(0), T0)
        before = journal.path.read_bytes()
        monkeypatch.setattr(os, "write", lambda file, text: write(file, text[:10]))
        with pytest.raises(FairshareError, match=r"cannot write the journal .*: the disk is full") as caught:
            journal.sent(0, ref(0), T0)
        assert caught.value.hint == "free some space on that disk"
        assert journal.path.read_bytes() == before

        def full(file: int, text: bytes) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(FairshareError, match="No space left on device"):
            journal.sent(0, ref(0), T0)
    assert read_run(journal.path).jobs[0].state == "unknown"


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(FairshareError, match="cannot keep runs in") as caught:
        Journal.create(tmp_path / "file" / "runs", "run-1", HOLDER)
    assert caught.value.hint == "set FAIRSHARE_STATE_DIR to a directory that can be written"


def test_a_run_that_cannot_begin_says_that_nothing_was_sent(
    begun: Callable[..., Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FairshareError, match="No space left on device; nothing was sent"):
        begun()


def test_opening_a_run_that_does_not_exist_leaves_nothing_behind(runs: Path) -> None:
    with pytest.raises(NotFoundError):
        Journal.open(runs / "gone.jsonl", HOLDER)
    assert not runs.exists()
