"""Images, roles and data against the region of the job."""

from __future__ import annotations

from typing import Any

import pytest

from fairshare.submit.places import image_findings, role_findings, s3_findings
from fairshare.submit.report import Finding

ECR = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
DIGEST = "sha256:" + "0" * 64


def only(findings: Any) -> Finding:
    found = list(findings)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("image", "region"),
    [
        (f"{ECR}/train:1", "us-west-2"),
        (f"{ECR}/team/train_a.b-c", "us-west-2"),
        (f"{ECR}/train@{DIGEST}", "us-west-2"),
        (f"{ECR}/train:v1.2@{DIGEST}", "us-west-2"),
        ("111122223333.dkr.ecr-fips.us-east-1.amazonaws.com/train:1", "us-east-1"),
        ("111122223333.dkr-ecr.us-east-1.on.aws/train:1", "us-east-1"),
        ("111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn/train:1", "cn-north-1"),
        ("111122223333.dkr.ecr.us-gov-west-1.amazonaws.com/train:1", "us-gov-west-1"),
    ],
)
def test_c19_good_images(image: str, region: str) -> None:
    assert list(image_findings(image, region)) == []


@pytest.mark.parametrize(
    ("image", "message", "hint"),
    [
        (
            "111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1",
            "its image is in region us-east-1 and the job would run in us-west-2",
            "use the image's copy in us-west-2, or --region us-east-1",
        ),
        (
            "11112222333.dkr.ecr.us-west-2.amazonaws.com/train:1",
            "its image is of account 11112222333, which is not 12 digits",
            "",
        ),
        (
            f"{ECR}/Train:1",
            '"Train:1" is no image of an ECR registry',
            "write REPOSITORY:TAG or REPOSITORY@sha256:..., in lower case",
        ),
        (
            f"{ECR}/",
            '"" is no image of an ECR registry',
            "write REPOSITORY:TAG or REPOSITORY@sha256:..., in lower case",
        ),
        (
            "111122223333.dkr.ecr.us-west-2.amazonaws.com.cn/train:1",
            "images of region us-west-2 are under amazonaws.com, not amazonaws.com.cn",
            "",
        ),
        (f"{ECR}/{'a' * 250}", f"its image URI has {len(ECR) + 251} characters, at most 255 are allowed", ""),
    ],
)
def test_c19_images_that_sagemaker_could_not_pull(image: str, message: str, hint: str) -> None:
    assert only(image_findings(image, "us-west-2")) == Finding(message, ("image",), hint)


def test_c19_an_image_that_is_not_in_ecr_is_a_warning() -> None:
    finding = only(image_findings("pytorch/pytorch:2.9", "cn-north-1"))

    assert finding.severity == "warning"
    assert finding.hint == "write it as ACCOUNT.dkr.ecr.cn-north-1.amazonaws.com.cn/REPOSITORY:TAG"
    assert list(image_findings("pytorch/pytorch:2.9", "cn-north-1", is_private=True)) == []


@pytest.mark.parametrize(
    ("role", "region"),
    [
        ("MLTraining", "us-west-2"),
        ("service-role/ML.Training@x", "cn-north-1"),
        ("arn:aws:iam::111122223333:role/MLTraining", "us-west-2"),
        ("arn:aws:iam::111122223333:role/ml/Train+x", "us-west-2"),
        ("arn:aws-cn:iam::111122223333:role/ml/Train", "cn-north-1"),
        ("arn:aws-us-gov:iam::111122223333:role/Train", "us-gov-west-1"),
    ],
)
def test_c07_good_roles(role: str, region: str) -> None:
    assert list(role_findings(role, region)) == []


