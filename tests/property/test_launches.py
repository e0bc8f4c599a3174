"""Launch control: whatever happens, limits hold, the window stays within its bounds, and no job waits for ever."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairshare.config.jobs import LaunchPeak, Limits
from fairshare.submit.launches import Launch, LaunchControl, predict_auto

some = st.none() | st.integers(1, 12)
limits = st.builds(Limits, concurrent_launches=some, image_pulls=some, read_bandwidth=some, memory=some)
peaks = st.none() | st.builds(LaunchPeak, memory=some, read=some, seconds=st.none() | st.integers(1, 300))
jobs = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from([None, "a", "b"]), peaks).map(lambda each: Launch(0, *each)),
    max_size=20,
)
signs = st.lists(
    st.tuples(
        st.sampled_from(["accepted", "throttled", "capacity_error", "slow", "started"]),
        st.integers(0, 200_000),
        st.integers(0, 300_000),
    ),
    max_size=60,
)


@given(limits=limits, first=some, signs=signs, jobs=jobs)
@settings(max_examples=150)
def test_limits_hold_and_a_job_alone_is_always_admitted(
    limits: Limits, first: int | None, signs: list[tuple[str, int, int]], jobs: list[Launch]
) -> None:
    control, now = LaunchControl(limits, first=first), 0
    most = min((limit for limit in (limits.concurrent_launches, limits.image_pulls) if limit is not None), default=99)
    for what, later, took in signs:
        now += later
        before = control.ceiling
        if what == "started":
            control.started(Launch(0), took, now)
        else:
            getattr(control, what)(now)
        assert 1 <= control.ceiling <= most
        assert control.ceiling in (before, before + 1, max(1, before // 2))
    launching: list[Launch] = []
    for job in jobs:
        assert control.admits(job, [])
        if control.admits(job, launching):
            launching.append(job)
    if len(launching) > 1:
        assert len(launching) <= control.ceiling
        assert sum(each.instances for each in launching) <= (limits.image_pulls or 10**9)
        assert sum(each.read for each in launching) <= (limits.read_bandwidth or 10**9)
        assert sum(each.memory for each in launching) <= (limits.memory or 10**9)


@given(limits=limits, first=some, jobs=jobs, capacity=st.integers(6, 30), hold=st.booleans(), run=st.integers(0, 500))
@settings(max_examples=150)
def test_the_forecast_sends_every_job_once_and_ends(
    limits: Limits, first: int | None, jobs: list[Launch], capacity: int, hold: bool, run: int
) -> None:
    control = LaunchControl(limits, first=first, hold_runnable=hold)
    found = predict_auto(jobs, control, 60, capacity, run_seconds=[run] * len(jobs))

    sent = [index for wave in found.waves for index in range(wave.first, wave.first + wave.count)]
    assert sent == list(range(len(jobs)))
    assert found.launched_at is not None
    assert found.finish_at is not None
    assert found.finish_at >= found.launched_at >= max((wave.starts_at for wave in found.waves), default=0)
