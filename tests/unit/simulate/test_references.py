"""Strict FIFO on whole public traces: several independent simulators agree on these means and maxima.

The traces are not part of the repository; without the folder beside it the excerpts (`test_runner`) have to do.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.simulate.columns import parse_map
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import single_pool
from fairshare.simulate.trace import TraceFormat, load_trace

TRACES = Path(__file__).parents[4] / "shared" / "traces"
PHILLY = "submit=timestamp,duration=duration,size=num_gpus,share=cluster"

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="the public traces are not beside the repository")


@pytest.mark.parametrize(
    ("file", "how", "capacity", "jobs", "mean", "longest"),
    [
        ("KTH-SP2-1996.swf.gz", TraceFormat(), 100, 28_481, 389_900.7, 1_018_341),
        ("LLNL-Atlas-2006-2.1-cln.swf.gz", TraceFormat(unit=8), 1_152, 36_600, 73.9, 23_256),
        ("philly_adaptdl.csv", TraceFormat(mapped=parse_map(PHILLY)), 512, 82_247, 475_770.4, 901_927),
    ],
    ids=["kth100", "atlas1152", "philly512"],
)
def test_first_in_first_out_waits_as_others_found(
    file: str, how: TraceFormat, capacity: int, jobs: int, mean: float, longest: float
) -> None:
    trace = load_trace(TRACES / file, how)
    course = simulate(trace, single_pool(capacity))
    waits = [start - job.submit_at for start, job in zip(course.first_starts, trace.jobs, strict=True)]

    assert len(waits) == jobs
    assert (round(sum(waits) / len(waits) / 1000, 1), max(waits) / 1000) == (mean, longest)
    if "philly" in file:
        used = sum(job.run_time * job.demand for job in trace.jobs)
        assert round(used / capacity / course.end, 4) == 0.7309
    if "KTH" in file:
        assert course.end == 29_381_344_000
