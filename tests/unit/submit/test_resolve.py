from __future__ import annotations

from collections.abc import Callable

import pytest

from fairshare.config.jobs import JobSpec, Origin
from fairshare.config.project import Project
from fairshare.model import UsageError
from fairshare.submit.resolve import Overrides, QueueFacts, Queues, queue_facts_from_project, resolve

MakeJob = Callable[..., JobSpec]
ARN = "arn:aws:batch:us-west-2:111122223333:job-queue"
FOREIGN = QueueFacts(f"{ARN}/theirs", "theirs", is_fair_share=True, capacity=4, weights={"TEAM*": "1"})
FOREIGN_FIFO = QueueFacts("line", "line", is_fair_share=False, capacity=4)


def test_facts_of_a_queue_of_the_project(project_with: Callable[..., Project]) -> None:
    project = project_with(reservation=25)

    assert queue_facts_from_project(project, "gpu") == QueueFacts(
        name="search-ml-gpu",
        key="gpu",
        is_fair_share=True,
        capacity=16,
        weights={"HIGHPRI": "1", "MIDPRI": "3", "LOWPRI": "5"},
        instance_types=("ml.g6.12xlarge",),
        compute_reservation=25,
    )
    assert queue_facts_from_project(project, "batch") == QueueFacts(
        name="search-ml-batch", key="batch", is_fair_share=False, capacity=8, instance_types=("ml.c5.2xlarge",)
    )


@pytest.mark.parametrize("name", ["gpu", "search-ml-gpu", f"{ARN}/search-ml-gpu"])
def test_a_queue_goes_by_key_name_or_arn(project: Project, name: str) -> None:
    facts = Queues(project).find(name)

    assert facts is not None
    assert facts.key == "gpu"


@pytest.mark.parametrize("name", ["theirs", f"{ARN}/theirs"])
def test_an_observed_queue_goes_by_name_or_arn(project: Project, name: str) -> None:
    assert Queues(project, [FOREIGN]).find(name) == FOREIGN
    assert Queues(None, [FOREIGN]).find("gpu") is None


def test_the_queue_of_a_job_that_names_none(project: Project, project_with: Callable[..., Project]) -> None:
    assert Queues(project).default is None
    assert Queues(project_with(defaults={"queue": "batch"})).default == "batch"
    assert Queues(None, [FOREIGN]).default == "theirs"
    assert Queues(None).default is None


def test_flags_beat_the_job_and_the_job_beats_defaults(make_job: MakeJob, project_with: Callable[..., Project]) -> None:
    project = project_with(defaults={"share": "LOWPRI", "priority": 10, "role": "FromDefaults", "max_runtime": 60})
    job = make_job(share=None, priority=50, role=None, max_runtime=120)

    (resolved,) = resolve([job], project, Overrides(priority=80))

    assert (resolved.share, resolved.priority) == ("LOWPRI", 80)
    assert (resolved.role, resolved.max_runtime) == ("FromDefaults", 120)


def test_c08_priority_zero_is_not_replaced_by_a_default(
    make_job: MakeJob, project_with: Callable[..., Project]
) -> None:
    project = project_with(defaults={"priority": 10})

    by_job, by_flag = make_job(priority=0), make_job(priority=50)

    assert resolve([by_job], project, Overrides())[0].priority == 0
    assert resolve([by_flag], project, Overrides(priority=0))[0].priority == 0


def test_a_fair_share_job_without_any_priority_gets_zero(make_job: MakeJob, project: Project) -> None:
    assert resolve([make_job(priority=None)], project, Overrides())[0].priority == 0
    assert (
        resolve([make_job(priority=None, queue="theirs")], None, Overrides(), Queues(None, [FOREIGN]))[0].priority == 0
    )


def test_c17_a_default_never_reaches_a_fifo_queue(make_job: MakeJob, project_with: Callable[..., Project]) -> None:
    project = project_with(defaults={"queue": "batch", "share": "LOWPRI", "priority": 10})
    job = make_job(queue=None, share=None, priority=None)

    (own,) = resolve([job], project, Overrides())
    (foreign,) = resolve([job], project, Overrides(queue="line"), Queues(project, [FOREIGN_FIFO]))

    assert (own.queue, own.share, own.priority) == ("batch", None, None)
    assert (foreign.queue, foreign.share, foreign.priority) == ("line", None, None)


def test_c17_what_was_said_explicitly_stays_on_a_fifo_queue(make_job: MakeJob, project: Project) -> None:
    (resolved,) = resolve([make_job(queue="batch", priority=None)], project, Overrides(share="HIGHPRI"))

    assert (resolved.share, resolved.priority) == ("HIGHPRI", None)


def test_a_job_with_its_own_trainer_takes_no_default_for_what_a_trainer_always_says(
    make_job: MakeJob, project_with: Callable[..., Project]
) -> None:
    project = project_with(defaults={"queue": "gpu", "share": "LOWPRI", "priority": 7, "image": "i", "role": "r"})
    job = make_job(trainer=object(), queue=None, share=None, priority=None, image=None, role=None)

    (resolved,) = resolve([job], project, Overrides())

    assert (resolved.queue, resolved.share, resolved.priority) == ("gpu", "LOWPRI", 7)
    assert (resolved.image, resolved.role) == (None, "r")


def test_a_flag_that_a_trainer_decides_is_refused(make_job: MakeJob, project: Project) -> None:
    job = make_job(trainer=object())

    with pytest.raises(UsageError) as caught:
        resolve([job], project, Overrides(instance_type="ml.p5.48xlarge", max_runtime=60, priority=1))
    assert caught.value.message == (
        '--instance-type, --max-runtime cannot be applied to job "digits": its own ModelTrainer says it'
    )


def test_a_flag_hides_the_position_of_what_it_replaces(make_job: MakeJob, project: Project) -> None:
    places = {("share",): Origin("jobs.yaml", 7, 12), ("compute", "instance_count"): Origin("jobs.yaml", 6, 30)}
    job = make_job(origin=Origin("jobs.yaml", 3, 5, keys=places))

    (by_share,) = resolve([job], project, Overrides(share="LOWPRI"))
    (by_count,) = resolve([job], project, Overrides(instance_count=2))

    assert by_share.origin.at("share") == Origin("jobs.yaml", 3, 5)
    assert by_share.origin.at("compute", "instance_count") == Origin("jobs.yaml", 6, 30)
    assert by_count.origin.at("share") == Origin("jobs.yaml", 7, 12)
    assert by_count.origin.at("compute", "instance_count") == Origin("jobs.yaml", 3, 5)


def test_an_unknown_queue_is_left_for_the_checks(make_job: MakeJob, project_with: Callable[..., Project]) -> None:
    project = project_with(defaults={"share": "LOWPRI"})

    (resolved,) = resolve([make_job(queue="gpuu", share=None, priority=None)], project, Overrides())

    assert (resolved.queue, resolved.share, resolved.priority) == ("gpuu", None, None)
