from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec, Origin
from fairshare.config.project import Project
from fairshare.model import InfeasibleError, InvalidFileError, JobRequest, Problem
from fairshare.submit.checks import check, check_payload, check_quota, check_request
from fairshare.submit.report import Report, raise_errors
from fairshare.submit.requests import canonical_json
from fairshare.submit.resolve import QueueFacts, Queues

MakeJob = Callable[..., JobSpec]
Look = Callable[..., list[Problem]]


@pytest.fixture
def look(project: Project, make_job: MakeJob) -> Look:
    """Check one job with some changes."""

    def check_one(region: str = "us-west-2", allow: bool = False, queues: Queues | None = None, **changes: Any) -> Any:
        jobs = [make_job(**changes)]
        return check(jobs, queues or Queues(project), region=region, allow_unknown_share=allow)

    return check_one


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


def test_a_job_that_is_right_has_no_problem(look: Look) -> None:
    assert look() == []


@pytest.mark.parametrize("priority", [0, 99])
def test_c08_good_priorities(look: Look, priority: int) -> None:
    assert look(priority=priority) == []


@pytest.mark.parametrize(
    ("priority", "shown"), [(-1, "-1"), (100, "100"), (2.5, "2.5"), (True, "true"), ("high", "'high'")]
)
def test_c08_bad_priorities(look: Look, priority: Any, shown: str) -> None:
    problem = only(look(priority=priority))

    assert str(problem) == (
        f'jobs.yaml:3:5: error: job "digits": priority must be a whole number from 0 to 99, not {shown}'
    )
    assert problem.key == "priority"


def test_c12_names_are_checked(look: Look) -> None:
    problem = only(look(name="exp_αβ/llama.7b:run#1"))

    assert problem.message == (
        "job \"exp_αβ/llama.7b:run#1\": its name has 'α' at position 5: use letters a-z, digits, - and _"
    )


def test_c12_a_long_name_is_shown_shortened(look: Look) -> None:
    assert only(look(name="a" * 200)).message.startswith(f'job "{"a" * 37}...": its name has 200 characters')


def test_c16_a_job_larger_than_the_environment(look: Look, project_with: Callable[..., Project]) -> None:
    queues = Queues(project_with(capacity=4))

    problem = only(look(queues=queues, instance_count=8))

    assert problem.message == 'job "digits": it needs 8 instances at once and queue gpu has 4: it could never start'
    assert problem.hint == "lower instance_count, or raise the capacity of the service environment"
    assert look(queues=queues, instance_count=4) == []


def test_c16_a_reservation_limits_a_lone_share(look: Look, project_with: Callable[..., Project]) -> None:
    queues = Queues(project_with(capacity=4, reservation=50))

    problem = only(look(queues=queues, instance_count=3))

    assert problem.severity == "warning"
    assert problem.message == (
        'job "digits": it needs 3 instances, and with compute_reservation 50 a lone share of queue gpu may use 2 of 4: '
        "it starts only while 2 shares are active"
    )
    assert look(queues=queues, instance_count=2) == []


def test_c16_a_reservation_that_never_lets_a_job_start(look: Look, project_with: Callable[..., Project]) -> None:
    problem = only(look(queues=Queues(project_with(capacity=4, reservation=50)), instance_count=4))

    assert problem.severity == "warning"
    assert problem.message.endswith("may use 2 of 4: no number of active shares lets it start")


def test_c16_a_fifo_queue_reserves_nothing(look: Look, project_with: Callable[..., Project]) -> None:
    queues = Queues(project_with(reservation=50))

    assert look(queues=queues, queue="batch", share=None, priority=None, instance_type="ml.c5.2xlarge") == []


@pytest.mark.parametrize("count", [0, -1, True, 1.5])
def test_an_instance_count_must_make_sense(look: Look, count: Any) -> None:
    assert only(look(instance_count=count)).message.endswith("instance_count must be a whole number from 1 on")


def test_c17_a_fair_share_queue_needs_a_share(look: Look) -> None:
    problem = only(look(share=None))

    assert problem.message == 'job "digits": queue gpu is a fair-share queue and needs a share'
    assert problem.hint == "say `share:`, --share or defaults.share (shares: HIGHPRI, MIDPRI, LOWPRI)"


