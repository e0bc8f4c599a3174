"""Waves and names: every job exactly once, no name twice, whatever was asked for."""

from __future__ import annotations

import itertools
import random
import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fairshare.config.times import parse_window
from fairshare.scheduler.clock import VirtualClock
from fairshare.submit.naming import SURVIVING, assign_names, new_run_id
from fairshare.submit.rate import Pace
from fairshare.submit.waves import Timetable, plan_waves, sent_after_seconds, timetable
from fairshare.submit.windows import Gate, opens_at

BATCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
TRAINING_JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")

labels = st.lists(
    st.one_of(
        st.sampled_from(["digits", "Digits", "a", "a-2", "a_2", "a" * 200, "x" * 23, "x" * 20, "x" * 20 + "-2", ""]),
        st.text(alphabet="ab-_01", max_size=30),
        st.text(max_size=10),
        st.builds("bert-large-pretraining-lr{}-seed{}".format, st.sampled_from(["0-1", "0-01"]), st.integers(0, 3)),
    ),
    max_size=40,
)


@given(count=st.integers(0, 500), size=st.none() | st.integers(1, 600), interval=st.integers(0, 10_000))
def test_waves_cover_all_jobs_exactly_once(count: int, size: int | None, interval: int) -> None:
    waves = plan_waves(count, size, interval, 1_000)

    assert [index for wave in waves for index in range(wave.first, wave.first + wave.count)] == list(range(count))
    assert [wave.number for wave in waves] == list(range(1, len(waves) + 1))
    assert all(wave.count == size for wave in waves[:-1])
    assert all(0 < wave.count <= (size or count) for wave in waves)
    assert all(later.starts_at - earlier.starts_at == interval * 1_000 for earlier, later in pairwise(waves))
    assert len(timetable(waves, 4.9)) <= 8


@given(
    count=st.integers(1, 300), size=st.integers(1, 50), interval=st.integers(0, 60), rate=st.sampled_from([0.5, 4.9, 5])
)
def test_the_predicted_end_is_what_the_token_bucket_gives(count: int, size: int, interval: int, rate: float) -> None:
    waves = plan_waves(count, size, interval, 0)
    pace, now = Pace(random.Random(0), rate), 0
    for wave in waves:
        now = max(now, wave.starts_at)
        for _ in range(wave.count):
            now = max(now, pace.reserve(now))

    end_of_last_slot = now / 1_000 + 1 / rate
    assert abs(sent_after_seconds(waves, rate) - end_of_last_slot) <= 1 + 1 / rate


WINDOW = parse_window("mon,tue,thu,sat 21:30-03:15 Europe/Berlin")
HOUR = 3_600_000
upsets = st.lists(st.tuples(st.integers(0, 40), st.integers(-30 * HOUR, 30 * HOUR)), max_size=4)
instants = st.integers(1_790_000_000_000, 1_806_000_000_000)  # September 2026 to March 2027: clocks change twice


@given(start=instants, gap=st.integers(1, 5 * 3600), is_timed=st.booleans(), has_window=st.booleans(), upsets=upsets)
def test_waves_keep_their_distance_and_their_window_whatever_is_done_to_the_wall_clock(
    start: int, gap: int, is_timed: bool, has_window: bool, upsets: list[tuple[int, int]]
) -> None:
    window = WINDOW if has_window else None
    gate = Gate(start + HOUR if is_timed else None, window)
    waves = plan_waves(6, 1, gap, start + HOUR if is_timed else start, window, timed=is_timed)
    table, clock, began = Timetable(waves, gate), VirtualClock(start), []
    jumps = dict(upsets)
    for look in itertools.count():
        due = table.due(clock.now(), clock.wall())
        if due is None:
            break
        if due <= clock.now():
            began.append((clock.now(), clock.wall()))
            table.started(clock.now())
        else:
            clock.sleep_until(min(due, clock.now() + 6 * HOUR))
        clock.jump(jumps.get(look, 0))

    assert all(later - earlier >= gap * 1_000 for (earlier, _), (later, _) in pairwise(began))
    assert window is None or all(opens_at(window, wall) == wall for _, wall in began)
    assert not is_timed or began[0][1] >= start + HOUR
    if window is None:
        assert all(later - earlier == gap * 1_000 for (earlier, _), (later, _) in pairwise(began))


@given(run_id=st.text(min_size=1, max_size=20), labels=labels)
def test_names_are_legal_and_unique_within_a_run(run_id: str, labels: list[str]) -> None:
    names = assign_names(run_id, labels)

    assert len(names) == len(labels)
    for each in names:
        assert BATCH_NAME.fullmatch(each.job_name)
        assert TRAINING_JOB_NAME.fullmatch(each.training_job_name)
    assert len({each.job_name.lower() for each in names}) == len(labels)
    survivors = {each.training_job_name[:SURVIVING].rstrip("-").lower() for each in names}
    assert len(survivors) == len(labels), "unique in what Batch keeps, too"


@given(seed=st.integers(0, 2**32), labels=labels)
def test_two_runs_of_the_same_second_share_no_name(seed: int, labels: list[str]) -> None:
    rng = random.Random(seed)
    one, other = (assign_names(new_run_id(rng), labels) for _ in range(2))

    assert not {each.job_name for each in one} & {each.job_name for each in other}
    assert not {each.training_job_name for each in one} & {each.training_job_name for each in other}
