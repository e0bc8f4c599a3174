"""What training scripts use is measured while they run, and published as SageMaker does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fairshare.local.processes.allotment import Allotment

NAMESPACE = "/aws/sagemaker/TrainingJobs"
BUSY = """
import subprocess, sys, time
while time.process_time() < 0.6: pass
subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.9: pass"])
"""
HOLDING = """
import os, pathlib, time
pathlib.Path(os.environ["TMPDIR"], "spilled").write_bytes(os.urandom(64 << 20))
memory = b"x" * (160 << 20)
time.sleep(2.2)
"""


def series(bench: Any, attempt: Any, name: str) -> list[tuple[datetime, float]]:
    """What CloudWatch has of a host, oldest first."""
    now = datetime.now(UTC)
    metric = {
        "Namespace": NAMESPACE,
        "MetricName": name,
        "Dimensions": [{"Name": "Host", "Value": f"{attempt.training_job_name}/algo-1"}],
    }
    (result,) = bench.endpoint.client("cloudwatch", attempt.region).get_metric_data(
        MetricDataQueries=[{"Id": "q", "MetricStat": {"Metric": metric, "Period": 1, "Stat": "Sum"}}],
        StartTime=now - timedelta(seconds=60),
        EndTime=now + timedelta(seconds=1),
        ScanBy="TimestampAscending",
    )["MetricDataResults"]
    return list(zip(result["Timestamps"], result["Values"], strict=True))


def test_two_jobs_at_once_are_told_apart(bench: Any) -> None:
    """One keeps a core busy, in a process that has ended too; one sleeps, and holds memory and files."""
    bench.configure(metrics_period=1, allotment=Allotment(cores=2, memory_bytes=256 << 20))
    busy, holding = bench.start(bench.request(BUSY)), bench.start(bench.request(HOLDING))
    for attempt in (busy, holding):
        assert bench.end(attempt).reason is None

    cpu, rest = (series(bench, attempt, "CPUUtilization") for attempt in (busy, holding))
    assert 1 <= len(cpu) <= 8
    assert sum(value for _, value in cpu) > 60, "1.5 s of one core, 100 for each second of it"
    assert all(0 <= value <= 200 for _, value in cpu + rest), "ml.m5.large has two vCPUs"
    assert sum(value for _, value in cpu) > sum(value for _, value in rest)

    memory = [value for _, value in series(bench, holding, "MemoryUtilization")]
    assert 25 <= max(memory) < 80, "160 MiB of 256, and less before it had them"
    assert max(value for _, value in series(bench, busy, "MemoryUtilization")) < 25
    disk = [value for _, value in series(bench, holding, "DiskUtilization")]
    assert 6.2 <= disk[-1] < 7, "64 MiB of a volume of 1 GiB"
    assert series(bench, holding, "GPUUtilization") == []
