"""`setup` and `teardown` as a platform engineer uses them: plans, drift, adoption, plan files, exit codes."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from fairshare.aws.provisioner import BatchProvisioner
from fairshare.cli.context import AppContext, Options
from fairshare.local.inprocess import InProcessAws
from fairshare.model import OWNER_TAG
from fairshare.provision.document import load_plan, save_plan
from fairshare.provision.lock import StackPlace, stack_lock

ACCOUNT = "123456789012"
ARN = f"arn:aws:batch:us-east-1:{ACCOUNT}"


def make_environment(batch: Any, name: str, **settings: Any) -> str:
    limits = [{"maxCapacity": settings.pop("capacity", 4), "capacityUnit": "NUM_INSTANCES"}]
    request = {"serviceEnvironmentType": "SAGEMAKER_TRAINING", "capacityLimits": limits} | settings
    return str(batch.create_service_environment(serviceEnvironmentName=name, **request)["serviceEnvironmentArn"])


def make_queue(batch: Any, name: str, environment: str, **settings: Any) -> str:
    order = [{"order": 1, "serviceEnvironment": environment}]
    request = {"jobQueueType": "SAGEMAKER_TRAINING", "priority": 1, "serviceEnvironmentOrder": order} | settings
    return str(batch.create_job_queue(jobQueueName=name, **request)["jobQueueArn"])


def make_policy(batch: Any, name: str, **weights: float) -> str:
    shares = [{"shareIdentifier": share, "weightFactor": weight} for share, weight in weights.items()]
    return str(batch.create_scheduling_policy(name=name, fairsharePolicy={"shareDistribution": shares})["arn"])


def send_job(batch: Any, queue: str, seconds: int = 100_000, **settings: Any) -> str:
    payload = {
        "TrainingJobName": "job",
        "AlgorithmSpecification": {"TrainingImage": f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/x:1"},
        "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/MLTraining",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 86_400},
        "Environment": {"FAIRSHARE_SIM_SECONDS": str(seconds)},
    }
    request = {"jobName": "job", "serviceJobType": "SAGEMAKER_TRAINING", "serviceRequestPayload": json.dumps(payload)}
    return str(batch.submit_service_job(jobQueue=queue, **request, **settings)["jobId"])


def everything(batch: Any) -> dict[str, Any]:
    """All resources as they are described."""
    arns = [entry["arn"] for entry in batch.list_scheduling_policies()["schedulingPolicies"]]
    policies = batch.describe_scheduling_policies(arns=arns)["schedulingPolicies"]
    return {
        "environments": batch.describe_service_environments()["serviceEnvironments"],
        "policies": policies,
        "queues": batch.describe_job_queues()["jobQueues"],
    }


# -- exit codes ------------------------------------------------------------------------------------------------------


def test_detailed_exit_codes_tell_a_pipeline_whether_something_is_to_be_done(fairshare: Any) -> None:
    assert fairshare("setup", "--dry-run") == 0
    assert fairshare("setup", "--dry-run", "--detailed-exitcode") == 10
    assert (fairshare.document["applied"], fairshare.actions) == (False, ["CREATE"] * 4)
    assert fairshare("setup", "--plan-out", "plan.json", "--detailed-exitcode") == 10
    assert fairshare("setup", "--yes", "--detailed-exitcode") == 0
    assert fairshare("setup", "--dry-run", "--detailed-exitcode") == 0
    assert fairshare.actions == ["NOOP"] * 4
    assert fairshare("teardown", "--dry-run", "--detailed-exitcode") == 10
    assert fairshare("teardown", "--yes", "--detailed-exitcode") == 0
    assert fairshare("teardown", "--dry-run", "--detailed-exitcode") == 0


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("--plan-out", "plan.json", "--yes"), 2, "--plan-out changes nothing and --yes applies"),
        (("plan.json", "--adopt"), 2, "--adopt makes a new plan, and plan.json is one"),
        (("plan.json", "--plan-out", "b.json"), 2, "--plan-out makes a new plan, and plan.json is one"),
        (("plan.json",), 4, "there is no plan file plan.json"),
        (("fairshare.yaml",), 2, "this is not a saved plan"),
    ],
)
def test_what_makes_no_sense_is_refused(
    fairshare: Any, aws: InProcessAws, argv: tuple[str, ...], code: int, message: str
) -> None:
    assert fairshare("setup", *argv) == code
    assert message in fairshare.error
    assert aws.call_log.writes() == []


# -- drift -----------------------------------------------------------------------------------------------------------


def test_drift_is_shown_field_by_field_and_put_right(fairshare: Any, folder: Any, batch: Any) -> None:
    fairshare("setup", "--yes")
    shares = [{"shareIdentifier": "LOWPRI", "weightFactor": 8.0}, {"shareIdentifier": "NEW", "weightFactor": 2.0}]
    batch.update_scheduling_policy(
        arn=f"{ARN}:scheduling-policy/lab-train",
        fairsharePolicy={"shareDecaySeconds": 600, "shareDistribution": shares},
    )
    batch.update_job_queue(jobQueue="lab-line", priority=0, state="DISABLED")
    batch.tag_resource(resourceArn=f"{ARN}:job-queue/lab-line", tags={"team": "", "patch-group": "b"})

    assert fairshare.text("setup", "--dry-run") == 0
    assert fairshare.out.splitlines()[2:11] == [
        "  =  service environment  pool   no change",
        "  ~  scheduling policy    train  HIGHPRI weight none -> 0.1",
        "                                 LOWPRI weight 8 -> 3",
        "                                 share_decay_seconds 600 -> 0",
        "                                 NEW weight 2 -> none",
        "  =  job queue            train  no change",
        "  ~  job queue            line   priority 0 -> 1",
        "                                 state DISABLED -> ENABLED",
        '                                 tags.team "" -> search',
    ]
    assert fairshare.out.endswith("Plan: 2 to update, 2 unchanged.\n")
    assert fairshare("setup", "--yes") == 0
    assert fairshare("setup", "--dry-run") == 0
    assert fairshare.actions == ["NOOP"] * 4
    (line,) = batch.describe_job_queues(jobQueues=["lab-line"])["jobQueues"]
    assert line["tags"] == {"team": "search", "patch-group": "b", "fairshare:tags": "team", OWNER_TAG: "lab"}


def test_tags_follow_the_file_and_those_of_others_stay(fairshare: Any, folder: Any, batch: Any) -> None:
    folder.write(tags="{team: search, cost: 7}")
    fairshare("setup", "--yes")
    batch.tag_resource(resourceArn=f"{ARN}:job-queue/lab-line", tags={"patch-group": "b"})
    folder.write(tags="{team: ads}")

    assert fairshare("setup", "--yes") == 0

    tags = {queue["jobQueueName"]: queue["tags"] for queue in batch.describe_job_queues()["jobQueues"]}
    ours = {"team": "ads", "fairshare:tags": "team", OWNER_TAG: "lab"}
    assert tags == {"lab-train": ours, "lab-line": ours | {"patch-group": "b"}}


def test_c05_a_queue_is_never_replaced(fairshare: Any, folder: Any, aws: InProcessAws, batch: Any) -> None:
    fairshare("setup", "--yes")
    job = send_job(batch, "lab-line")
    folder.write(
        queues="  line: {service_environment: pool, fairshare: {shares: {A: {weight_factor: 1}}}}\n"
        "  train: {service_environment: pool, fifo: true}\n"
    )
    aws.call_log.clear()

    for flags in (("--yes",), ("--yes", "--adopt"), ("--dry-run",), ("--plan-out", "plan.json")):
        assert fairshare("setup", *flags) == 5
        assert "job queue lab-line (queues.line) is FIFO in AWS and has shares" in fairshare.error
        assert "job queue lab-train (queues.train) has shares in AWS and is FIFO" in fairshare.error
        assert "`line-2`" in fairshare.hint
    assert aws.call_log.writes() == []
    assert not Path("plan.json").exists()
    assert batch.describe_service_job(jobId=job)["status"] == "RUNNING"


@pytest.mark.parametrize(("region", "partition"), [("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")])
def test_c07_other_partitions_get_arns_of_their_own(
    fairshare: Any, aws: InProcessAws, folder: Any, region: str, partition: str
) -> None:
    assert fairshare("setup", "--yes", "--region", region) == 0
    folder.write(low="5", tags="{team: ads}")
    assert fairshare("setup", "--yes", "--region", region) == 0
    assert fairshare("setup", "--dry-run", "--region", region) == 0
    assert fairshare.actions == ["NOOP"] * 4
    assert {change["arn"].split(":")[1] for change in fairshare.document["changes"]} == {partition}
    (queue,) = aws.client("batch", region).describe_job_queues(jobQueues=["lab-train"])["jobQueues"]
    assert queue["schedulingPolicyArn"] == f"arn:{partition}:batch:{region}:{ACCOUNT}:scheduling-policy/lab-train"
    assert fairshare("teardown", "--yes", "--region", region) == 0


# -- plan files ------------------------------------------------------------------------------------------------------


def test_a_saved_plan_is_applied_as_it_was_shown(
    fairshare: Any, folder: Any, aws: InProcessAws, stack_now: Callable[[], dict[str, Any]]
) -> None:
    fairshare("setup", "--plan-out", "plan.json")
    shown = fairshare.document
    assert [finding["code"] for finding in shown.pop("lint")] == ["P08", "P03", "P08"]  # of the file, not of the plan
    assert aws.call_log.writes() == []
    assert Path("plan.json").stat().st_mode & 0o777 == 0o600
    folder.write(capacity=99)

    assert fairshare("setup", "plan.json", "--yes") == 0

    assert fairshare.document == shown | {"applied": True}
    assert stack_now() == {"capacity": 4, "priority": 1, "low": "3"}


def test_a_saved_plan_needs_no_project_file(
    fairshare: Any, folder: Any, stack_now: Callable[[], dict[str, Any]]
) -> None:
    fairshare("setup", "--plan-out", "plan.json")
    (folder.path / "fairshare.yaml").unlink()

    assert fairshare.text("setup", "plan.json", "--yes") == 0

    assert stack_now()["capacity"] == 4
    assert "from plan.json" in fairshare.err


def test_a_stale_plan_is_refused_field_by_field(fairshare: Any, folder: Any, aws: InProcessAws, batch: Any) -> None:
    fairshare("setup", "--yes")
    folder.write(capacity=8)
    fairshare("setup", "--plan-out", "plan.json")
    batch.update_job_queue(jobQueue="lab-line", priority=0)
    batch.update_service_environment(
        serviceEnvironment="lab-pool", capacityLimits=[{"maxCapacity": 5, "capacityUnit": "NUM_INSTANCES"}]
    )
    aws.call_log.clear()

    for flags in (("--yes",), ("--dry-run",)):
        assert fairshare("setup", "plan.json", *flags) == 5
        assert fairshare.document["error"]["code"] == "StalePlan"
        assert fairshare.error.splitlines() == [
            "stack lab has changed since this plan was made:",
            "  service environment lab-pool: capacity_limits.NUM_INSTANCES was 4, is now 5",
            "  job queue lab-line: priority was 1, is now 0",
        ]
    assert aws.call_log.writes() == []


def test_a_plan_is_applied_once(fairshare: Any) -> None:
    fairshare("setup", "--plan-out", "plan.json")
    assert fairshare("setup", "plan.json", "--yes") == 0

    assert fairshare("setup", "plan.json", "--yes") == 5

    assert "  service environment lab-pool is new" in fairshare.error.splitlines()


def test_a_plan_without_changes_may_be_applied_at_any_time(fairshare: Any) -> None:
    fairshare("setup", "--yes")
    fairshare("setup", "--plan-out", "plan.json")

    for _ in range(2):
        assert fairshare("setup", "plan.json", "--yes") == 0


def test_a_plan_for_another_account_or_region_is_refused(fairshare: Any, aws: InProcessAws) -> None:
    fairshare("setup", "--plan-out", "plan.json")
    saved = load_plan(Path("plan.json"))
    save_plan(replace(saved.plan, account_id="210987654321"), Path("theirs.json"), saved.created_at)

    assert fairshare("setup", "plan.json", "--yes", "--region", "eu-west-1") == 2
    assert fairshare.error == "plan.json is for region us-east-1, and this command acts in eu-west-1"
    assert "--region us-east-1" in fairshare.hint
    assert fairshare("setup", "theirs.json", "--yes") == 6
    assert fairshare.error == (
        f"theirs.json is for account 210987654321, and these credentials belong to account {ACCOUNT}"
    )
    assert aws.call_log.writes() == []


# -- between the plan and the yes ------------------------------------------------------------------------------------


class Person(io.StringIO):
    """Somebody at a terminal who does something, then says yes."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__("y\n")
        self._act = act

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:
        self._act()
        return super().readline()


