"""How long ``fairshare simulate`` takes on 82,247 jobs under two policies, beside a 10-line simpy run. Run by hand:

``pytest -s tests/bench/test_bench_simulate.py -o addopts=``

The whole command counts: starting Python, reading the trace, both simulations, all figures. Of simpy's only the run.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest

from fairshare.simulate.columns import parse_map
from fairshare.simulate.trace import TraceFormat, load_trace
from fairshare.simulate.workload import Workload

simpy = pytest.importorskip("simpy")

TRACE = Path(__file__).parents[3] / "shared" / "traces" / "philly_adaptdl.csv"
MAP = "submit=timestamp,duration=duration,size=num_gpus,share=cluster"
CAPACITY = 512
ROUNDS = 5
"""They alternate, so that a busy moment of the machine meets both."""

PROJECT = f"""\
version: 1
stack: bench
service_environments: {{gpu: {{capacity: {CAPACITY}, instance_types: [ml.g6.12xlarge]}}}}
queues: {{gpu: {{service_environment: gpu, fairshare: {{share_decay_seconds: 86400}}}}}}
"""


def simpy_seconds(workload: Workload) -> float:
    began = time.perf_counter()
    env = simpy.Environment()
    pool = simpy.Container(env, CAPACITY, CAPACITY)

    def job(run_time, demand):
        yield pool.get(demand)
        yield env.timeout(run_time)
        yield pool.put(demand)

    def arrivals():
        for each in workload.jobs:
            yield env.timeout(each.submit_at - env.now)
            env.process(job(each.run_time, each.demand))

    env.process(arrivals())
    env.run()
    return time.perf_counter() - began


def command_seconds(folder: Path) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "fairshare", "simulate", "--trace", str(TRACE), "--map", MAP, "-o", "json"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - began


@pytest.mark.skipif(not TRACE.is_file(), reason="the public traces are not beside the repository")
def test_two_policies_on_philly_take_less_than_ten_bare_runs(tmp_path: Path) -> None:
    (tmp_path / "fairshare.yaml").write_text(PROJECT)
    workload = load_trace(TRACE, TraceFormat(mapped=parse_map(MAP)))
    rounds = [(simpy_seconds(workload), command_seconds(tmp_path)) for _ in range(ROUNDS)]
    ratio = median(ours / bare for bare, ours in rounds)
    bare, ours = (median(each) for each in zip(*rounds, strict=True))
    print(f"\nsimpy {bare:.2f} s, fairshare simulate under two policies {ours:.2f} s: {ratio:.1f} times")

    assert ratio < 10
