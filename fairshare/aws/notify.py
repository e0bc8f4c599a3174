"""Messages to people: an SNS topic."""

from __future__ import annotations

import re
from typing import Final

from fairshare.aws.errors import translated
from fairshare.aws.session import AwsSession
from fairshare.model import UsageError

_TOPIC: Final = re.compile(r"arn:(aws|aws-cn|aws-us-gov):sns:(?P<region>[a-z0-9-]+):\d{12}:[A-Za-z0-9_-]{1,256}")
_LONGEST_SUBJECT: Final = 99
"""SNS takes subjects of fewer than 100 ASCII characters
(https://docs.aws.amazon.com/sns/latest/api/API_Publish.html)."""


def check_topic(arn: str, region: str) -> None:
    """Refuse what is not a standard SNS topic of the region.

    Raises:
        UsageError: it is not.
    """
    match = _TOPIC.fullmatch(arn)
    if match is None:
        example = f"arn:aws:sns:{region}:123456789012:training"
        raise UsageError(f'"{arn}" is not the ARN of an SNS topic', hint=f"for example sns:{example}")
    if match["region"] != region:
        raise UsageError(
            f"topic {arn} is in {match['region']}, and the command acts in {region}",
            hint=f"use a topic of {region}",
        )


def publish(session: AwsSession, arn: str, subject: str, message: str) -> None:
    """Send one message to the subscribers of a topic.

    Raises:
        FairshareError: AWS does not take it.
    """
    plain = subject.encode("ascii", "replace").decode()[:_LONGEST_SUBJECT]
    with translated(f"publish to {arn}", session.caller):
        session.client("sns").publish(TopicArn=arn, Subject=plain, Message=message)