def test_c17_a_fifo_queue_takes_neither_share_nor_priority(look: Look) -> None:
    problems = look(queue="batch", priority=0, instance_type="ml.c5.2xlarge")

    assert [problem.message for problem in problems] == [
        'job "digits": queue batch is first-in-first-out and takes no priority (0)',
        'job "digits": queue batch is first-in-first-out and takes no share (HIGHPRI)',
    ]
    assert {problem.hint for problem in problems} == {"leave it out, or use a queue with shares (gpu)"}


def test_c17_a_misspelt_share(look: Look) -> None:
    problem = only(look(share="highpri"))

    assert problem.message == 'job "digits": unknown share "highpri" in queue gpu: AWS would give it weight 1'
    assert problem.hint == (
        "did you mean HIGHPRI? (shares: HIGHPRI, MIDPRI, LOWPRI); --allow-unknown-share sends it as it is"
    )
    assert look(share="highpri", allow=True) == []


def test_c17_a_prefix_entry_knows_its_shares(look: Look) -> None:
    queue = QueueFacts("q", "q", is_fair_share=True, capacity=4, weights={"TEAM*": "1"})

    assert look(queues=Queues(None, [queue]), queue="q", share="TEAMX7") == []
    assert "unknown share" in only(look(queues=Queues(None, [queue]), queue="q", share="OTHER")).message


@pytest.mark.parametrize("share", ["team a", "", "é", "x" * 256, "TEAM*"])
def test_an_unknown_share_must_still_be_a_share(look: Look, share: str) -> None:
    problem = only(look(share=share, allow=True))

    assert problem.message == f'job "digits": "{share}" cannot be a share identifier'


def test_an_unknown_queue(look: Look) -> None:
    problem = only(look(queue="gpuu"))

    assert problem.message == 'job "digits": unknown queue "gpuu"'
    assert problem.hint == "did you mean gpu? (queues: gpu, batch)"


def test_no_queue_at_all(look: Look) -> None:
    assert only(look(queue=None)).hint == "name one with `queue:`, --queue or defaults.queue (queues: gpu, batch)"


def test_an_instance_type_the_environment_is_not_for(look: Look) -> None:
    problem = only(look(instance_type="ml.g6.12xlage"))

    assert problem.message == 'job "digits": queue gpu is not for instance type ml.g6.12xlage'
    assert problem.hint == "did you mean ml.g6.12xlarge? (instance types: ml.g6.12xlarge)"


def test_c19_an_image_of_another_region(look: Look) -> None:
    image = "111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1"

    problem = only(look(region="eu-central-1", image=image))

    assert problem.message == 'job "digits": its image is in region us-east-1 and the job would run in eu-central-1'
    assert look(region="us-east-1", image=image) == []


def test_c19_images_in_china(look: Look) -> None:
    image = "111122223333.dkr.ecr.cn-north-1.amazonaws.com"

    assert look(region="cn-north-1", image=f"{image}.cn/train:1") == []
    assert only(look(region="cn-north-1", image=f"{image}/train:1")).message == (
        'job "digits": images of region cn-north-1 are under amazonaws.com.cn, not amazonaws.com'
    )


def test_c07_a_role_of_another_partition(look: Look) -> None:
    role = "arn:aws-cn:iam::111122223333:role/ml/Train"

    image = "111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn/train:1"
    assert look(region="cn-north-1", role=role, image=image) == []
    assert (
        only(look(role=role)).message == 'job "digits": its role is of partition aws-cn and region us-west-2 is in aws'
    )


@pytest.mark.parametrize("field", ["instance_type", "image", "role"])
def test_what_a_job_must_say(look: Look, field: str) -> None:
    problem = only(look(**{field: None}))

    assert problem.message == f'job "digits": no {field} is given'
    assert problem.hint == f"say `{field}:`, --{field.replace('_', '-')} or defaults.{field}"


def test_files_that_are_not_there(look: Look, source: Path) -> None:
    assert only(look(entry="trian.py")).hint == "did you mean train.py? (files: train.py)"
    assert only(look(requirements="requirements.txt")).message == (
        f'job "digits": requirements file "requirements.txt" is not in {source}'
    )
    assert only(look(source_dir=source / "gone")).message == (
        f'job "digits": source directory {source / "gone"} does not exist'
    )
    assert look(source_dir=None, entry=None) == [], "an image may have a program of its own"


def test_a_users_own_trainer_says_its_own_files_and_image(look: Look) -> None:
    assert look(trainer=object(), source_dir=None, entry=None, image=None, role=None, instance_type=None) == []