def test_what_moves_while_the_question_waits_stops_setup(
    fairshare: Any, folder: Any, aws: InProcessAws, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairshare("setup", "--yes")
    folder.write(priority=7)

    def act() -> None:
        batch.update_job_queue(jobQueue="lab-train", priority=9)
        aws.call_log.clear()

    monkeypatch.setattr(sys, "stdin", Person(act))
    assert fairshare.text("setup") == 5

    assert "  job queue lab-train: priority was 1, is now 9" in fairshare.err.splitlines()
    assert "Nothing was changed." in fairshare.err
    assert aws.call_log.writes() == []


def test_jobs_that_come_while_the_question_waits_stop_teardown(
    fairshare: Any, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairshare("setup", "--yes")

    monkeypatch.setattr(sys, "stdin", Person(lambda: send_job(batch, "lab-line")))
    assert fairshare.text("teardown") == 5

    assert "job queue lab-line holds 1 job that has not ended: they came after this plan was made" in fairshare.err
    assert "The queue is DISABLED now" in fairshare.err
    assert fairshare("setup", "--yes") == 0
    assert fairshare.actions.count("UPDATE") == 1


def test_what_is_made_while_the_question_waits_stops_teardown(
    fairshare: Any, folder: Any, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairshare("setup", "--yes")
    before = everything(batch)
    monkeypatch.setattr(sys, "stdin", Person(lambda: make_environment(batch, "lab-more", tags={OWNER_TAG: "lab"})))

    assert fairshare.text("teardown") == 5

    assert "  service environment lab-more is new" in fairshare.err.splitlines()
    assert everything(batch)["queues"] == before["queues"]


def test_ctrl_c_says_how_far_it_came_and_the_next_run_goes_on(fairshare: Any, batch: Any) -> None:
    class Interrupted(AppContext):
        """Ctrl-C arrives while the second change is made."""

        @property
        def stack_provisioner(self) -> Any:  # type: ignore[override]
            class Provisioner(BatchProvisioner):
                def execute(self, change: Any) -> None:
                    if change.resource_type == "scheduling_policy":
                        raise KeyboardInterrupt
                    super().execute(change)

            return Provisioner(self.session, self.clock)

    code = fairshare("setup", "--yes", make_context=lambda options: Interrupted(options, os.environ, Path.cwd()))
    assert (code, fairshare.error) == (130, "stopped after 1 of 4 changes")
    assert "Run the same command again to go on" in fairshare.hint
    assert fairshare("setup", "--yes") == 0
    assert fairshare.actions == ["NOOP", "CREATE", "CREATE", "CREATE"]


def test_a_stack_that_another_process_holds_is_left_alone(fairshare: Any, tmp_path: Path, aws: InProcessAws) -> None:
    with stack_lock(tmp_path / "state" / "stacks", StackPlace("lab", "us-east-1", ACCOUNT), "fairshare teardown"):
        assert fairshare("setup", "--yes") == 1
        assert fairshare.document["error"]["code"] == "Busy"
        assert "(`fairshare teardown`)" in fairshare.error
        assert fairshare("setup", "--dry-run") == 0
    assert aws.call_log.writes() == []
    assert fairshare("setup", "--yes") == 0


# -- what others made ------------------------------------------------------------------------------------------------


def test_what_others_made_is_adopted_only_when_that_is_said(
    fairshare: Any, aws: InProcessAws, batch: Any, stack_now: Callable[[], dict[str, Any]]
) -> None:
    environment = make_environment(batch, "lab-pool", capacity=2, tags={"cost": "7", "team": "ads"})
    policy = make_policy(batch, "lab-train", HIGHPRI=0.1, LOWPRI=8)
    make_queue(batch, "lab-train", environment, schedulingPolicyArn=policy, priority=1)
    job = send_job(batch, "lab-train", shareIdentifier="HIGHPRI", schedulingPriority=0)
    aws.call_log.clear()

    assert fairshare("setup", "--yes") == 5
    assert "was not made by fairshare (it has no tag fairshare:stack)" in fairshare.error
    assert "`fairshare setup --adopt`" in fairshare.hint
    assert aws.call_log.writes() == []

    assert fairshare.text("setup", "--adopt", "--dry-run") == 0
    assert "  ~  job queue            train  adopt" in fairshare.out
    assert "Warning: job queue lab-train was not made by fairshare: once it is adopted, teardown" in fairshare.out
    assert fairshare("setup", "--adopt", "--yes") == 0
    assert fairshare.actions == ["UPDATE", "UPDATE", "UPDATE", "CREATE"]
    assert stack_now() == {"capacity": 4, "priority": 1, "low": "3"}
    (found,) = batch.describe_service_environments(serviceEnvironments=["lab-pool"])["serviceEnvironments"]
    assert found["tags"] == {"cost": "7", "team": "search", "fairshare:tags": "team", OWNER_TAG: "lab"}
    assert batch.describe_service_job(jobId=job)["status"] == "RUNNING"
    assert fairshare("setup", "--dry-run") == 0
    assert fairshare.actions == ["NOOP"] * 4


def test_a_resource_of_another_stack_is_not_adopted(fairshare: Any, aws: InProcessAws, batch: Any) -> None:
    make_environment(batch, "lab-pool", tags={OWNER_TAG: "other"})
    aws.call_log.clear()

    assert fairshare("setup", "--adopt", "--yes") == 5

    assert fairshare.error.endswith("exists already and belongs to stack other")
    assert aws.call_log.writes() == []


def test_queues_of_others_are_used_and_never_changed(fairshare: Any, folder: Any, batch: Any) -> None:
    environment = make_environment(batch, "theirs", capacity=8, tags={"owner": "them"})
    policy = make_policy(batch, "their-policy", TEAMA=1, TEAMB=4)
    arn = make_queue(batch, "their-queue", environment, schedulingPolicyArn=policy)
    before = everything(batch)
    (folder.path / "train.py").write_text("print('hello')\n")

    for queue in ("their-queue", arn):
        assert fairshare("submit", "train.py", "-q", queue, "--share", "TEAMB", "--priority", "3") == 0
        assert [job["share_identifier"] for job in fairshare.document["jobs"]] == ["TEAMB"]
    assert fairshare("submit", "train.py", "-q", "their-queue", "--share", "TEAMZ") == 2
    assert fairshare("submit", "train.py", "-q", "their-queue", "--share", "TEAMA", "--instance-count", "9") == 5
    assert fairshare("queue", "-q", "their-queue") == 0
    assert [job["share_identifier"] for job in fairshare.document["jobs"]] == ["TEAMB", "TEAMB"]
    assert fairshare("shares", "-q", "their-queue") == 0
    shares = {row["share_identifier"]: row["weight_factor"] for row in fairshare.document["shares"]}
    assert {name: float(weight) for name, weight in shares.items()} == {"TEAMA": 1.0, "TEAMB": 4.0}

    assert fairshare("setup", "--yes") == 0
    assert "their-queue" not in {change["name"] for change in fairshare.document["changes"]}
    assert fairshare("teardown", "--yes") == 0
    assert everything(batch) == before


# -- teardown --------------------------------------------------------------------------------------------------------


def test_teardown_touches_only_what_carries_the_tag(fairshare: Any, folder: Any, batch: Any) -> None:
    environment = make_environment(batch, "lab-pool")
    make_queue(batch, "lab-line", environment)
    make_environment(batch, "lab-other", tags={OWNER_TAG: "other"})
    make_policy(batch, "lab-train", HIGHPRI=1)
    before = everything(batch)
    make_environment(batch, "forgotten", tags={OWNER_TAG: "lab"})

    assert fairshare("teardown", "--yes") == 0

    assert [change["name"] for change in fairshare.document["changes"]] == ["forgotten"]
    assert everything(batch) == before


def test_teardown_is_refused_while_others_use_what_it_would_delete(
    fairshare: Any, aws: InProcessAws, batch: Any
) -> None:
    fairshare("setup", "--yes")
    make_queue(batch, "their-queue", f"{ARN}:service-environment/lab-pool")
    aws.call_log.clear()

    assert fairshare("teardown", "--yes") == 5

    assert fairshare.error == (
        "service environment lab-pool is in use by job queue their-queue, which is not of stack lab"
    )
    assert aws.call_log.writes() == []


def test_c04_teardown_ends_jobs_only_when_that_is_said(fairshare: Any, aws: InProcessAws, batch: Any) -> None:
    fairshare("setup", "--yes")
    jobs = [send_job(batch, "lab-line"), send_job(batch, "lab-train", shareIdentifier="LOWPRI")]
    aws.call_log.clear()

    assert fairshare("teardown", "--yes") == 5
    assert fairshare.error.splitlines() == [
        "job queue lab-line holds 1 job that has not ended",
        "job queue lab-train holds 1 job that has not ended",
    ]
    assert aws.call_log.writes() == []
    assert fairshare("teardown", "--yes", "--end-jobs") == 0
    assert fairshare.document["warnings"] == [
        "job queue lab-line holds 1 job that has not ended: deleting the queue ends them",
        "job queue lab-train holds 1 job that has not ended: deleting the queue ends them",
    ]
    assert {batch.describe_service_job(jobId=job)["status"] for job in jobs} == {"FAILED"}
    assert everything(batch) == {"environments": [], "policies": [], "queues": []}
    assert fairshare("teardown", "--yes") == 0
    assert fairshare.document["changes"] == []


def test_setup_of_the_same_name_in_two_regions_does_not_mix(fairshare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fairshare("setup", "--yes") == 0
    assert fairshare("setup", "--yes", "--region", "eu-west-1") == 0
    assert fairshare("teardown", "--yes") == 0

    names = boto3.client("batch", region_name="eu-west-1").describe_job_queues()["jobQueues"]

    assert {queue["jobQueueName"] for queue in names} == {"lab-train", "lab-line"}


def test_a_project_file_can_be_named(fairshare: Any, folder: Any) -> None:
    elsewhere = folder.path / "elsewhere.yaml"
    elsewhere.write_text((folder.path / "fairshare.yaml").read_text().replace("stack: lab", "stack: lab2"))

    assert fairshare("setup", "-f", str(elsewhere), "--dry-run") == 0

    assert {change["name"].split("-")[0] for change in fairshare.document["changes"]} == {"lab2"}


def test_the_plan_of_a_context_without_project_is_refused(fairshare: Any, folder: Any) -> None:
    (folder.path / "fairshare.yaml").unlink()

    def make_context(options: Options) -> AppContext:
        return AppContext(options, {"AWS_REGION": "us-east-1"}, folder.path)

    assert fairshare("setup", "--dry-run", make_context=make_context) == 2
    assert "no fairshare.yaml" in fairshare.error
