"""A small project, and what AWS would answer after it was set up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fairshare.config.alarms import AlarmsSection
from fairshare.config.project import FairshareConfig, Project, QueueConfig, ServiceEnvironmentConfig
from fairshare.model import FairsharePolicy, JobQueue, SchedulingPolicy, ServiceEnvironment, ShareAttributes
from fairshare.provision.desired import Desired, desired_state
from fairshare.provision.observed import Observed

ARN = "arn:aws:batch:us-west-2:111122223333"


def _project(**changes: Any) -> Project:
    shares = changes.pop("shares", {"HIGHPRI": "0.25", "MIDPRI": "0.5", "LOWPRI": "1"})
    fairshare = FairshareConfig(
        shares=shares,
        share_decay_seconds=changes.pop("share_decay_seconds", 3600),
        compute_reservation=changes.pop("compute_reservation", 0),
    )
    gpu = QueueConfig(service_environment="gpu", priority=changes.pop("priority", 10), fairshare=fairshare)
    batch = QueueConfig(service_environment="gpu", priority=1)
    fields = {
        "stack": "ml",
        "region": "us-west-2",
        "service_environments": {
            "gpu": ServiceEnvironmentConfig(capacity=changes.pop("capacity", 16), instance_types=("ml.g6.12xlarge",))
        },
        "queues": {"gpu": gpu, "batch": batch},
        "tags": {"team": "search"},
        "alarms": AlarmsSection(enabled=False),
    }
    return Project(**(fields | changes))


def _observed(desired: Desired, **changes: Any) -> Observed:
    """What AWS answers after ``desired`` was applied. ``changes`` replace fields of the resource of queue ``gpu``."""
    environments = {
        wanted.name: ServiceEnvironment(
            wanted.name, f"{ARN}:service-environment/{wanted.name}", wanted.capacity_limits, tags=wanted.tags
        )
        for wanted in desired.service_environments
    }
    policies = {
        wanted.name: SchedulingPolicy(
            wanted.name, f"{ARN}:scheduling-policy/{wanted.name}", wanted.fairshare_policy, wanted.tags
        )
        for wanted in desired.scheduling_policies
    }
    queues = {
        wanted.name: JobQueue(
            wanted.name,
            f"{ARN}:job-queue/{wanted.name}",
            wanted.priority,
            (f"{ARN}:service-environment/{wanted.service_environment}",),
            None if wanted.scheduling_policy is None else f"{ARN}:scheduling-policy/{wanted.scheduling_policy}",
            tags=wanted.tags,
        )
        for wanted in desired.job_queues
    }
    for resources, kind in ((environments, "environment"), (policies, "policy"), (queues, "queue")):
        if kind in changes:
            resources["ml-gpu"] = replace(resources["ml-gpu"], **changes[kind])
    return Observed(environments, policies, queues)


@pytest.fixture
def project() -> Callable[..., Project]:
    """Stack ml: environment gpu (16), fair-share queue gpu, FIFO queue batch. Keywords change it."""
    return _project


@pytest.fixture
def desired() -> Desired:
    """What the project asks for."""
    return desired_state(_project())


@pytest.fixture
def observed() -> Callable[..., Observed]:
    """What AWS answers after a desired state was applied; keywords environment, policy, queue change ml-gpu."""
    return _observed


@pytest.fixture
def weights() -> Callable[..., FairsharePolicy]:
    """A policy with decay 3600 and these weights."""

    def make(**shares: str) -> FairsharePolicy:
        distribution = tuple(ShareAttributes(share, weight) for share, weight in shares.items())
        return FairsharePolicy(distribution, share_decay_seconds=3600)

    return make