def test_all_problems_of_all_jobs_at_once(make_job: MakeJob, project: Project) -> None:
    jobs = [
        make_job("a", share="nope", priority=100, instance_count=17, origin=Origin("jobs.yaml", 9, 1)),
        make_job("b", image=None, origin=Origin("jobs.yaml", 2, 1)),
    ]

    problems = check(jobs, Queues(project), region="us-west-2")

    assert [(problem.line, problem.key) for problem in problems] == [
        (2, "image"),
        (9, "capacity"),
        (9, "priority"),
        (9, "share"),
    ]


def test_a_problem_points_at_the_value(make_job: MakeJob, project: Project) -> None:
    places = {
        ("share",): Origin("jobs.yaml", 7, 12, "    share: nope"),
        ("compute", "instance_count"): Origin("jobs.yaml", 6, 30, "    compute: {instance_count: 17}"),
    }
    job = make_job(share="nope", instance_count=17, priority=-1, origin=Origin("jobs.yaml", 3, 5, "  - name", places))

    problems = check([job], Queues(project), region="us-west-2")

    assert [(problem.key, problem.line, problem.column, problem.source_line) for problem in problems] == [
        ("priority", 3, 5, "  - name"),
        ("capacity", 6, 30, "    compute: {instance_count: 17}"),
        ("share", 7, 12, "    share: nope"),
    ]


def test_a_sweep_with_one_problem_has_one_problem(make_job: MakeJob, project: Project) -> None:
    jobs = [make_job(f"digits-seed{seed}", share="nope") for seed in range(240)]

    problem = only(check(jobs, Queues(project), region="us-west-2"))

    assert problem.message.startswith('job "digits-seed0" and 239 more: unknown share "nope"')


def test_errors_are_raised_together_and_warnings_are_not(look: Look, project_with: Callable[..., Project]) -> None:
    warnings = look(queues=Queues(project_with(reservation=50)), instance_count=9)
    errors = look(share=None)

    raise_errors(warnings)
    with pytest.raises(InvalidFileError, match="needs a share") as caught:
        raise_errors([*warnings, *errors])
    assert len(caught.value.problems) == 2


def test_c16_only_too_large_is_infeasible_not_invalid(look: Look) -> None:
    with pytest.raises(InfeasibleError, match="it could never start") as caught:
        raise_errors(look(instance_count=17))
    assert caught.value.exit_code == 5
    assert caught.value.hint == "lower instance_count, or raise the capacity of the service environment"

    with pytest.raises(InvalidFileError):
        raise_errors(look(instance_count=17, share=None))


# ---------------------------------------------------------------------------------------------------------------------
# The second half: the request.


@pytest.fixture
def look_at(make_job: MakeJob, facts: QueueFacts) -> Look:
    """Check one request made of a payload."""

    def check_one(payload: dict[str, Any], tags: dict[str, str] | None = None, attempt: int = 86_400) -> Any:
        report = Report()
        complete = {"ResourceConfig": {"InstanceType": "ml.g6.12xlarge", "InstanceCount": 1}} | payload
        request = JobRequest(
            "digits", "q", canonical_json(complete), "t" * 64, attempt_duration_seconds=attempt, tags=tags or {}
        )
        job = make_job(trainer=object())
        check_payload(report, job, complete, request.tags, queue=facts, region="us-west-2")
        check_request(report, job, request)
        return report.problems()

    return check_one


def test_a_request_that_is_right_has_no_problem(look_at: Look) -> None:
    assert look_at({}) == []


def test_c16_the_payload_counts_not_the_spec(look_at: Look) -> None:
    groups = [
        {"InstanceType": "ml.g6.12xlarge", "InstanceCount": 10, "InstanceGroupName": "a"},
        {"InstanceType": "ml.c5.2xlarge", "InstanceCount": 7, "InstanceGroupName": "b"},
    ]

    problems = look_at({"ResourceConfig": {"InstanceGroups": groups}})

    assert [problem.key for problem in problems] == ["capacity", "instance_type"]
    assert "it needs 17 instances at once and queue gpu has 16" in problems[0].message


def test_a_payload_without_instances_is_noticed(look_at: Look) -> None:
    assert only(look_at({"ResourceConfig": {}})).key == "instance_count"