@pytest.mark.parametrize(
    ("role", "message"),
    [
        ("my role", '"my role" cannot be the name of a role'),
        ("arn:aws:iam::111122223333:user/me", '"arn:aws:iam::111122223333:user/me" is not the ARN of a role'),
        ("arn:aws:iam::1111:role/x", '"arn:aws:iam::1111:role/x" is not the ARN of a role'),
        (
            "arn:aws-us-gov:iam::111122223333:role/x",
            "its role is of partition aws-us-gov and region us-west-2 is in aws",
        ),
    ],
)
def test_c07_roles_that_cannot_be_used(role: str, message: str) -> None:
    finding = only(role_findings(role, "us-west-2"))

    assert (finding.message, finding.at) == (message, ("role",))


# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket",
        "s3://my.bucket-1/a b/ü",
        "s3://bucket//x",
        "s3://ap-alias-abc-s3alias/x",
        f"s3://bkt/{'k' * 1000}",
    ],
)
def test_good_s3_addresses(uri: str) -> None:
    assert list(s3_findings({"CheckpointConfig": {"S3Uri": uri}}, "us-west-2")) == []


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("bucket/x", "bucket/x is not an address in S3"),
        ("S3://bucket/x", "S3://bucket/x is not an address in S3"),
        ("https://me:pw@host/x?X-Amz-Signature=abc", "https://***@host/x is not an address in S3"),
        ("s3:///x", '"" cannot be the name of a bucket'),
        ("s3://My_Bucket/x", '"My_Bucket" cannot be the name of a bucket'),
        ("s3://ab/x", '"ab" cannot be the name of a bucket'),
        ("s3://a..b/x", '"a..b" cannot be the name of a bucket'),
        ("s3://10.0.0.1/x", '"10.0.0.1" cannot be the name of a bucket'),
        (f"s3://bucket/{'k' * 1013}", "its S3 address has 1025 characters, at most 1024 are allowed"),
        (5, "5 is not an address in S3"),
    ],
)
def test_bad_s3_addresses(uri: Any, problem: str) -> None:
    finding = only(s3_findings({"CheckpointConfig": {"S3Uri": uri}}, "us-west-2"))

    assert finding == Finding(f"checkpoint: {problem}", ("checkpoint",), "write it as s3://bucket/prefix")


def test_every_address_of_a_request_is_looked_at() -> None:
    payload = {
        "InputDataConfig": [
            {"ChannelName": "train", "DataSource": {"S3DataSource": {"S3Uri": "x"}}},
            {"ChannelName": "files", "DataSource": {"FileSystemDataSource": {}}},
            {"ChannelName": "odd", "DataSource": "x"},
        ],
        "OutputDataConfig": {"S3OutputPath": "x"},
        "CheckpointConfig": {"S3Uri": "x"},
        "TensorBoardOutputConfig": {"S3OutputPath": "x"},
        "DebugHookConfig": {"S3OutputPath": "x"},
        "ProfilerConfig": {"S3OutputPath": "x"},
    }

    assert [finding.at for finding in s3_findings(payload, "us-west-2")] == [
        ("inputs", "train"),
        ("output",),
        ("checkpoint",),
        ("TensorBoardOutputConfig",),
        ("DebugHookConfig",),
        ("ProfilerConfig",),
    ]


def test_a_bucket_named_after_another_region_is_a_warning() -> None:
    def look(bucket: str) -> list[Finding]:
        return list(s3_findings({"OutputDataConfig": {"S3OutputPath": f"s3://{bucket}/x"}}, "us-west-2"))

    (finding,) = look("sagemaker-us-east-1-111122223333")
    assert finding.severity == "warning"
    assert finding.message == (
        "output: bucket sagemaker-us-east-1-111122223333 seems to be in us-east-1, and the job would run in us-west-2"
    )
    assert look("sagemaker-us-west-2-111122223333") == []
    assert look("replica-us-east-1-us-west-2") == []
    assert look("corpus-east-1") == []
    assert look("sagemaker-us-gov-west-1-x")[0].message.startswith(
        "output: bucket sagemaker-us-gov-west-1-x seems to be in us-gov-west-1"
    )
