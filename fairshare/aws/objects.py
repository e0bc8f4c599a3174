"""Objects in S3: sources and drivers of training jobs go up, results come down."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fairshare.aws.errors import translated
from fairshare.aws.session import AwsSession
from fairshare.model import CredentialsError, NotFoundError, ServiceError, UsageError
from fairshare.submit.ports import Upload

_PARALLEL: Final = 8
_BLOCK: Final = 1 << 20
"""Bytes that a download holds in memory."""
_CLASSIC_REGION: Final = "us-east-1"
"""The one region that CreateBucket refuses to be told about."""


class S3Store:
    """Reads and writes whole objects. URIs are ``s3://bucket/key``."""

    def __init__(self, session: AwsSession) -> None:
        self._session = session

    def put_missing(self, uploads: Sequence[Upload]) -> int:
        """Send what is not in S3 yet, each URI once, and make the buckets that do not exist.

        Equal URIs hold equal content (see `fairshare.submit.ports.Upload`), so an object that exists is right.

        Returns:
            How many objects were sent.
        """
        wanted = list({upload.s3_uri: upload for upload in uploads}.values())
        for bucket in dict.fromkeys(split_uri(upload.s3_uri)[0] for upload in wanted):
            self._ensure_bucket(bucket)
        with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="upload") as pool:
            return sum(pool.map(self._put_if_missing, wanted))

    def exists(self, uri: str) -> bool:
        """Whether there is such an object."""
        bucket, key = split_uri(uri)
        return self._is_there(f"look for {uri}", "head_object", Bucket=bucket, Key=key)

    def read(self, uri: str) -> bytes:
        """Return the content of an object.

        Raises:
            NotFoundError: there is no such object or bucket.
        """
        bucket, key = split_uri(uri)
        with translated(f"read {uri}", self._session.caller):
            body: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
            return body

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the URIs of the objects below ``s3://bucket/prefix/``, folder markers left out.

        Raises:
            NotFoundError: there is no such bucket.
        """
        bucket, key = split_uri(prefix)
        with translated(f"list {prefix}", self._session.caller):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key):
                yield from (
                    f"s3://{bucket}/{each['Key']}" for each in page.get("Contents", ()) if each["Key"][-1] != "/"
                )

    def download(self, uri: str, path: Path) -> None:
        """Bring an object to a file, which is there whole or not at all.

        What a download that was cut off has left beside it is taken up again, if the object is still the same.

        Raises:
            NotFoundError: there is no such object or bucket.
            FairshareError: S3 cannot be asked, or the object changed meanwhile.
            OSError: the file cannot be written.
        """
        bucket, key = split_uri(uri)
        with translated(f"download {uri}", self._session.caller):
            head = self._client.head_object(Bucket=bucket, Key=key)
            tag, size = head["ETag"], head["ContentLength"]
            part = path.with_name(f"{path.name}.{sha256(tag.encode()).hexdigest()[:16]}.part")
            with part.open("ab") as file:
                if (have := file.tell()) < size:
                    answer = self._client.get_object(Bucket=bucket, Key=key, IfMatch=tag, Range=f"bytes={have}-")
                    shutil.copyfileobj(answer["Body"], file, _BLOCK)
            part.replace(path)

    @property
    def _client(self) -> Any:
        return self._session.client("s3")

    def _put_if_missing(self, upload: Upload) -> bool:
        try:
            if self.exists(upload.s3_uri):
                return False
        except CredentialsError:
            # Without the permission to list, S3 answers 403 to a look at what is missing. Sending tells.
            pass
        bucket, key = split_uri(upload.s3_uri)
        with translated(f"upload {upload.label} to {upload.s3_uri}", self._session.caller):
            self._client.put_object(Bucket=bucket, Key=key, Body=upload.body, **_encryption(upload))
        return True

    def _ensure_bucket(self, bucket: str) -> None:
        """Make a bucket that does not exist.

        The name of SageMaker's default bucket can be guessed, so it must belong to this account: source code is not
        sent to somebody who took the name first. Any other bucket was chosen by the user, who may not be allowed to
        look at it.
        """
        is_default = bucket == self._session.default_bucket
        owner = {"ExpectedBucketOwner": self._session.account_id} if is_default else {}
        try:
            if self._is_there(f"look for bucket {bucket}", "head_bucket", Bucket=bucket, **owner):
                return
        except CredentialsError:
            if is_default:
                raise
            return
        region = self._session.region
        place = {} if region == _CLASSIC_REGION else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        try:
            with translated(f"make bucket {bucket}", self._session.caller):
                self._client.create_bucket(Bucket=bucket, **place)
        except ServiceError as error:
            if error.aws_code != "BucketAlreadyOwnedByYou":
                raise

    def _is_there(self, doing: str, method: str, **request: Any) -> bool:
        try:
            with translated(doing, self._session.caller):
                getattr(self._client, method)(**request)
        except NotFoundError:
            return False
        return True


def split_uri(uri: str) -> tuple[str, str]:
    """Return bucket and key of ``s3://bucket/key``.

    Raises:
        UsageError: it is not such a URI.
    """
    parts = urlsplit(uri, allow_fragments=False)
    key = uri.removeprefix(f"s3://{parts.netloc}/")
    if parts.scheme != "s3" or not parts.netloc or not key or key == uri:
        raise UsageError(f"{uri!r} is not the address of an S3 object", hint="Write it as s3://bucket/key.")
    return parts.netloc, key


def _encryption(upload: Upload) -> dict[str, str]:
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": upload.kms_key} if upload.kms_key is not None else {}
