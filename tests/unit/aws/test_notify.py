from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fairshare.aws.notify import check_topic, publish
from fairshare.model import CredentialsError, UsageError

TOPIC = "arn:aws:sns:us-west-2:111122223333:training"


class FakeSns:
    def publish(self, **request: Any) -> dict[str, Any]:
        return {"MessageId": "1"}


class Deny:
    def __init__(self, refusal: ClientError) -> None:
        self._refusal = refusal

    def publish(self, **request: Any) -> dict[str, Any]:
        raise self._refusal


def test_a_message_has_a_subject_that_sns_takes(session_of: Callable[..., Any], checked: Callable[..., Any]) -> None:
    client = checked("sns", FakeSns())

    publish(session_of(sns=client), TOPIC, "Modell ü " + "x" * 200, "all of it")

    ((method, request),) = client.calls
    assert (method, request["TopicArn"], request["Message"]) == ("publish", TOPIC, "all of it")
    assert request["Subject"] == ("Modell ? " + "x" * 200)[:99]


def test_a_topic_that_may_not_be_used(session_of: Callable[..., Any], refusal: Callable[..., ClientError]) -> None:
    denied = refusal("User is not authorized to perform: SNS:Publish", "AuthorizationError", 403)

    with pytest.raises(CredentialsError, match=f"Cannot publish to {TOPIC}: User is not authorized"):
        publish(session_of(sns=Deny(denied)), TOPIC, "subject", "text")


@pytest.mark.parametrize(
    ("arn", "message"),
    [
        ("training", '"training" is not the ARN of an SNS topic'),
        (f"{TOPIC}:subscription", "is not the ARN of an SNS topic"),
        (TOPIC.replace("us-west-2", "eu-west-1"), "is in eu-west-1, and the command acts in us-west-2"),
    ],
)
def test_what_is_no_topic_of_the_region(arn: str, message: str) -> None:
    check_topic(TOPIC, "us-west-2")
    with pytest.raises(UsageError, match=message):
        check_topic(arn, "us-west-2")
