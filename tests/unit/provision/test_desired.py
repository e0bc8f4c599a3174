from __future__ import annotations

from collections.abc import Callable

from fairshare.config.project import Project
from fairshare.model import OWNER_TAG, CapacityLimit, FairsharePolicy, ResourceType, ShareAttributes
from fairshare.provision.desired import Desired, DesiredEnvironment, DesiredPolicy, DesiredQueue, desired_state
from fairshare.provision.tags import RECORD_TAG


def test_a_project_becomes_named_and_tagged_resources(desired: Desired) -> None:
    tags = {"team": "search", RECORD_TAG: "team", OWNER_TAG: "ml"}

    assert desired.service_environments == (
        DesiredEnvironment("ml-gpu", "gpu", (CapacityLimit(16, "NUM_INSTANCES"),), ("ml.g6.12xlarge",), tags=tags),
    )
    shares = (ShareAttributes("HIGHPRI", "0.25"), ShareAttributes("MIDPRI", "0.5"), ShareAttributes("LOWPRI", "1"))
    assert desired.scheduling_policies == (
        DesiredPolicy("ml-gpu", "gpu", FairsharePolicy(shares, share_decay_seconds=3600), tags),
    )
    assert desired.job_queues == (
        DesiredQueue("ml-gpu", "gpu", 10, "ml-gpu", "ml-gpu", tags=tags),
        DesiredQueue("ml-batch", "batch", 1, "ml-gpu", None, tags=tags),
    )


def test_resources_come_in_the_order_in_which_they_can_be_made(desired: Desired) -> None:
    assert [resource.resource_type for resource in desired.resources] == [
        ResourceType.SERVICE_ENVIRONMENT,
        ResourceType.SCHEDULING_POLICY,
        ResourceType.JOB_QUEUE,
        ResourceType.JOB_QUEUE,
    ]
    assert desired.names == {"ml-gpu", "ml-batch"}


def test_the_ownership_tag_wins_over_a_tag_of_the_project(project: Callable[..., Project]) -> None:
    desired = desired_state(project(tags={OWNER_TAG: "somebody-else"}))

    assert {resource.tags[OWNER_TAG] for resource in desired.resources} == {"ml"}
