"""``fairshare submit`` beside the SDK's own ``TrainingQueue.map``: as many jobs, to the same local AWS, in one run.
Not run by default:

``pytest -s tests/bench/test_bench_sdk.py -o addopts=``

Each side is a whole process, from its start to its end, with a source tree of 20 files; nothing limits the rate of
either. The SDK needs minutes for a thousand jobs, so they are sent with ``FAIRSHARE_BENCH_SDK_MANY=1`` only: else what
it needs for them is reckoned from its times for one job and for 200.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import boto3
import pytest

REGION = "us-west-2"
BUCKET = "bench-bucket"
QUEUE = "bench-gpu"
IMAGE = "123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1"
FILES = 20
JOBS = 200
MANY = 1_000

ROUNDS = 3
"""Of ours, the first before the SDK's and the others after it: what else the machine does meets both."""

SDK = """
import sys
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.training.configs import Compute, SourceCode
from sagemaker.train.aws_batch.training_queue import TrainingQueue
from sagemaker.train.model_trainer import ModelTrainer

source, bucket, image, queue, count = sys.argv[1:]
trainer = ModelTrainer(
    sagemaker_session=Session(default_bucket=bucket),
    role="MLTraining",
    training_image=image,
    source_code=SourceCode(source_dir=source, entry_script="train.py"),
    compute=Compute(instance_type="ml.g6.12xlarge", instance_count=1),
    base_job_name="digits",
    environment={"FAIRSHARE_SIM_SECONDS": "36000"},
    hyperparameters={"lr": 0.1},
)
names = [f"sdk-{count}-{index}" for index in range(int(count))]
jobs = TrainingQueue(queue).map(trainer, [None] * int(count), names, share_identifier="LOWPRI", priority=10)
assert len({job.job_arn for job in jobs}) == int(count)
"""

PROJECT = f"""
version: 1
stack: bench
region: {REGION}
service_environments:
  gpu: {{capacity: 8, instance_types: [ml.g6.12xlarge]}}
queues:
  gpu:
    service_environment: gpu
    fairshare: {{shares: {{HIGHPRI: {{weight_factor: 1}}, LOWPRI: {{weight_factor: 5}}}}}}
defaults: {{queue: gpu, share: LOWPRI, priority: 10, role: MLTraining, image: "{IMAGE}", max_runtime: 24h}}
"""

JOB_FILE = """
jobs:
  - name: digits
    source: {{dir: src, entry: train.py}}
    compute: {{instance_type: ml.g6.12xlarge}}
    environment: {{FAIRSHARE_SIM_SECONDS: "36000"}}
    hyperparameters: {{lr: 0.1}}
    sweep: {{seed: {{range: [0, {count}]}}}}
"""


@dataclass(frozen=True)
class Measured:
    """A whole process and its children: wall and processor time in seconds, the most memory held at once in bytes."""

    seconds: float
    busy: float
    peak: int


