"""Where things are that a job names: its image, its role, its data in S3, against the region the job runs in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairshare.model import partition_of
from fairshare.submit.report import Finding

MAX_IMAGE: Final = 255
MAX_S3_URI: Final = 1024
"""Lengths of the shapes AlgorithmImage and S3Uri in SageMaker's model."""

_ECR_IMAGE: Final = re.compile(
    r"(?P<account>\w+)\.dkr[.-]ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.(?P<domain>[a-z0-9.-]+)/(?P<repository>.*)"
)
_REPOSITORY: Final = re.compile(r"[a-z0-9]+([._/-]+[a-z0-9]+)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?")
"""``repository[:tag][@digest]`` (https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_CreateRepository.html)."""

_DOMAINS: Final = {"aws-cn": "amazonaws.com.cn"}
_ROLE_ARN: Final = re.compile(r"arn:(?P<partition>aws[a-z-]*):iam::\d{12}:role/?[a-zA-Z_0-9+=,.@/-]+")
"""Shape RoleArn in SageMaker's model."""

_ROLE_NAME: Final = re.compile(r"[\w+=,.@/-]{1,512}", re.ASCII)
_BUCKET: Final = re.compile(r"(?!\d+\.\d+\.\d+\.\d+$)[a-z0-9](?!.*\.\.)[a-z0-9.-]{1,61}[a-z0-9]")
"""https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html; access-point aliases fit, too."""

_REGION_IN_NAME: Final = re.compile(
    r"(?<![a-z0-9])(?:af|ap|ca|cn|eu|il|me|mx|sa|us)(?:-gov)?-"
    r"(?:north|south|east|west|central|northeast|northwest|southeast|southwest)-\d(?![a-z0-9])"
)
_USER_INFO: Final = re.compile(r"//[^/@]*@")


def image_findings(image: str, region: str, *, is_private: bool = False) -> Iterator[Finding]:
    """Yield why SageMaker could not pull an image (case C19): it pulls from Amazon ECR, in the job's region.

    Args:
        image: its URI.
        region: where the job runs.
        is_private: it comes from a registry inside the job's VPC (TrainingRepositoryAccessMode Vpc).

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AlgorithmSpecification.html
    """
    if len(image) > MAX_IMAGE:
        yield Finding(f"its image URI has {len(image)} characters, at most {MAX_IMAGE} are allowed", ("image",))
    match = _ECR_IMAGE.fullmatch(image)
    if match is None:
        if not is_private:
            yield Finding(
                "its image is not in Amazon ECR, and SageMaker pulls others only from a registry in the job's VPC",
                ("image",),
                f"write it as ACCOUNT.dkr.ecr.{region}.{_domain(region)}/REPOSITORY:TAG",
                "warning",
            )
        return
    if not re.fullmatch(r"\d{12}", match["account"]):
        yield Finding(f"its image is of account {match['account']}, which is not 12 digits", ("image",))
    if not _REPOSITORY.fullmatch(match["repository"]):
        hint = "write REPOSITORY:TAG or REPOSITORY@sha256:..., in lower case"
        yield Finding(f'"{match["repository"]}" is no image of an ECR registry', ("image",), hint)
    if match["region"] != region:
        message = f"its image is in region {match['region']} and the job would run in {region}"
        hint = f"use the image's copy in {region}, or --region {match['region']}"
        yield Finding(message, ("image",), hint)
    elif match["domain"].endswith(".cn") != (partition_of(region) == "aws-cn"):
        message = f"images of region {region} are under {_domain(region)}, not {match['domain']}"
        yield Finding(message, ("image",))


def _domain(region: str) -> str:
    return _DOMAINS.get(partition_of(region), "amazonaws.com")


def role_findings(role: str, region: str) -> Iterator[Finding]:
    """Yield why a role cannot be the job's (case C07): its form, or another partition. A bare name fits anywhere."""
    if not role.startswith("arn:"):
        if not _ROLE_NAME.fullmatch(role):
            yield Finding(f'"{role}" cannot be the name of a role', ("role",), "give the role's name or its ARN")
        return
    match = _ROLE_ARN.fullmatch(role)
    if match is None:
        hint = f"as in arn:{partition_of(region)}:iam::111122223333:role/MLTraining"
        yield Finding(f'"{role}" is not the ARN of a role', ("role",), hint)
    elif match["partition"] != partition_of(region):
        message = f"its role is of partition {match['partition']} and region {region} is in {partition_of(region)}"
        yield Finding(message, ("role",), "use a role of the account the job runs in")


# ---------------------------------------------------------------------------------------------------------------------
# S3


def s3_findings(payload: Mapping[str, Any], region: str) -> Iterator[Finding]:
    """Yield what is wrong with the S3 addresses of a training request.

    The region of a bucket cannot be known without asking; a bucket that carries another region in its name, as
    SageMaker's default bucket does, is worth a warning: SageMaker reads and writes in its own region only.
    """
    for what, at, uri in _s3_uris(payload):
        problem = _s3_problem(uri)
        if problem is not None:
            yield Finding(f"{what}: {problem}", at, "write it as s3://bucket/prefix")
            continue
        bucket = uri.split("/")[2]
        elsewhere = [each for each in _REGION_IN_NAME.findall(bucket) if each != region]
        if elsewhere and region not in bucket:
            message = f"{what}: bucket {bucket} seems to be in {elsewhere[0]}, and the job would run in {region}"
            yield Finding(message, at, f"use a bucket in {region}: SageMaker needs its data there", "warning")


def _s3_uris(payload: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yield (what a person calls it, where a job file has it, URI)."""
    for channel in payload.get("InputDataConfig") or ():
        source = _map(_map(channel.get("DataSource")).get("S3DataSource"))
        if "S3Uri" in source:
            name = str(channel.get("ChannelName", ""))
            yield f"input {name}", ("inputs", name), source["S3Uri"]
    for what, field, member in (
        ("output", "OutputDataConfig", "S3OutputPath"),
        ("checkpoint", "CheckpointConfig", "S3Uri"),
        ("TensorBoardOutputConfig", "TensorBoardOutputConfig", "S3OutputPath"),
        ("DebugHookConfig", "DebugHookConfig", "S3OutputPath"),
        ("ProfilerConfig", "ProfilerConfig", "S3OutputPath"),
    ):
        uri = _map(payload.get(field)).get(member)
        if uri is not None:
            yield what, (what,), uri


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _s3_problem(uri: Any) -> str | None:
    if not isinstance(uri, str) or not uri.startswith("s3://"):
        return f"{_shown(uri)} is not an address in S3"
    if len(uri) > MAX_S3_URI:
        return f"its S3 address has {len(uri)} characters, at most {MAX_S3_URI} are allowed"
    bucket = uri.split("/")[2]
    if not _BUCKET.fullmatch(bucket):
        return f'"{_shown(bucket)}" cannot be the name of a bucket'
    return None


def _shown(uri: Any) -> str:
    """An address without what may be secret in it: a password, a signature."""
    plain = _USER_INFO.sub("//***@", str(uri).split("?")[0])
    return plain if len(plain) <= 80 else plain[:77] + "..."
