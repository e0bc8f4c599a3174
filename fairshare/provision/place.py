"""Where ARNs point: an account and region that are known, those of whoever deploys a template, or any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairshare.model import partition_of


@dataclass(frozen=True)
class Place:
    """Where ARNs point. Each part may be a pseudo parameter of CloudFormation; region and account may be ``*``."""

    partition: str
    region: str
    account: str

    def arn(self, service: str, resource: str, *, regional: bool = True) -> str:
        """Return an ARN of this account; ``regional`` is False for the services that have no region in theirs."""
        return f"arn:{self.partition}:{service}:{self.region if regional else ''}:{self.account}:{resource}"

    def bucket(self, name: str) -> str:
        """Return the ARN of an S3 bucket, or of what is in it."""
        return f"arn:{self.partition}:s3:::{name}"

    @property
    def default_bucket(self) -> str:
        """Name of the bucket that SageMaker uses by default."""
        return f"sagemaker-{self.region}-{self.account}"


PSEUDO: Final = Place("${AWS::Partition}", "${AWS::Region}", "${AWS::AccountId}")
"""Where the stack of a template is, whatever account and region that will be."""


def place_of(region: str | None, account: str | None) -> Place:
    """Return where the ARNs of a document of its own point; what is not known matches everything."""
    return Place(partition_of(region or ""), region or "*", account or "*")
