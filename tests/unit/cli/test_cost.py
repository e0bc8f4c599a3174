"""``fairshare cost``."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from fairshare.model import CredentialsError, JobAttempt, JobDetail
from fairshare.submit.outcomes import Training

HOUR = 3_600_000


@dataclass
class FakePrices:
    """AWS's price list."""

    known: dict[str, Decimal] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    refusal: Exception | None = None

    def price(self, instance_type: str, region: str) -> Decimal | None:
        self.asked.append((instance_type, region))
        if self.refusal is not None:
            raise self.refusal
        return self.known.get(instance_type)


class FakeSageMaker:
    """Every training job was billed for an hour and a half, but for those named gone."""

    def describe(self, names: Collection[str]) -> dict[str, Training]:
        return {name: Training(billable_seconds=5400) for name in names if not name.startswith("gone")}


@pytest.fixture
def prices(cli) -> FakePrices:
    found = FakePrices()
    cli.more |= {"price_source": found, "training_jobs": FakeSageMaker()}
    return found


@pytest.fixture
def table(cli, prices) -> None:
    with (cli.cwd / "fairshare.yaml").open("a") as file:
        file.write("prices: {ml.g6.12xlarge: 5.75}\n")


@pytest.fixture
def ran(cli, job, now):
    """Add a job that ran, with so many attempts."""

    def add(number: int, attempts: int = 1, name: str = "t", **changes: Any) -> JobDetail:
        tries = tuple(JobAttempt(f"{name}{number}-{n}", now - HOUR, now, "Error") for n in range(attempts))
        times = {"status": "SUCCEEDED", "started_at": now - HOUR, "stopped_at": now}
        found = job(number, attempts=tries, **times | changes)
        cli.batch.jobs[found.job_id] = found
        return found

    return add


@pytest.mark.usefixtures("table")
def test_jobs_shares_and_total_as_a_table(cli, ran):
    ran(1, attempts=2)
    ran(2, share_identifier="LOWPRI")

    assert cli("cost") == 0
    assert cli.out == (
        "JOB       SHARE    STATUS     TRIES  HOURS    COST  RETRIED  PREEMPTED\n"
        "train-1   HIGHPRI  SUCCEEDED      2   3.00   17.25    8.625          -\n"
        "train-2   LOWPRI   SUCCEEDED      1   1.50   8.625        -          -\n"
        "1 of      HIGHPRI                     3.00   17.25    8.625          -\n"
        "1 of      LOWPRI                      1.50   8.625        -          -\n"
        "2 in all                              4.50  25.875    8.625          -\n"
        "HOURS: of one instance. COST: in USD, of all tries.\n"
        "ml.g6.12xlarge: 5.75 an hour (fairshare.yaml)\n"
    )


@pytest.mark.usefixtures("table")
def test_the_document_adds_up(cli, ran):
    ran(1, attempts=2)
    ran(2, share_identifier="LOWPRI")
    cli("cost", "-o", "json")
    document = json.loads(cli.out)

    assert (document["kind"], document["currency"]) == ("Cost", "USD")
    assert document["total"] == {
        "jobs": 2,
        "instance_seconds": 16_200,
        "instance_hours": 4.5,
        "amount": 25.875,
        "known_amount": 25.875,
        "last_amount": 17.25,
        "retried_amount": 8.625,
        "preempted_amount": 0.0,
        "is_running": False,
        "unknown": [],
    }
    for rows in (document["jobs"], document["shares"]):
        assert sum(row["amount"] for row in rows) == document["total"]["amount"]
    assert document["jobs"][0]["billable_seconds"] == 10_800
    assert document["jobs"][0]["instance_type"] == "ml.g6.12xlarge"


@pytest.mark.usefixtures("table")
def test_one_job_by_name_and_one_share(cli, ran):
    ran(1)
    ran(2, share_identifier="LOWPRI")

    assert cli("cost", "train-1", "-o", "name") == 0
    by_name = cli.out
    assert cli("cost", "--share", "HIGHPRI", "-o", "name") == 0
    assert by_name == cli.out == "00000001-0000-4000-8000-000000000000\n"
    assert cli("cost", "run:train-1") == 4
    assert cli("cost", "train-1", "--since", "3h") == 2


@pytest.mark.usefixtures("table")
def test_c49_of_a_long_queue_the_newest_jobs_and_those_that_run_are_counted(cli, ran, job, now):
    ran(1, status="RUNNING", stopped_at=None, created_at=now - 2000)
    ran(2, created_at=now - 1000)
    ran(3, created_at=now)
    waiting = [job(number, created_at=now - 500) for number in range(10, 1009)]
    cli.batch.jobs |= {each.job_id: each for each in waiting}

    assert cli("cost", "-o", "name") == 0
    assert [line[:8] for line in cli.out.splitlines()] == ["00000003", "00000001"]
    assert "warning: only the newest 1001 jobs of the queue are looked at: give a shorter --since" in cli.err


def test_what_the_table_lacks_is_asked_of_aws_once_a_week(cli, ran, prices):
    ran(1)
    prices.known = {"ml.g6.12xlarge": Decimal("5.50")}

    assert cli("cost") == 0
    assert "ml.g6.12xlarge: 5.50 an hour (AWS price list, 2026-11-30)" in cli.out
    cli("cost")
    assert prices.asked == [("ml.g6.12xlarge", "eu-west-1")]
    cli.clock.advance(7 * 86_400_000)
    cli("cost", "train-1")
    assert len(prices.asked) == 2


def test_a_price_that_nobody_knows_is_null_and_said(cli, ran, prices):
    ran(1)

    assert cli("cost", "-o", "json") == 3
    document = json.loads(cli.out)
    assert document["total"]["amount"] is None
    assert document["total"]["known_amount"] == 0
    assert document["total"]["instance_hours"] == 1.5
    assert cli.err == (
        "Not known, so not counted: price of ml.g6.12xlarge\n"
        "  Write prices: {ml.g6.12xlarge: 1.23} into fairshare.yaml, for an hour of one instance.\n"
    )


@pytest.mark.usefixtures("table")
def test_a_training_job_that_sagemaker_forgot_is_unknown(cli, ran):
    ran(1, name="gone")

    assert cli("cost") == 3
    assert "unknown" in cli.out
    assert cli.err == "Not known, so not counted: billable time of the last attempt\n"


def test_a_list_that_cannot_be_asked_is_a_warning(cli, ran, prices):
    ran(1)
    prices.refusal = CredentialsError("not authorized")

    assert cli("cost") == 3
    assert cli.err.startswith("warning: AWS's price list cannot be asked: not authorized\n")


def test_another_currency_than_that_of_the_list_does_not_ask_it(cli, ran, prices):
    with (cli.cwd / "fairshare.yaml").open("a") as file:
        file.write("prices: {currency: EUR}\n")
    ran(1)

    assert cli("cost") == 3
    assert prices.asked == []


@pytest.mark.usefixtures("table")
def test_nothing_ran(cli, job):
    assert cli("cost") == 0
    assert cli.out == "No job held instances.\n"


@pytest.mark.usefixtures("table")
def test_a_job_that_runs_is_counted_up_to_now(cli, ran):
    ran(1, attempts=0, status="RUNNING", stopped_at=None, training_job_name="gone1")

    assert cli("cost") == 0
    assert "5.75" in cli.out
    assert "Jobs that run are counted up to now." in cli.out
