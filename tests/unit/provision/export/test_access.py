"""What policies are about: objects in S3, images, roles, and where ARNs point."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairshare.config.project import Defaults, Project
from fairshare.model import UsageError
from fairshare.provision.desired import desired_state
from fairshare.provision.export.access import Access, Options, access_of
from fairshare.provision.place import PSEUDO, Place, place_of

PLACE = Place("aws", "us-west-2", "111122223333")


@pytest.fixture
def access(project: Callable[..., Project]) -> Callable[..., Access]:
    """What the policies of the project are about, with options and defaults for its jobs."""

    def make(options: Options | None = None, place: Place = PLACE, **defaults: str) -> Access:
        found = project(defaults=Defaults(**defaults))
        return access_of(found, desired_state(found), place, options or Options())

    return make


def test_queues_and_shares_are_in_the_order_of_the_file(access: Callable[..., Access]) -> None:
    found = access()

    assert found.queues == ("ml-gpu", "ml-batch")
    assert found.fifo_queues == ("ml-batch",)
    assert found.shares == (("ml-gpu", "HIGHPRI"), ("ml-gpu", "MIDPRI"), ("ml-gpu", "LOWPRI"))


def test_jobs_read_and_write_below_fairshare_and_where_they_are_told(access: Callable[..., Access]) -> None:
    own = "sagemaker-us-west-2-111122223333/fairshare/*"
    assert (access().readable, access().writable) == ((own,), (own,))

    more = access(Options(read_from=("s3://data/sets/", "s3://all"), write_to=("s3://out/",)))
    assert more.readable == (own, "data/sets/*", "all/*", "out/*")
    assert more.writable == (own, "out/*")


def test_a_bucket_of_the_file_takes_the_place_of_the_default(access: Callable[..., Access]) -> None:
    found = access(bucket="team")

    assert (found.bucket, found.is_default_bucket) == ("team", False)
    assert access().is_default_bucket


@pytest.mark.parametrize("uri", ["data/sets", "s3://", "s3:///x", "s3://a/*", "s3://a/${x}", "s3://a b/"])
def test_what_is_no_place_in_s3_is_refused(access: Callable[..., Access], uri: str) -> None:
    with pytest.raises(UsageError) as error:
        access(Options(write_to=(uri,)))

    assert error.value.message == f'"{uri}" is not a place in S3'
    assert error.value.hint == "write it as s3://bucket/prefix/"


def test_a_role_is_a_name_or_an_arn(access: Callable[..., Access]) -> None:
    arn = "arn:aws:iam::444455556666:role/path/Training"

    assert access(role="Training").roles == ("arn:aws:iam::111122223333:role/Training",)
    assert access(role=arn).roles == (arn,)
    assert access().roles == ()


@pytest.mark.parametrize("version", ["", ":1", "@sha256:0123"])
def test_an_image_is_pulled_from_its_repository_only(access: Callable[..., Access], version: str) -> None:
    image = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/team/train{version}"

    assert access(image=image).repositories == ("arn:aws:ecr:us-east-1:123456789012:repository/team/train",)


def test_an_image_that_is_not_known_is_of_the_account_or_of_aws(access: Callable[..., Access]) -> None:
    assert access(image="python:local").repositories == (
        "arn:aws:ecr:us-west-2:111122223333:repository/*",
        "arn:aws:ecr:us-west-2:763104351884:repository/*",
    )


@pytest.mark.parametrize(
    ("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov"), ("eu-west-1", "aws")]
)
def test_c07_arns_are_of_the_partition_of_the_region(region: str, partition: str) -> None:
    place = place_of(region, "111122223333")

    assert place.arn("batch", "job-queue/a") == f"arn:{partition}:batch:{region}:111122223333:job-queue/a"
    assert place.arn("iam", "role/a", regional=False) == f"arn:{partition}:iam::111122223333:role/a"
    assert place.bucket("a/b") == f"arn:{partition}:s3:::a/b"


def test_what_is_not_known_matches_everything() -> None:
    assert place_of(None, None).arn("batch", "job-queue/a") == "arn:aws:batch:*:*:job-queue/a"
    assert PSEUDO.default_bucket == "sagemaker-${AWS::Region}-${AWS::AccountId}"
