"""How fast the local AWS takes jobs, beside plain moto on the same machine in the same run. Not run by default:

``pytest -s tests/bench/test_bench_submit.py -o addopts=``
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

REGION = "us-west-2"
ROUNDS = 5
CALLS = 200
"""Of each kind in each round; the rounds alternate, so that a busy moment of the machine meets both."""

MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


class Submitter:
    """Sends one request again and again, without the cost of a client library."""

    def __init__(self, url: str, key: str, path: str, body: dict[str, Any]) -> None:
        self._address = urlsplit(url).netloc
        self._path = path
        self._body = json.dumps(body).encode()
        scope = f"{key}/20261130/{REGION}/batch/aws4_request"
        self._headers = {
            "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
            "Content-Type": "application/json",
        }

    def send(self) -> bytes:
        connection = http.client.HTTPConnection(self._address, timeout=30)
        connection.request("POST", self._path, body=self._body, headers=self._headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        assert response.status == 200, content
        return content

    def seconds_for(self, calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            self.send()
        return time.perf_counter() - begin


@pytest.fixture
def local(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A server with persistence in a process of its own; gives what its ready file says."""
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-m", "fairshare", "local", "start", "--foreground", "--launcher", "simulated"]
    command += ["--state-dir", str(tmp_path / "state"), "--ready-file", str(ready)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        pause = threading.Event()
        for _ in range(1_500):
            if ready.exists():
                break
            pause.wait(0.02)
        yield json.loads(ready.read_text())
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def plain_moto() -> Iterator[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-c", MOTO], text=True, **pipes)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def client(service: str, url: str, key: str = "testing", secret: str = "testing") -> Any:
    return boto3.client(
        service, region_name=REGION, endpoint_url=url, aws_access_key_id=key, aws_secret_access_key=secret
    )


def ours(local: dict[str, str], payload_bytes: int = 1_500) -> Submitter:
    """A fair-share queue of 8, and a job with a payload of a usual size."""
    batch = client("batch", local["endpoint_url"], local["access_key_id"], local["secret_access_key"])
    batch.create_service_environment(
        serviceEnvironmentName="gpu",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 8, "capacityUnit": "NUM_INSTANCES"}],
    )
    shares = [{"shareIdentifier": "HIGHPRI", "weightFactor": 1}, {"shareIdentifier": "LOWPRI", "weightFactor": 5}]
    policy = batch.create_scheduling_policy(name="shares", fairsharePolicy={"shareDistribution": shares})
    batch.create_job_queue(
        jobQueueName="gpu",
        priority=1,
        schedulingPolicyArn=policy["arn"],
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "gpu"}],
    )
    payload = {
        "TrainingJobName": "job",
        "ResourceConfig": {"InstanceType": "ml.g6.12xlarge", "InstanceCount": 1},
        "Environment": {"FAIRSHARE_SIM_SECONDS": "600", "PADDING": "x" * payload_bytes},
    }
    body = {
        "jobName": "job",
        "jobQueue": "gpu",
        "serviceJobType": "SAGEMAKER_TRAINING",
        "shareIdentifier": "HIGHPRI",
        "serviceRequestPayload": json.dumps(payload),
    }
    return Submitter(local["endpoint_url"], local["access_key_id"], "/v1/submitservicejob", body)


def moto_s(url: str) -> Submitter:
    """moto's own SubmitJob, without Docker."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.request("POST", "/moto-api/config", body=json.dumps({"batch": {"use_docker": False}}))
    assert connection.getresponse().status == 201
    connection.close()
    iam, batch = client("iam", url), client("batch", url)
    role = iam.create_role(RoleName="role", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    environment = batch.create_compute_environment(
        computeEnvironmentName="env", type="UNMANAGED", state="ENABLED", serviceRole=role
    )["computeEnvironmentArn"]
    order = [{"order": 1, "computeEnvironment": environment}]
    batch.create_job_queue(jobQueueName="queue", state="ENABLED", priority=1, computeEnvironmentOrder=order)
    properties = {"image": "any", "vcpus": 1, "memory": 128, "command": ["true"]}
    batch.register_job_definition(jobDefinitionName="definition", type="container", containerProperties=properties)
    body = {"jobName": "job", "jobQueue": "queue", "jobDefinition": "definition"}
    return Submitter(url, "testing", "/v1/submitjob", body)


def test_jobs_are_taken_at_half_the_rate_of_plain_moto_or_faster(local: dict[str, str], plain_moto: str) -> None:
    submitters = {"local AWS, SubmitServiceJob": ours(local), "plain moto, SubmitJob": moto_s(plain_moto)}
    seconds = dict.fromkeys(submitters, 0.0)
    for submitter in submitters.values():
        submitter.seconds_for(20)
    for _ in range(ROUNDS):
        for name, submitter in submitters.items():
            seconds[name] += submitter.seconds_for(CALLS)
    rates = {name: ROUNDS * CALLS / spent for name, spent in seconds.items()}
    for name, rate in rates.items():
        print(f"\n{name}: {rate:.0f} a second", end="")
    ratio = rates["local AWS, SubmitServiceJob"] / rates["plain moto, SubmitJob"]
    print(f"\nratio: {ratio:.2f} (at least 0.5)")
    assert ratio >= 0.5


def test_listing_costs_as_much_as_its_pages(local: dict[str, str]) -> None:
    """A page of 100 takes as long with 10,000 jobs as with 1,000: no page looks at the jobs before it."""
    submitter = ours(local, payload_bytes=0)
    batch = client("batch", local["endpoint_url"], local["access_key_id"], local["secret_access_key"])

    def per_page() -> tuple[int, float]:
        pages = batch.get_paginator("list_service_jobs").paginate(
            jobQueue="gpu", jobStatus="RUNNABLE", PaginationConfig={"PageSize": 100}
        )
        begin = time.perf_counter()
        sizes = [len(page["jobSummaryList"]) for page in pages]
        return len(sizes), (time.perf_counter() - begin) / len(sizes)

    measured: dict[int, tuple[int, float]] = {}
    for total in (1_000, 10_000):
        for _ in range(total - max(measured, default=0)):
            submitter.send()
        measured[total] = best_of(3, per_page)
        pages, seconds = measured[total]
        print(f"\n{total} jobs: {pages} pages, {seconds * 1000:.1f} ms a page", end="")
    assert 99 <= measured[10_000][0] <= 101
    ratio = measured[10_000][1] / measured[1_000][1]
    print(f"\nratio: {ratio:.2f} (at most 2)")
    assert ratio <= 2


def best_of(times: int, measure: Callable[[], tuple[int, float]]) -> tuple[int, float]:
    return min((measure() for _ in range(times)), key=lambda measured: measured[1])
