from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from fairshare.aws.artifacts import fetch_model
from fairshare.aws.objects import S3Store
from fairshare.aws.session import AwsSession
from fairshare.model import FairshareError, NotFoundError
from fairshare.submit.ports import Upload

URI = "s3://models/job/output/model.tar.gz"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    with mock_aws():
        yield S3Store(AwsSession(region="us-east-1"))


def put(store: S3Store, uri: str, body: bytes) -> None:
    store.put_missing([Upload(uri, body, "a model")])


def archive(*members: tarfile.TarInfo | str) -> bytes:
    """A tar archive of members; a name stands for a file that holds it."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w:gz") as tar:
        for member in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            body = info.name.encode() if info.isreg() else b""
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return text.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_an_archive_becomes_a_folder_and_nothing_else_is_left(store: S3Store, tmp_path: Path) -> None:
    put(store, URI, archive("model.bin", "code/a.py"))

    assert fetch_model(store, URI, tmp_path / "models" / "job")

    assert files(tmp_path / "models") == {"job/model.bin": "model.bin", "job/code/a.py": "code/a.py"}


def test_a_folder_that_is_there_is_kept_unless_forced(store: S3Store, tmp_path: Path) -> None:
    put(store, URI, archive("model.bin"))
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "notes.txt").write_text("mine")

    assert not fetch_model(store, URI, tmp_path / "job")
    assert files(tmp_path) == {"job/notes.txt": "mine"}
    assert fetch_model(store, URI, tmp_path / "job", force=True)
    assert files(tmp_path) == {"job/model.bin": "model.bin"}


def test_files_of_an_uncompressed_model(store: S3Store, tmp_path: Path) -> None:
    for key in ("a.bin", "deep/b.bin"):
        put(store, f"s3://models/job/output/model/{key}", key.encode())

    assert fetch_model(store, "s3://models/job/output/model/", tmp_path / "job")

    assert files(tmp_path / "job") == {"a.bin": "a.bin", "deep/b.bin": "deep/b.bin"}


@pytest.mark.parametrize("members", [("../escaped",), (link("out", "../.."), "out/escaped"), (link("out", "/etc"),)])
def test_nothing_in_an_archive_leaves_its_folder(store: S3Store, tmp_path: Path, members: tuple[Any, ...]) -> None:
    put(store, URI, archive(*members))
    folder = tmp_path / "models" / "job"

    with pytest.raises(FairshareError, match=r"model\.tar\.gz is not unpacked: ") as raised:
        fetch_model(store, URI, folder)

    assert "the archive is kept as" in str(raised.value.hint)
    assert not folder.exists()
    assert not list(tmp_path.glob("escaped"))


def test_an_absolute_path_in_an_archive_is_taken_below_the_folder(store: S3Store, tmp_path: Path) -> None:
    put(store, URI, archive("/tmp/escaped"))

    assert fetch_model(store, URI, tmp_path / "job")

    assert files(tmp_path) == {"job/tmp/escaped": "/tmp/escaped"}


def test_a_key_that_would_leave_the_folder_is_refused(store: S3Store, tmp_path: Path) -> None:
    put(store, "s3://models/job/model/../../escaped", b"x")

    with pytest.raises(FairshareError, match="would leave the folder of its model"):
        fetch_model(store, "s3://models/job/model/", tmp_path / "models" / "job")
    assert files(tmp_path) == {}


def test_what_is_no_archive_leaves_no_folder(store: S3Store, tmp_path: Path) -> None:
    put(store, URI, b"not a tar archive")

    with pytest.raises(FairshareError, match="is not an archive"):
        fetch_model(store, URI, tmp_path / "job")
    assert files(tmp_path) == {}
    with pytest.raises(NotFoundError):
        fetch_model(store, "s3://models/gone.tar.gz", tmp_path / "job")


def test_a_download_that_was_cut_off_goes_on_where_it_stopped(store: S3Store, tmp_path: Path) -> None:
    put(store, "s3://models/big", b"0123456789")
    client = store._client
    tag = client.head_object(Bucket="models", Key="big")["ETag"]
    ranges: list[str] = []
    client.meta.events.register(
        "before-parameter-build.s3.GetObject", lambda params, **_: ranges.append(params["Range"])
    )
    (tmp_path / f"big.{sha256(tag.encode()).hexdigest()[:16]}.part").write_bytes(b"0123")

    store.download("s3://models/big", tmp_path / "big")

    assert ((tmp_path / "big").read_bytes(), ranges) == (b"0123456789", ["bytes=4-"])
    assert [path.name for path in tmp_path.iterdir()] == ["big"]


def test_an_empty_object_is_an_empty_file(store: S3Store, tmp_path: Path) -> None:
    put(store, "s3://models/empty", b"")

    store.download("s3://models/empty", tmp_path / "empty")

    assert (tmp_path / "empty").read_bytes() == b""
