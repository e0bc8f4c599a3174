"""Builders and in-memory adapters for the tests of submission."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec, Origin, SecretRef
from fairshare.config.project import Defaults, FairshareConfig, Project, QueueConfig, ServiceEnvironmentConfig
from fairshare.config.sweeps import read_sweep
from fairshare.model import JobDetail, JobRef, JobRequest, JobStatus, JobSummary, QueueSnapshot
from fairshare.submit.holder import Holder
from fairshare.submit.ports import BuiltPayload, Upload
from fairshare.submit.requests import PlannedJob, RunIdentity, client_token
from fairshare.submit.resolve import QueueFacts

T0 = 1_764_500_000_000
"""Some instant, ms."""


class FakePayloads:
    """Makes payloads in SageMaker's shape, counts builds, remembers uploads."""

    def __init__(self) -> None:
        self.built: list[JobSpec] = []
        self.uploaded: list[Upload] = []
        self.extra: dict[str, Any] = {}
        self.warnings: tuple[str, ...] = ()
        self.error: Exception | None = None

    def build(self, spec: JobSpec) -> BuiltPayload:
        self.built.append(spec)
        if self.error is not None:
            raise self.error
        values = {key: "s3cret" if isinstance(value, SecretRef) else value for key, value in spec.environment.items()}
        payload = {
            "AlgorithmSpecification": {"TrainingImage": spec.image, "TrainingInputMode": "File"},
            "RoleArn": spec.role,
            "HyperParameters": {key: str(value) for key, value in spec.hyperparameters.items()},
            "Environment": values,
            "ResourceConfig": {"InstanceType": spec.instance_type, "InstanceCount": spec.instance_count},
            "StoppingCondition": {"MaxRuntimeInSeconds": spec.max_runtime or 86_400},
            **self.extra,
        }
        upload = Upload("s3://bucket/fairshare/source/abc/train.py", b"print()", f"source of {spec.name}")
        return BuiltPayload(payload, (upload,), {"sdk": "yes"}, self.warnings)

    def upload(self, uploads: Sequence[Upload]) -> int:
        self.uploaded += uploads
        return len(uploads)


class FakeBackend:
    """Batch in memory. ``answers`` are taken first: an exception is raised, a callable is called with the request."""

    def __init__(self) -> None:
        self.calls: list[JobRequest] = []
        self.jobs: dict[str, JobRequest] = {}
        self.answers: list[Exception | Callable[[JobRequest], JobRef]] = []
        self.failed: list[str] = []
        """Ids of jobs that have ended FAILED."""

    def submit(self, request: JobRequest) -> JobRef:
        self.calls.append(request)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer(request)
        return self.accept(request)

    def accept(self, request: JobRequest) -> JobRef:
        self.jobs[request.client_token] = request
        job_id = f"id-{list(self.jobs).index(request.client_token)}"
        return JobRef(job_id, f"arn:aws:batch:us-west-2:111122223333:service-job/{job_id}", request.job_name)

    def find(self, queue: str, job_name: str) -> JobSummary | None:
        for number, request in enumerate(self.jobs.values()):
            if request.job_name == job_name:
                return JobSummary(f"id-{number}", f"arn/id-{number}", job_name, "RUNNABLE", T0)
        return None

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        found = {f"id-{number}": request for number, request in enumerate(self.jobs.values())}
        return {
            job_id: JobDetail(job_id, f"arn/{job_id}", found[job_id].job_name, "RUNNABLE", T0, tags=found[job_id].tags)
            for job_id in job_ids
            if job_id in found
        }

    def list(self, queue: str, statuses: Collection[JobStatus] | None = None) -> list[JobSummary]:
        return [JobSummary(job_id, f"arn/{job_id}", job_id, "FAILED", T0) for job_id in self.failed]

    def snapshot(self, queue: str) -> QueueSnapshot:
        raise AssertionError("submission takes no snapshot")

    def update_priority(self, job_id: str, scheduling_priority: int) -> None:
        raise AssertionError("submission changes no priority")

    def terminate(self, job_id: str, reason: str) -> None:
        raise AssertionError("submission ends no job")


@pytest.fixture
def payloads() -> FakePayloads:
    return FakePayloads()


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    return folder


@pytest.fixture
def make_job(source: Path) -> Callable[..., JobSpec]:
    """A job that is complete and right; keyword arguments change it. A sweep is given as it is written."""

    def make(name: str = "digits", **changes: Any) -> JobSpec:
        if "sweep" in changes:
            changes["sweep"] = read_sweep(changes["sweep"])
        job = JobSpec(
            name=name,
            origin=Origin("jobs.yaml", 3, 5),
            source_dir=source,
            entry="train.py",
            instance_type="ml.g6.12xlarge",
            queue="gpu",
            share="HIGHPRI",
            priority=10,
            role="MLTraining",
            image="111122223333.dkr.ecr.us-west-2.amazonaws.com/train:1",
        )
        return replace(job, **changes)

    return make


@pytest.fixture
def project() -> Project:
    """A fair-share queue ``gpu`` of 16 instances and a FIFO queue ``batch`` of 8."""
    return make_project()


def make_project(*, capacity: int = 16, reservation: int = 0, defaults: Mapping[str, Any] | None = None) -> Project:
    return Project(
        stack="search-ml",
        region="us-west-2",
        service_environments={
            "gpu": ServiceEnvironmentConfig(capacity=capacity, instance_types=("ml.g6.12xlarge",)),
            "cpu": ServiceEnvironmentConfig(capacity=8, instance_types=("ml.c5.2xlarge",)),
        },
        queues={
            "gpu": QueueConfig(
                service_environment="gpu",
                fairshare=FairshareConfig(
                    compute_reservation=reservation, shares={"HIGHPRI": "1", "MIDPRI": "3", "LOWPRI": "5"}
                ),
            ),
            "batch": QueueConfig(service_environment="cpu"),
        },
        defaults=Defaults(**(defaults or {})),
    )


@pytest.fixture
def project_with() -> Callable[..., Project]:
    """`project` with another capacity, reservation or defaults."""
    return make_project


@pytest.fixture
def identity() -> RunIdentity:
    return RunIdentity("lunar-otter-3f2a", T0, "us-west-2", "111122223333")


@pytest.fixture
def make_planned() -> Callable[..., PlannedJob]:
    """A planned job without the work of preparing it."""

    def make(index: int, wave: int = 1, run_id: str = "lunar-otter-3f2a", **changes: Any) -> PlannedJob:
        payload = changes.pop("payload", f'{{"TrainingJobName":"job-{index}"}}')
        secrets = changes.pop("secrets", {})
        request = JobRequest(
            job_name=f"job-{index}",
            job_queue="search-ml-gpu",
            payload=payload,
            client_token=client_token(run_id, index, payload),
            share_identifier="LOWPRI",
            scheduling_priority=20,
            tags={"fairshare:run": run_id},
        )
        return PlannedJob(index, wave, replace(request, **changes), secrets)

    return make


@pytest.fixture
def holder() -> Holder:
    """This process, as the holder of a run."""
    return Holder("fairshare submit", T0)


@pytest.fixture
def facts() -> QueueFacts:
    return QueueFacts(
        name="search-ml-gpu",
        key="gpu",
        is_fair_share=True,
        capacity=16,
        weights={"HIGHPRI": "1", "LOWPRI": "5"},
        instance_types=("ml.g6.12xlarge",),
    )