class Bench:
    """A local AWS with a queue, and a project that uses it."""

    def __init__(self, address: Mapping[str, str], project: Path, log: Path) -> None:
        self.project = project
        self._runs = 0
        self._log = log
        self._address = address
        self._environ = {
            **os.environ,
            "AWS_ENDPOINT_URL": address["endpoint_url"],
            "AWS_ACCESS_KEY_ID": address["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": address["secret_access_key"],
            "AWS_DEFAULT_REGION": REGION,
            "FAIRSHARE_STATE_DIR": str(project / "state"),
        }
        (project / "fairshare.yaml").write_text(PROJECT)
        (project / "src").mkdir()
        for number in range(FILES - 1):
            (project / f"src/module_{number}.py").write_text(f"VALUE = {number}\n" * 50)
        (project / "src/train.py").write_text("print('hello')\n")

    def client(self, service: str) -> Any:
        """Return a client of the local AWS."""
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self._address["endpoint_url"],
            aws_access_key_id=self._address["access_key_id"],
            aws_secret_access_key=self._address["secret_access_key"],
        )

    def sdk(self, count: int) -> Measured:
        """Send jobs with the SDK alone."""
        return self._measured("-c", SDK, str(self.project / "src"), BUCKET, IMAGE, QUEUE, str(count))

    def ours(self, count: int) -> Measured:
        """Send as many with one command, with a source that S3 has not seen."""
        self._runs += 1
        (self.project / "src/train.py").write_text(f"print('run {self._runs}')\n")
        (self.project / "jobs.yaml").write_text(JOB_FILE.format(count=count))
        run = f"run-{self._runs}"
        return self._measured("-m", "fairshare", "submit", "jobs.yaml", "--run-id", run, "--rate", "0", "-o", "json")

    def uploaded(self, bucket: str, part: str) -> list[str]:
        """Return the keys in a bucket that hold ``part``."""
        pages = self.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [item["Key"] for page in pages for item in page.get("Contents", ()) if part in item["Key"]]

    @property
    def own_bucket(self) -> str:
        """Return the bucket that fairshare uses without being told one."""
        return f"sagemaker-{REGION}-{self.client('sts').get_caller_identity()['Account']}"

    def setup(self) -> None:
        """Make the queue, and what the SDK uploads to."""
        self._measured("-m", "fairshare", "setup", "--yes")
        self.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})

    def _measured(self, *arguments: str) -> Measured:
        with self._log.open("wb") as log:
            began = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, *arguments], cwd=self.project, env=self._environ, stdout=log, stderr=log
            )
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, self._log.read_text()[-4000:]
        return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A server in a process of its own whose jobs are simulated and never end during the bench."""
    directory = tmp_path_factory.mktemp("bench")
    ready = directory / "ready.json"
    command = [sys.executable, "-m", "fairshare", "local", "start", "--foreground", "--launcher", "simulated"]
    command += ["--state-dir", str(directory / "local"), "--ready-file", str(ready)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        pause = threading.Event()
        for _ in range(1_500):
            if ready.exists():
                break
            pause.wait(0.02)
        (directory / "project").mkdir()
        made = Bench(json.loads(ready.read_text()), directory / "project", directory / "last.log")
        made.setup()
        yield made
    finally:
        process.terminate()
        process.wait(60)


def report(name: str, measured: Measured) -> None:
    figures = f"{measured.seconds:.1f} s ({measured.busy:.1f} s busy), {measured.peak / 2**20:.0f} MiB"
    print(f"\n{name}: {figures}", end="")


def test_two_hundred_jobs_in_a_twentieth_of_the_sdks_time(bench: Bench) -> None:
    rounds = [bench.ours(JOBS)]
    sdk = bench.sdk(JOBS)
    rounds += [bench.ours(JOBS) for _ in range(ROUNDS - 1)]
    report(f"SDK, {JOBS} jobs", sdk)
    for each in rounds:
        report(f"fairshare, {JOBS} jobs", each)
    seconds = median(each.seconds for each in rounds)
    memory = max(each.peak for each in rounds) / sdk.peak
    print(f"\ntime: 1/{sdk.seconds / seconds:.0f} (at most 1/20), peak memory: {memory:.2f} x (at most 1.1)")
    assert len(bench.uploaded(bench.own_bucket, "fairshare/source/")) == ROUNDS * FILES, "once, not once for each job"
    assert seconds <= sdk.seconds / 20
    assert memory <= 1.1


def test_a_thousand_jobs(bench: Bench) -> None:
    ours = bench.ours(MANY)
    report(f"fairshare, {MANY} jobs", ours)
    if os.environ.get("FAIRSHARE_BENCH_SDK_MANY"):
        sdk, how = bench.sdk(MANY).seconds, "measured"
    else:
        one, some = bench.sdk(1).seconds, bench.sdk(JOBS).seconds
        sdk, how = one + (some - one) / (JOBS - 1) * (MANY - 1), f"reckoned from 1 job and {JOBS}"
    print(f"\nSDK, {MANY} jobs: {sdk:.0f} s, {how}\ntime: 1/{sdk / ours.seconds:.0f} of the SDK's (at most 1/20)")
    assert ours.seconds <= sdk / 20
