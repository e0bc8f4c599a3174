"""Jobs that name several queues: what they are on each of them, what is wrong with that, and what is planned."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec, Origin
from fairshare.config.project import Defaults, Project
from fairshare.model import InfeasibleError, InvalidFileError
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.prepare import SubmitOptions, prepare
from fairshare.submit.requests import Alternative, RunIdentity, moved
from fairshare.submit.resolve import Overrides, Queues, resolve

Make = Callable[..., JobSpec]
Prepare = Callable[..., SubmitPlan]


@pytest.fixture
def make(make_job: Make) -> Make:
    """A job for the fair-share queue ``gpu``, then for the FIFO queue ``batch``, that names no instance type."""

    def make(**changes: Any) -> JobSpec:
        return make_job(**{"queue": "gpu", "queues": ("gpu", "batch"), "instance_type": None, **changes})

    return make


@pytest.fixture
def plan(project: Project, payloads: Any, identity: RunIdentity) -> Prepare:
    def plan(*specs: JobSpec, queue: str | None = None) -> SubmitPlan:
        options = SubmitOptions(overrides=Overrides(queue=queue))
        return prepare(specs, identity=identity, payloads=payloads, project=project, options=options)

    return plan


def problems(plan: Prepare, *specs: JobSpec) -> list[tuple[str, str]]:
    with pytest.raises(InvalidFileError) as caught:
        plan(*specs)
    return [(each.message, each.hint) for each in caught.value.problems]


def test_share_and_priority_are_for_the_fair_share_queues_among_them(project: Project, make: Make) -> None:
    (spec,) = resolve([make()], project, Overrides())

    on_gpu, on_batch = Queues(project).by_queue(spec)

    assert (on_gpu.queue, on_gpu.share, on_gpu.priority) == ("gpu", "HIGHPRI", 10)
    assert (on_batch.queue, on_batch.share, on_batch.priority) == ("batch", None, None)


def test_defaults_reach_the_fair_share_queue_that_comes_second(
    project_with: Callable[..., Project], make: Make
) -> None:
    project = project_with(defaults={"share": "LOWPRI"})
    spec = make(queue="batch", queues=("batch", "gpu"), share=None, priority=None)
    (spec,) = resolve([spec], project, Overrides())

    on_batch, on_gpu = Queues(project).by_queue(spec)

    assert (on_batch.share, on_batch.priority) == (None, None)
    assert (on_gpu.share, on_gpu.priority) == ("LOWPRI", 0)


def test_a_job_without_instance_type_takes_that_of_each_queue(project: Project, make: Make) -> None:
    (spec,) = resolve([make()], project, Overrides())

    assert [each.instance_type for each in Queues(project).by_queue(spec)] == ["ml.g6.12xlarge", "ml.c5.2xlarge"]


def test_a_default_instance_type_is_kept_where_the_queue_is_for_it(project: Project, make: Make) -> None:
    environment = project.service_environments["cpu"].model_copy(update={"instance_types": ("ml.a", "ml.c5.2xlarge")})
    project = project.model_copy(
        update={
            "defaults": Defaults(instance_type="ml.c5.2xlarge"),
            "service_environments": {**project.service_environments, "cpu": environment},
        }
    )
    (spec,) = resolve([make()], project, Overrides())

    assert [each.instance_type for each in Queues(project).by_queue(spec)] == ["ml.g6.12xlarge", "ml.c5.2xlarge"]


def test_a_job_with_one_queue_is_as_it_was(project: Project, make_job: Make) -> None:
    (spec,) = resolve([make_job()], project, Overrides())

    assert Queues(project).by_queue(spec) == [spec]
    assert not spec.has_open_type


def test_the_plan_knows_what_is_sent_to_each_queue(plan: Prepare, make: Make) -> None:
    (job,) = plan(make(fallback_after=1800)).jobs

    assert (job.request.job_queue, job.request.share_identifier) == ("search-ml-gpu", "HIGHPRI")
    assert json.loads(job.request.payload)["ResourceConfig"]["InstanceType"] == "ml.g6.12xlarge"
    assert job.alternatives == (Alternative("search-ml-batch", None, None, "ml.c5.2xlarge"),)
    assert job.fallback_after == 1800


def test_a_third_queue_gets_its_own_type_and_not_that_of_the_second(
    plan: Prepare, make: Make, project: Project
) -> None:
    project.queues["again"] = project.queues["gpu"]
    (job,) = plan(make(queues=("gpu", "batch", "again"))).jobs

    assert [each.instance_type for each in job.alternatives] == ["ml.c5.2xlarge", "ml.g6.12xlarge"]
    last = moved(moved(job, "search-ml-batch", 2), "search-ml-again", 3)
    assert last.request.payload == job.request.payload
    assert (last.request.share_identifier, last.request.scheduling_priority) == ("HIGHPRI", 10)


def test_the_queue_flag_leaves_no_alternative(plan: Prepare, make: Make) -> None:
    (job,) = plan(make(instance_type="ml.g6.12xlarge"), queue="gpu").jobs

    assert job.alternatives == ()


def test_an_instance_type_that_was_written_must_suit_every_queue(plan: Prepare, make: Make) -> None:
    ((message, hint),) = problems(plan, make(instance_type="ml.g6.12xlarge"))

    assert message == 'job "digits": queue batch is not for instance type ml.g6.12xlarge'
    assert hint.endswith("without an instance_type the job takes that of each of its queues")


def test_a_raw_instance_type_is_one_that_was_written(
    project_with: Callable[..., Project], make: Make, payloads: Any, identity: RunIdentity
) -> None:
    raw = {"ResourceConfig": {"InstanceType": "ml.g6.12xlarge", "InstanceCount": 1}}
    payloads.extra = raw
    project = project_with(defaults={"instance_type": "ml.c5.2xlarge"})
    with pytest.raises(InvalidFileError) as caught:
        prepare([make(training_job=raw)], identity=identity, payloads=payloads, project=project)

    (problem,) = caught.value.problems
    assert problem.message == 'job "digits": queue batch is not for instance type ml.g6.12xlarge'


def test_an_unknown_queue_is_told_where_it_stands_in_the_list(plan: Prepare, make: Make) -> None:
    origin = Origin("jobs.yaml", 3, 5, keys={("queues", "1"): Origin("jobs.yaml", 7, 20)})
    with pytest.raises(InvalidFileError) as caught:
        plan(make(queues=("gpu", "bacth"), origin=origin))

    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (7, 20)
    assert problem.message == 'job "digits": unknown queue "bacth"'
    assert "batch" in problem.hint


def test_two_names_of_one_queue_are_refused(plan: Prepare, make: Make) -> None:
    assert problems(plan, make(queues=("gpu", "search-ml-gpu"))) == [
        ('job "digits": gpu and search-ml-gpu are one queue', "remove one of the two")
    ]


def test_a_queue_that_is_too_small_is_refused_though_another_is_not(plan: Prepare, make: Make) -> None:
    with pytest.raises(InfeasibleError, match="needs 9 instances at once and queue batch has 8"):
        plan(make(instance_count=9))


def test_a_share_that_the_second_queue_lacks_is_refused(project: Project, make: Make, plan: Prepare) -> None:
    other = replace(make(), queue="batch", queues=("batch", "gpu"), share="NOBODY")
    ((message, _),) = problems(plan, other)

    assert message == 'job "digits": unknown share "NOBODY" in queue gpu: AWS would give it weight 1'
