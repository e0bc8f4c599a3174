from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from fairshare.local.processes.job_storage import JobStorage, UploadError
from fairshare.local.processes.training_request import Channel, Checkpoint, RefusalError, S3Location


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
        client.create_bucket(Bucket="bucket")
        yield client
        client.close()


@pytest.fixture
def storage(s3: Any) -> JobStorage:
    return JobStorage(s3, check=lambda: None)


def put(s3: Any, *keys: str) -> None:
    for key in keys:
        s3.put_object(Bucket="bucket", Key=key, Body=key.encode())


def keys(s3: Any) -> list[str]:
    return [item["Key"] for item in s3.list_objects_v2(Bucket="bucket").get("Contents", ())]


def files(directory: Path) -> dict[str, str]:
    return {p.relative_to(directory).as_posix(): p.read_text() for p in directory.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("prefix", "stored", "expected"),
    [
        ("in/train", ["in/train/a.csv", "in/train/x/b.csv"], ["a.csv", "x/b.csv"]),
        ("in/train/", ["in/train/", "in/train/a.csv"], ["a.csv"]),
        ("in/train/a.csv", ["in/train/a.csv"], ["a.csv"]),
        ("a.csv", ["a.csv"], ["a.csv"]),
        ("in/tr", ["in/train/a.csv", "in/trial.csv"], ["train/a.csv", "trial.csv"]),
        ("", ["a.csv", "x/b.csv"], ["a.csv", "x/b.csv"]),
        ("in", ["in//a.csv"], ["a.csv"]),
    ],
)
def test_a_prefix_becomes_a_directory(
    s3: Any, storage: JobStorage, tmp_path: Path, prefix: str, stored: list[str], expected: list[str]
) -> None:
    put(s3, *stored)
    storage.download_channel(Channel("train", S3Location("bucket", prefix)), tmp_path)
    assert sorted(files(tmp_path)) == expected


def test_more_objects_than_one_page_are_copied(
    s3: Any, storage: JobStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    put(s3, *(f"in/{n}" for n in range(5)))
    assert len(keys(s3)) == 2, "one page"
    storage.download_channel(Channel("train", S3Location("bucket", "in/")), tmp_path)
    assert len(files(tmp_path)) == 5


@pytest.mark.parametrize(
    ("bucket", "stored", "problem"),
    [
        ("bucket", [], "no object has that prefix"),
        ("gone", [], "An error occurred (NoSuchBucket)"),
        ("bucket", ["in/../../x"], "the key 'in/../../x' leads out of the channel's directory"),
        ("bucket", ["in/x", "in/x/y"], "File exists"),
    ],
)
def test_a_channel_that_cannot_be_copied_is_refused(
    s3: Any, storage: JobStorage, tmp_path: Path, bucket: str, stored: list[str], problem: str
) -> None:
    put(s3, *stored)
    with pytest.raises(RefusalError) as caught:
        storage.download_channel(Channel("train", S3Location(bucket, "in")), tmp_path)
    start = f"ClientError: Data download failed: channel 'train' from s3://{bucket}/in: "
    assert str(caught.value).startswith(start)
    assert problem in str(caught.value)
    assert str(caught.value).endswith(". Check the URI, and that the data is in the local S3.")


def test_a_download_can_be_abandoned_between_objects(s3: Any, tmp_path: Path) -> None:
    put(s3, "in/1", "in/2", "in/3")

    def check() -> None:
        if files(tmp_path):
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        JobStorage(s3, check).download_channel(Channel("train", S3Location("bucket", "in/")), tmp_path)
    assert list(files(tmp_path)) == ["1"]


def test_only_new_and_changed_checkpoint_files_are_saved(s3: Any, storage: JobStorage, tmp_path: Path) -> None:
    put(s3, "ck/1", "ck/2")
    checkpoint = Checkpoint(S3Location("bucket", "ck/"))
    storage.restore_checkpoint(checkpoint, tmp_path)
    s3.delete_object(Bucket="bucket", Key="ck/1")
    (tmp_path / "2").write_text("changed")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "3").write_text("new")
    storage.save_checkpoint(checkpoint, tmp_path)
    assert keys(s3) == ["ck/2", "ck/deep/3"]


def test_the_first_attempt_has_no_checkpoint(storage: JobStorage, tmp_path: Path) -> None:
    storage.restore_checkpoint(Checkpoint(S3Location("bucket", "ck")), tmp_path)
    assert files(tmp_path) == {}


def test_a_checkpoint_that_cannot_be_read_is_refused(storage: JobStorage, tmp_path: Path) -> None:
    with pytest.raises(
        RefusalError, match=r"^ClientError: the checkpoint s3://gone/ck could not be read: .*NoSuchBuck"
    ):
        storage.restore_checkpoint(Checkpoint(S3Location("gone", "ck")), tmp_path)


def test_an_archive_has_relative_names_and_keeps_links(s3: Any, storage: JobStorage, tmp_path: Path) -> None:
    model, scratch = tmp_path / "model", tmp_path / "scratch"
    (model / "epoch-1").mkdir(parents=True)
    scratch.mkdir()
    (model / "epoch-1" / "w").write_text("0.5")
    (model / "best").symlink_to("epoch-1")
    assert storage.upload_archive(model, S3Location("bucket", "out/model.tar.gz"), scratch)
    body = s3.get_object(Bucket="bucket", Key="out/model.tar.gz")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        assert tar.getnames() == ["best", "epoch-1", "epoch-1/w"]
    assert list(scratch.iterdir()) == []


def test_an_empty_directory_is_not_uploaded(s3: Any, storage: JobStorage, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert not storage.upload_archive(tmp_path, S3Location("bucket", "out/x.tar.gz"), tmp_path)
    assert not storage.upload_files(tmp_path, S3Location("bucket", "out/x"))
    assert keys(s3) == []


def test_an_upload_that_fails_says_where(storage: JobStorage, tmp_path: Path) -> None:
    (tmp_path / "w").write_text("0.5")
    with pytest.raises(UploadError, match=r"^s3://gone/out/w: .*NoSuchBucket"):
        storage.upload_files(tmp_path, S3Location("gone", "out"))


def test_an_archive_that_cannot_be_written_is_an_upload_that_fails(storage: JobStorage, tmp_path: Path) -> None:
    (tmp_path / "w").write_text("0.5")
    with pytest.raises(UploadError, match=r"^s3://bucket/out/model.tar.gz: .*No such file or directory"):
        storage.upload_archive(tmp_path, S3Location("bucket", "out/model.tar.gz"), tmp_path / "no-scratch")
