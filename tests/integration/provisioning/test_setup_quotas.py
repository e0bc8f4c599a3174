"""`setup` and `teardown` of a queue with quota shares, limits by instance type and time limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairshare.local.inprocess import InProcessAws
from fairshare.model import OWNER_TAG

TYPE = "ml.c5.2xlarge"
TEXT = """\
version: 1
stack: lab
service_environments:
  sweep: {capacity_limits: {ml.c5.2xlarge: 8}}
queues:
  sweep:
    service_environment: sweep
    quota_shares:
      TEAMA: {capacity_limits: {ml.c5.2xlarge: 5}, sharing: LEND_AND_BORROW, borrow_limit: 100, in_share_preemption: true}
      TEAMB: {capacity_limits: {ml.c5.2xlarge: 3}, sharing: LEND}
    time_limits: {insufficient_capacity: 4h, misconfiguration: 10m}
alarms: {enabled: false}
"""  # noqa: E501


@pytest.fixture
def quotas(fairshare: Any, folder: Any) -> Any:
    """The command line on the project above."""
    (folder.path / "fairshare.yaml").write_text(TEXT)
    return fairshare


def rewrite(old: str, new: str) -> None:
    file = Path("fairshare.yaml")
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def shares(batch: Any) -> dict[str, Any]:
    return {share["quotaShareName"]: share for share in batch.list_quota_shares(jobQueue="lab-sweep")["quotaShares"]}


def send_job(batch: Any, share: str) -> str:
    payload = {
        "TrainingJobName": "job",
        "ResourceConfig": {"InstanceType": TYPE, "InstanceCount": 1},
        "Environment": {"FAIRSHARE_SIM_SECONDS": "100000"},
    }
    request = {"jobName": "job", "serviceJobType": "SAGEMAKER_TRAINING", "serviceRequestPayload": json.dumps(payload)}
    return str(batch.submit_service_job(jobQueue="lab-sweep", quotaShareName=share, **request)["jobId"])


def test_setup_makes_what_the_file_says_and_then_has_nothing_to_do(quotas: Any, batch: Any) -> None:
    assert quotas("setup", "--yes") == 0
    assert [(change["resource_type"], change["name"]) for change in quotas.document["changes"]] == [
        ("service_environment", "lab-sweep"),
        ("scheduling_policy", "lab-sweep"),
        ("job_queue", "lab-sweep"),
        ("quota_share", "lab-sweep/TEAMA"),
        ("quota_share", "lab-sweep/TEAMB"),
    ]
    (environment,) = batch.describe_service_environments()["serviceEnvironments"]
    assert environment["capacityLimits"] == [{"maxCapacity": 8, "capacityUnit": TYPE}]
    (queue,) = batch.describe_job_queues()["jobQueues"]
    assert {limit["reason"]: limit["maxTimeSeconds"] for limit in queue["jobStateTimeLimitActions"]} == {
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY": 14_400,
        "MISCONFIGURATION:SERVICE_ENVIRONMENT_MAX_RESOURCE": 600,
        "MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED": 600,
    }
    made = shares(batch)
    assert made["TEAMA"]["resourceSharingConfiguration"] == {"strategy": "LEND_AND_BORROW", "borrowLimit": 100}
    assert made["TEAMA"]["preemptionConfiguration"] == {"inSharePreemption": "ENABLED"}
    assert made["TEAMB"]["resourceSharingConfiguration"] == {"strategy": "LEND"}
    described = batch.describe_quota_share(quotaShareArn=made["TEAMB"]["quotaShareArn"])
    assert described["tags"][OWNER_TAG] == "lab"

    assert quotas("setup", "--dry-run", "--detailed-exitcode") == 0
    assert quotas.actions == ["NOOP"] * 5


def test_the_plan_says_who_owns_lends_and_borrows(quotas: Any) -> None:
    assert quotas.text("setup", "--dry-run") == 0
    lines = [" ".join(line.split()) for line in quotas.out.splitlines()]
    assert "+ quota share sweep/TEAMA 5 x ml.c5.2xlarge; LEND_AND_BORROW up to 100 % of its own; preempts in share" in (
        line.partition("; tags")[0] for line in lines
    )
    assert any(line.startswith("+ quota share sweep/TEAMB 3 x ml.c5.2xlarge; LEND") for line in lines)
    assert any("quota shares" in line and "job queue" in line for line in lines)
    assert any(line.startswith("+ service environment sweep 8 x ml.c5.2xlarge") for line in lines)


def test_the_plan_says_what_lint_finds_and_is_made_nevertheless(quotas: Any) -> None:
    assert quotas.text("setup", "--dry-run") == 0
    assert "Lint" not in quotas.out
    rewrite("    time_limits: {insufficient_capacity: 4h, misconfiguration: 10m}\n", "")
    rewrite("{ml.c5.2xlarge: 3}, sharing: LEND}", "{ml.c5.2xlarge: 2}, sharing: LEND}")

    assert quotas.text("setup", "--dry-run") == 0
    text = quotas.out[quotas.out.index("Lint:") :]
    assert text.splitlines()[0] == "Lint: 2 findings in fairshare.yaml"
    first, second = text.splitlines()[1:3]
    assert first.startswith("  P08  line 6  a job that can never start blocks the head of queue sweep for ever")
    assert second.startswith("  P10  line 9  quota shares of queue sweep own 7 of 8 ml.c5.2xlarge")
    assert text.splitlines()[3] == "  What to change: `fairshare policy lint`."

    assert quotas("setup", "--yes") == 0
    assert [finding["code"] for finding in quotas.document["lint"]] == ["P08", "P10"]
    assert set(quotas.document["lint"][0]) == {"code", "file", "line", "column", "message", "change"}
    assert quotas("policy", "lint") == 5
    assert quotas("setup", "--dry-run", "--detailed-exitcode") == 0


def test_what_changes_is_shown_field_by_field_and_put_right(quotas: Any, batch: Any) -> None:
    assert quotas("setup", "--yes") == 0
    rewrite("{ml.c5.2xlarge: 3}, sharing: LEND}", "{ml.c5.2xlarge: 2}, sharing: RESERVE}")
    rewrite("insufficient_capacity: 4h, ", "")
    assert quotas("setup", "--yes") == 0
    changed = {
        change["name"]: {field["field"]: (field["observed"], field["wanted"]) for field in change["fields"]}
        for change in quotas.document["changes"]
        if change["action"] == "UPDATE"
    }
    assert changed == {
        "lab-sweep": {"time_limits.CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY": ("14400", None)},
        "lab-sweep/TEAMB": {f"capacity_limits.{TYPE}": ("3", "2"), "sharing": ("LEND", "RESERVE")},
    }
    assert shares(batch)["TEAMB"]["resourceSharingConfiguration"] == {"strategy": "RESERVE"}
    assert quotas("setup", "--dry-run", "--detailed-exitcode") == 0


def test_a_saved_plan_holds_quota_shares(quotas: Any, batch: Any) -> None:
    assert quotas("setup", "--plan-out", "plan.json") == 0
    assert quotas("setup", "plan.json", "--yes") == 0
    assert set(shares(batch)) == {"TEAMA", "TEAMB"}
    rewrite("borrow_limit: 100", "borrow_limit: 50")
    assert quotas("setup", "--plan-out", "second.json") == 0
    assert quotas("setup", "second.json", "--yes") == 0
    assert shares(batch)["TEAMA"]["resourceSharingConfiguration"]["borrowLimit"] == 50


def test_a_share_that_leaves_the_file_goes_when_its_jobs_have_ended(quotas: Any, batch: Any, aws: InProcessAws) -> None:
    assert quotas("setup", "--yes") == 0
    job = send_job(batch, "TEAMB")
    rewrite("      TEAMB: {capacity_limits: {ml.c5.2xlarge: 3}, sharing: LEND}\n", "")

    assert quotas("setup", "--dry-run") == 0
    assert quotas.actions == ["NOOP"] * 4 + ["DELETE"]
    assert quotas.document["warnings"] == [
        "quota share lab-sweep/TEAMB is not in fairshare.yaml: it takes no more jobs and is deleted; where jobs of it "
        "have not ended, setup stops there and goes on when it is run again"
    ]

    assert quotas("setup", "--yes") == 5
    assert quotas.error == "quota share lab-sweep/TEAMB holds 1 job that has not ended"
    assert "`fairshare setup` deletes it then" in quotas.hint
    assert shares(batch)["TEAMB"]["state"] == "DISABLED"

    batch.terminate_service_job(jobId=job, reason="enough")
    assert quotas("setup", "--yes") == 0
    assert set(shares(batch)) == {"TEAMA"}


def test_c04_teardown_deletes_the_shares_before_their_queue(quotas: Any, batch: Any) -> None:
    assert quotas("setup", "--yes") == 0
    job = send_job(batch, "TEAMA")
    assert quotas("teardown", "--yes") == 5
    assert quotas.error == "job queue lab-sweep holds 1 job that has not ended"

    assert quotas("teardown", "--yes", "--end-jobs") == 0
    assert [(change["resource_type"], change["name"]) for change in quotas.document["changes"]] == [
        ("quota_share", "lab-sweep/TEAMA"),
        ("quota_share", "lab-sweep/TEAMB"),
        ("job_queue", "lab-sweep"),
        ("scheduling_policy", "lab-sweep"),
        ("service_environment", "lab-sweep"),
    ]
    assert batch.describe_service_environments()["serviceEnvironments"] == []
    assert batch.describe_service_job(jobId=job)["status"] == "FAILED"


def test_teardown_leaves_a_quota_share_of_others(quotas: Any, batch: Any) -> None:
    assert quotas("setup", "--yes") == 0
    batch.create_quota_share(
        quotaShareName="THEIRS",
        jobQueue="lab-sweep",
        capacityLimits=[{"maxCapacity": 1, "capacityUnit": TYPE}],
        resourceSharingConfiguration={"strategy": "LEND"},
        preemptionConfiguration={"inSharePreemption": "DISABLED"},
    )
    assert quotas("teardown", "--yes") == 5
    assert quotas.error == "job queue lab-sweep has quota share lab-sweep/THEIRS, which is not of stack lab"
    assert set(shares(batch)) == {"TEAMA", "TEAMB", "THEIRS"}
    assert quotas("setup", "--dry-run", "--detailed-exitcode") == 0


def test_c05_shares_and_quota_shares_are_never_exchanged(quotas: Any) -> None:
    assert quotas("setup", "--yes") == 0
    text = Path("fairshare.yaml").read_text()
    begin, end = text.index("    quota_shares:"), text.index("    time_limits:")
    text = text[:begin] + "    fairshare: {shares: {A: {weight_factor: 1}}}\n" + text[end:]
    text = text.replace("{capacity_limits: {ml.c5.2xlarge: 8}}", "{capacity: 8, instance_types: [ml.c5.2xlarge]}")
    Path("fairshare.yaml").write_text(text)
    assert quotas("setup", "--yes") == 5
    assert quotas.error.splitlines() == [
        f"service environment lab-sweep (service_environments.sweep) counts {TYPE} in AWS: what an environment counts "
        "cannot be changed",
        "scheduling policy lab-sweep (queues.sweep) is a quota-share policy in AWS: the type of a policy cannot be "
        "changed",
    ]


def test_a_queue_of_others_with_quota_shares_is_used_as_it_is(quotas: Any, batch: Any) -> None:
    batch.create_service_environment(
        serviceEnvironmentName="their-environment",
        serviceEnvironmentType="SAGEMAKER_TRAINING",
        capacityLimits=[{"maxCapacity": 4, "capacityUnit": TYPE}],
    )
    quota = {"idleResourceAssignmentStrategy": "FIFO"}
    policy = batch.create_scheduling_policy(name="their-policy", quotaSharePolicy=quota)["arn"]
    batch.create_job_queue(
        jobQueueName="theirs",
        priority=1,
        schedulingPolicyArn=policy,
        serviceEnvironmentOrder=[{"order": 1, "serviceEnvironment": "their-environment"}],
    )
    batch.create_quota_share(
        quotaShareName="ML",
        jobQueue="theirs",
        capacityLimits=[{"maxCapacity": 3, "capacityUnit": TYPE}],
        resourceSharingConfiguration={"strategy": "LEND"},
        preemptionConfiguration={"inSharePreemption": "DISABLED"},
    )
    arn = "arn:aws:batch:us-east-1:123456789012:job-queue/theirs"

    assert quotas("shares", "-q", arn) == 0
    (share,) = quotas.document["quota_shares"]
    assert (share["quota_share"], share["owned"], share["standing"]) == ("ML", 3, "lends up to 3")
    assert quotas.document["capacity"] == {TYPE: 4}

    Path("train.py").write_text("print('hello')\n")
    flags = ("--instance-type", TYPE, "--role", "MLTraining", "--image", "python:local", "--dry-run")
    assert quotas("submit", "train.py", "-q", arn, "--quota-share", "ML", *flags) == 0
    assert quotas.document["requests"][0]["quota_share"] == "ML"
    assert quotas("submit", "train.py", "-q", arn, "--quota-share", "MX", *flags) == 2
    assert 'unknown quota share "MX" in queue theirs' in quotas.error


def test_a_quota_share_without_jobs_has_gauges_so_its_alarm_has_data(quotas: Any) -> None:
    rewrite("alarms: {enabled: false}\n", "alarms: {dashboard: false}\n")
    assert quotas("setup", "--yes") == 0
    made = {change["name"]: change for change in quotas.document["changes"] if change["resource_type"] == "alarm"}
    assert {"lab-sweep-oldest-wait-TEAMA", "lab-sweep-oldest-wait-TEAMB", "lab-sweep-preemptions"} <= made.keys()
    assert quotas("setup", "--dry-run", "--detailed-exitcode") == 0

    assert quotas("metrics", "publish") == 0
    (queue,) = quotas.document["queues"]
    assert [(share["share_identifier"], share["gauges"]["OldestWaitSeconds"]) for share in queue["shares"]] == [
        ("TEAMA", 0),
        ("TEAMB", 0),
    ]
