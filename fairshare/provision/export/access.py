"""What the policies of a stack are about: its queues, its places in S3, its roles, its images."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fairshare.model import MAX_PRIORITY, UsageError
from fairshare.provision.place import Place

if TYPE_CHECKING:
    from fairshare.config.project import Project
    from fairshare.provision.desired import Desired

_ECR_IMAGE: Final = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.[a-z.]+/(?P<name>[^:@]+)([:@].*)?"
)
_AWS_IMAGES: Final = "763104351884"
"""Account of the Deep Learning Containers in most regions
(https://docs.aws.amazon.com/sagemaker/latest/dg-ecr-paths/ecr-us-east-1.html)."""


@dataclass(frozen=True)
class Options:
    """What ``fairshare.yaml`` does not say. ``read_from`` and ``write_to`` are URIs: ``s3://bucket/prefix/``."""

    priority_ceiling: int = MAX_PRIORITY
    """Highest scheduling priority that submitters may use."""
    read_from: tuple[str, ...] = ()
    """Where else jobs find their data."""
    write_to: tuple[str, ...] = ()
    """Where else jobs leave checkpoints and output."""
    kms_key: str | None = None
    """ARN of the key that encrypts their objects."""


@dataclass(frozen=True)
class Access:
    """What the policies are about. Names, not ARNs, except where it says so; objects as ``bucket/prefix*``."""

    stack: str
    place: Place
    queues: tuple[str, ...]
    """Names of all job queues."""
    fifo_queues: tuple[str, ...]
    shares: tuple[tuple[str, str], ...]
    """Queue and entry of its policy (``PREFIX*`` included), in the order of the file."""
    quota_shares: tuple[tuple[str, str], ...]
    """Queue and name of each of its quota shares."""
    bucket: str
    is_default_bucket: bool
    roles: tuple[str, ...]
    """ARNs of the execution roles that jobs may have."""
    repositories: tuple[str, ...]
    """ARNs of the repositories that images come from."""
    options: Options = Options()
    topic: str | None = None
    """ARN of the SNS topic that alarms go to."""

    @property
    def quota_queues(self) -> tuple[str, ...]:
        """Names of the queues that have quota shares."""
        return tuple(dict.fromkeys(queue for queue, _ in self.quota_shares))

    @property
    def own_objects(self) -> str:
        """Sources, output and checkpoints that have no place of their own (`fairshare.trainer`)."""
        return f"{self.bucket}/fairshare/*"

    @property
    def readable(self) -> tuple[str, ...]:
        """Objects that jobs may read."""
        return tuple(
            dict.fromkeys((self.own_objects, *map(_objects, (*self.options.read_from, *self.options.write_to))))
        )

    @property
    def writable(self) -> tuple[str, ...]:
        """Objects that jobs may write."""
        return tuple(dict.fromkeys((self.own_objects, *map(_objects, self.options.write_to))))


def access_of(project: Project, desired: Desired, place: Place, options: Options = Options()) -> Access:
    """Return what the policies of a project are about.

    Raises:
        UsageError: a place in S3 is not written as ``s3://bucket/prefix``.
    """
    defaults = project.defaults
    policies = {policy.name: policy.fairshare_policy for policy in desired.scheduling_policies}
    return Access(
        stack=desired.stack,
        place=place,
        queues=tuple(queue.name for queue in desired.job_queues),
        fifo_queues=tuple(queue.name for queue in desired.job_queues if queue.scheduling_policy is None),
        shares=tuple(
            (queue.name, share.share_identifier)
            for queue in desired.job_queues
            if queue.scheduling_policy is not None
            if (policy := policies[queue.scheduling_policy]) is not None
            for share in policy.share_distribution
        ),
        quota_shares=tuple((share.queue, share.share) for share in desired.quota_shares),
        bucket=defaults.bucket or place.default_bucket,
        is_default_bucket=defaults.bucket is None,
        roles=_roles(defaults.role, place),
        repositories=_repositories(defaults.image, place),
        options=_checked(options),
        topic=project.alarms.sns_topic,
    )


def _checked(options: Options) -> Options:
    for uri in (*options.read_from, *options.write_to):
        _objects(uri)
    return options


def _objects(uri: str) -> str:
    """``s3://bucket/prefix`` -> ``bucket/prefix*``."""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    if not uri.startswith("s3://") or not bucket or set(uri) & set("*?$ "):
        raise UsageError(f'"{uri}" is not a place in S3', hint="write it as s3://bucket/prefix/")
    return f"{bucket}/{prefix}*"


def _roles(role: str | None, place: Place) -> tuple[str, ...]:
    if role is None:
        return ()
    return (role if role.startswith("arn:") else place.arn("iam", f"role/{role}", regional=False),)


def _repositories(image: str | None, place: Place) -> tuple[str, ...]:
    match = _ECR_IMAGE.fullmatch(image or "")
    if match is not None:
        return (f"arn:{place.partition}:ecr:{match['region']}:{match['account']}:repository/{match['name']}",)
    of_aws = f"arn:{place.partition}:ecr:{place.region}:{_AWS_IMAGES}:repository/*"
    return (place.arn("ecr", "repository/*"), of_aws)
