from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from fairshare.aws.objects import S3Store, split_uri
from fairshare.aws.session import AwsSession
from fairshare.model import CredentialsError, NotFoundError, UsageError
from fairshare.submit.ports import Upload


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty AWS in memory."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    with mock_aws():
        yield


def upload(uri: str, body: bytes = b"body") -> Upload:
    return Upload(uri, body, "source of digits")


@pytest.mark.usefixtures("world")
def test_objects_are_sent_once_and_only_when_missing() -> None:
    session = AwsSession(region="us-west-2")
    store = S3Store(session)
    calls: list[str] = []
    session.client("s3").meta.events.register("before-call.s3", lambda model, **_: calls.append(model.name))
    uploads = [
        upload(f"s3://{session.default_bucket}/code/{number % 20}", bytes([number % 20])) for number in range(40)
    ]

    assert store.put_missing(uploads) == 20
    assert calls.count("PutObject") == 20
    assert store.put_missing(uploads) == 0
    assert calls.count("PutObject") == 20
    assert store.read(uploads[7].s3_uri) == bytes([7])
    assert store.exists(uploads[7].s3_uri)
    assert not store.exists(f"s3://{session.default_bucket}/code")
    assert store.put_missing([]) == 0


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(("region", "constraint"), [("us-east-1", None), ("eu-central-1", "eu-central-1")])
def test_a_bucket_is_made_in_the_region_of_the_session(region: str, constraint: str | None) -> None:
    session = AwsSession(region=region)

    S3Store(session).put_missing([upload("s3://my-bucket/a"), upload("s3://my-bucket/b")])

    assert session.client("s3").get_bucket_location(Bucket="my-bucket")["LocationConstraint"] == constraint


@pytest.mark.usefixtures("world")
def test_reading_what_is_not_there_is_not_found() -> None:
    store = S3Store(AwsSession(region="us-west-2"))
    store.put_missing([upload("s3://my-bucket/a")])

    with pytest.raises(NotFoundError, match=r"Cannot read s3://my-bucket/b: .*key does not exist"):
        store.read("s3://my-bucket/b")
    with pytest.raises(NotFoundError, match="Cannot read s3://no-bucket/b"):
        store.read("s3://no-bucket/b")
    assert not store.exists("s3://no-bucket/b")


class GuardedS3:
    """S3 that refuses some methods and notes the rest."""

    def __init__(self, refused: dict[str, ClientError]) -> None:
        self._refused = refused
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(**request: Any) -> dict[str, Any]:
            self.asked.append((method, request))
            if method in self._refused:
                raise self._refused[method]
            return {}

        return call


def test_without_permission_to_list_the_object_is_sent(
    refusal: Callable[..., ClientError], session_of: Callable[..., Any]
) -> None:
    forbidden = refusal("Forbidden", "403", 403)
    s3 = GuardedS3({"head_bucket": forbidden, "head_object": forbidden})

    assert S3Store(session_of(s3=s3)).put_missing([upload("s3://team-bucket/a")]) == 1
    assert [method for method, _ in s3.asked] == ["head_bucket", "head_object", "put_object"]


def test_the_default_bucket_must_belong_to_the_account(
    refusal: Callable[..., ClientError], session_of: Callable[..., Any]
) -> None:
    s3 = GuardedS3({"head_bucket": refusal("Forbidden", "403", 403)})
    bucket = "sagemaker-us-west-2-111122223333"

    with pytest.raises(CredentialsError, match=f"Cannot look for bucket {bucket}: Forbidden"):
        S3Store(session_of(s3=s3)).put_missing([upload(f"s3://{bucket}/a")])

    assert s3.asked == [("head_bucket", {"Bucket": bucket, "ExpectedBucketOwner": "111122223333"})]


def test_a_bucket_that_another_process_makes_at_the_same_time_is_no_error(
    refusal: Callable[..., ClientError], session_of: Callable[..., Any]
) -> None:
    missing = refusal("Not Found", "404", 404)
    s3 = GuardedS3(
        {
            "head_bucket": missing,
            "head_object": missing,
            "create_bucket": refusal("Your previous request", "BucketAlreadyOwnedByYou", 409),
        }
    )

    assert S3Store(session_of(s3=s3)).put_missing([upload("s3://team-bucket/a")]) == 1


def test_a_failed_upload_says_what_it_was(refusal: Callable[..., ClientError], session_of: Callable[..., Any]) -> None:
    denied = refusal("Access Denied", "AccessDenied", 403)
    s3 = GuardedS3({"head_object": refusal("Not Found", "404", 404), "put_object": denied})

    with pytest.raises(CredentialsError, match="Cannot upload source of digits to s3://team-bucket/a: Access Denied"):
        S3Store(session_of(s3=s3)).put_missing([upload("s3://team-bucket/a")])


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("s3://bucket/key", ("bucket", "key")),
        ("s3://bucket/a/b c#d?e/", ("bucket", "a/b c#d?e/")),
        ("s3://bucket//key", ("bucket", "/key")),
    ],
)
def test_split_uri(uri: str, parts: tuple[str, str]) -> None:
    assert split_uri(uri) == parts


@pytest.mark.parametrize("uri", ["", "s3://bucket", "s3://bucket/", "s3:///key", "https://bucket/key", "bucket/key"])
def test_what_is_no_object_is_refused(uri: str) -> None:
    with pytest.raises(UsageError, match="is not the address of an S3 object"):
        split_uri(uri)
