"""URIs that depend on content and on nothing else."""

from __future__ import annotations

from pathlib import Path

from fairshare.submit.ports import Upload
from fairshare.trainer.recorder import Kind, Recorder
from fairshare.trainer.source import SourceFile, SourceTree

TREE = SourceTree(Path("src"), (SourceFile("pkg/a.py", b"1"), SourceFile("train.py", b"2")))


def test_a_directory_is_one_prefix_named_after_its_digest() -> None:
    recorder = Recorder("bucket")
    uri = recorder.tree(TREE, Kind.SOURCE)
    assert uri == f"s3://bucket/fairshare/source/{TREE.digest[:32]}/"
    assert recorder.uploads == (
        Upload(f"{uri}pkg/a.py", b"1", "source pkg/a.py"),
        Upload(f"{uri}train.py", b"2", "source train.py"),
    )


def test_a_file_keeps_its_name_behind_the_digest() -> None:
    recorder = Recorder("bucket")
    uri = recorder.file("model.tar.gz", b"x", Kind.INPUT)
    assert uri.startswith("s3://bucket/fairshare/input/")
    assert uri.endswith("/model.tar.gz")
    assert recorder.uploads == (Upload(uri, b"x", "input model.tar.gz"),)


def test_the_same_content_is_recorded_once_and_held_once() -> None:
    known: dict[str, Upload] = {}
    first, second = Recorder("bucket", known), Recorder("bucket", known)
    copy = SourceTree(Path("copy"), (SourceFile("pkg/a.py", bytes([49])), SourceFile("train.py", b"2")))
    assert first.tree(TREE, Kind.SOURCE) == first.tree(TREE, Kind.SOURCE) == second.tree(copy, Kind.SOURCE)
    assert len(first.uploads) == 2
    assert second.uploads[0] is first.uploads[0]


def test_another_kind_bucket_or_key_is_another_uri() -> None:
    recorder = Recorder("bucket")
    uris = {
        recorder.tree(TREE, Kind.SOURCE),
        recorder.tree(TREE, Kind.DRIVERS),
        recorder.tree(TREE, Kind.SOURCE, bucket="other"),
        recorder.tree(TREE, Kind.SOURCE, kms_key="alias/a"),
        recorder.tree(TREE, Kind.SOURCE, kms_key="alias/b"),
    }
    assert len(uris) == 5
    assert {upload.kms_key for upload in recorder.uploads} == {None, "alias/a", "alias/b"}


def test_drivers_are_called_the_sdks() -> None:
    recorder = Recorder("bucket")
    recorder.tree(TREE, Kind.DRIVERS)
    assert recorder.uploads[0].label == "SDK driver pkg/a.py"