def test_c10_limits_of_the_payload_are_noted(look_at: Look) -> None:
    problem = only(look_at({"Environment": {"MY-VAR": "x"}}))

    assert str(problem) == (
        'jobs.yaml:3:5: error: job "digits": environment variable MY-VAR: SageMaker takes no such name'
    )
    assert only(look_at({"HyperParameters": {"note": "x" * 2501}})).key == "hyperparameters.note"
    assert only(look_at({"InputDataConfig": [{"ChannelName": "a b"}]})).key == "inputs.a b"
    assert only(look_at({"CheckpointConfig": {"S3Uri": "s3://B/x"}})).key == "checkpoint"


def test_c13_tags_are_noted(look_at: Look) -> None:
    assert only(look_at({}, tags={"git": "feat/x #12"})).key == "tags.git"


def test_c10_sizes_are_noted(look_at: Look) -> None:
    problems = look_at({"HyperParameters": {f"p{number}": "x" * 2_000 for number in range(6)}})

    assert only(problems).key == "payload"


@pytest.mark.parametrize("attempt", [0, 59])
def test_c20_an_attempt_that_batch_would_refuse(look_at: Look, attempt: int) -> None:
    problem = only(look_at({"StoppingCondition": {"MaxRuntimeInSeconds": 30}}, attempt=attempt))

    assert problem.message == f'job "digits": an attempt\'s time limit must be at least 60 s, not {attempt} s'


def test_raw_fields_of_the_wrong_shape_are_noted(look: Look) -> None:
    problem = only(look(training_job={"StoppingCondition": {"MaxRuntimeInSeconds": "6h"}}))

    assert problem.message == 'job "digits": training_job.StoppingCondition.MaxRuntimeInSeconds must be a whole number'


def test_c19_a_private_image_is_no_surprise(look: Look, look_at: Look) -> None:
    private = {"TrainingImageConfig": {"TrainingRepositoryAccessMode": "Vpc"}}

    assert look_at({"AlgorithmSpecification": {"TrainingImage": "registry.lan/train:1", **private}}) == []
    assert only(look(image="registry.lan/train:1")).severity == "warning"


@pytest.mark.parametrize("seconds", [0, 28 * 86_400 + 1])
def test_c20_a_run_time_limit_sagemaker_refuses(look_at: Look, seconds: int) -> None:
    problem = only(look_at({"StoppingCondition": {"MaxRuntimeInSeconds": seconds}}, attempt=3_000_000))

    assert f"max_runtime must be from 1 s to 28 days (2419200 s), not {seconds} s" in problem.message


def test_c20_an_attempt_shorter_than_the_job_is_a_warning(look_at: Look) -> None:
    problem = only(look_at({"StoppingCondition": {"MaxRuntimeInSeconds": 21_600}}, attempt=3_600))

    assert problem.severity == "warning"
    assert problem.message == (
        'job "digits": Batch ends an attempt after 3600 s, before the job\'s own limit of 21600 s'
    )
    assert look_at({"StoppingCondition": {"MaxRuntimeInSeconds": 21_600}}, attempt=21_600) == []


def test_c19_the_image_in_the_payload_counts(look_at: Look) -> None:
    image = {"TrainingImage": "111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1"}

    assert only(look_at({"AlgorithmSpecification": image})).key == "image"


def test_c16_more_instances_than_the_account_s_quota_is_a_warning(make_job: MakeJob) -> None:
    def warned(quotas: dict[str, int], **more: Any) -> list[tuple[str, str, str]]:
        resources = {"InstanceType": "ml.g6.12xlarge", "InstanceCount": 2}
        report = Report()
        check_quota(report, make_job(), {"ResourceConfig": resources, **more}, quotas)
        return [(each.severity, each.message, each.hint) for each in report.problems()]

    assert warned({"ml.g6.12xlarge": 1}) == [
        (
            "warning",
            'job "digits": it needs 2 ml.g6.12xlarge and the account\'s quota for training jobs is 1: '
            "SageMaker would refuse it (ResourceLimitExceeded)",
            'ask AWS for more: Service Quotas, "ml.g6.12xlarge for training job usage"',
        )
    ]
    assert warned({"ml.g6.12xlarge": 0}) != []
    assert warned({"ml.g6.12xlarge": 2}) == warned({"ml.p5.48xlarge": 0}) == []
    assert warned({"ml.g6.12xlarge": 1}, EnableManagedSpotTraining=True) == []
