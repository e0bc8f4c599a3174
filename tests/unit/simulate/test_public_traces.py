"""Column maps for public traces, on excerpts of them: what `docs/simulate.md` says reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.simulate.columns import parse_map
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import single_pool
from fairshare.simulate.trace import TraceFormat, load_trace

Job = tuple[str, float, float, int, str, int]
"""(id, submitted and run time in seconds, size, share, priority)."""

GUIDE = Path(__file__).parents[3] / "docs" / "simulate.md"
TRACES: dict[str, tuple[str, list[Job]]] = {
    "helios-3.csv": (
        "submit=submit_time,duration=duration,size=gpu_num,share=vc,id=job_id",
        [
            ("1425511", 0, 36_848, 1, "vcJkd", 0),
            ("1425512", 26, 249, 4, "vchbv", 0),
            ("1425513", 27, 675_233, 1, "vcpDC", 0),
        ],
    ),
    "acme-seren-2.csv": (
        "submit=submit_time,duration=duration,size=gpu_num,share=user,id=job_id",
        [("5778432", 0, 117, 8, "u5907", 0), ("5778469", 336, 2_693, 8, "u5907", 0)],
    ),
    "acme-kalos-2.csv": (
        "submit=submit_time,duration=duration,size=gpu_num,share=user,id=job_id",
        [("dlctk696s0jbvitv", 0, 18, 64, "uf794", 0), ("dlc1t2ypl09b8qtp", 1_664, 82, 64, "uf794", 0)],
    ),
    "elasticflow-4.csv": (
        "submit=submit_time,duration=duration,size=num_gpu,id=job_id",
        [
            ("0", 0, 976_570, 1, "all", 0),
            ("1", 219_316, 1_792_395, 4, "all", 0),
            ("2", 251_674, 23_487, 1, "all", 0),
            ("3", 251_699, 23_367, 1, "all", 0),
        ],
    ),
    "muri-4.csv": (
        "submit=submit_time,duration=duration,size=num_gpu,priority=priority,id=job_id,time=ms",
        [
            ("0", 0, 927_475, 4, "all", 0),
            ("1", 1_456, 926_133, 4, "all", 1),
            ("2", 352_430, 575_169, 4, "all", 0),
            ("3", 352_712, 842_781, 4, "all", 1),
        ],
    ),
    "tiresias-4.csv": (
        "submit=submit_time,duration=duration,size=num_gpu,id=job_id",
        [
            ("0", 0, 164, 1, "all", 0),
            ("1", 30, 147, 8, "all", 0),
            ("2", 53, 127, 2, "all", 0),
            ("3", 79, 121, 1, "all", 0),
        ],
    ),
    "nasa-5.swf": (
        "",
        [
            ("5", 0, 2_927, 128, "user1", 0),
            ("57", 8_373, 10, 1, "user4", 0),
            ("59", 9_412, 716, 32, "user4", 0),
            ("60", 10_130, 7, 1, "user4", 0),
            ("61", 10_767, 69, 2, "user5", 0),
        ],
    ),
}


def how(mapped: str, unit: int = 1) -> TraceFormat:
    return TraceFormat(mapped=parse_map(mapped) if mapped else {}, unit=unit)


@pytest.mark.parametrize("file", TRACES)
def test_a_public_trace_is_read_by_its_map(data: Path, file: str) -> None:
    mapped, jobs = TRACES[file]
    trace = load_trace(data / file, how(mapped))

    found = [(j.id, j.submit_at / 1000, j.run_time / 1000, j.demand, j.share, j.priority) for j in trace.jobs]
    assert (found, trace.left_out) == (jobs, 0)
    course = simulate(trace, single_pool(max(job.demand for job in trace.jobs)))
    assert len(course.jobs) == len(jobs)


@pytest.mark.parametrize("file", TRACES)
def test_the_guide_has_the_map(file: str) -> None:
    assert f"`{TRACES[file][0]}`" in GUIDE.read_text() or not TRACES[file][0]


def test_run_times_and_instants_agree_where_a_trace_has_both(data: Path) -> None:
    """Helios tells a run time and when it began and ended: calculating with columns gives the same jobs."""
    calculated = "submit=submit_time,duration=end_time-start_time,size=gpu_num,share=vc,id=job_id"
    told, _ = TRACES["helios-3.csv"]

    assert load_trace(data / "helios-3.csv", how(calculated)).jobs == load_trace(data / "helios-3.csv", how(told)).jobs


def test_eight_gpus_are_an_instance(data: Path) -> None:
    mapped, _ = TRACES["acme-kalos-2.csv"]

    assert [job.demand for job in load_trace(data / "acme-kalos-2.csv", how(mapped, unit=8)).jobs] == [8, 8]
