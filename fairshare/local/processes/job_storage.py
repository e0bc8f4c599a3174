"""What a training job reads from and leaves in S3: channels, checkpoints and artefacts.

Rules of the container's storage: https://docs.aws.amazon.com/sagemaker/latest/dg/model-train-storage.html. The client
is a boto3 S3 client (path-style: the local AWS has one host name). Imports boto3: loaded only where the process
launcher runs.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from fairshare.local.processes.training_request import Channel, Checkpoint, RefusalError, S3Location

_FileStates = dict[str, tuple[int, int]]  # relative path -> (size in bytes, modification time in ns)
_ONE_THREAD = TransferConfig(use_threads=False)
_TRANSFER_ERRORS = (BotoCoreError, ClientError, Boto3Error, OSError)


class UploadError(Exception):
    """What a job made could not be put into S3. The text says where, and S3's answer."""


class JobStorage:
    """Copies between S3 and the directory of one attempt.

    Args:
        client: boto3 S3 client.
        check: called between objects; raises to abandon the work (the attempt was stopped).
    """

    def __init__(self, client: Any, check: Callable[[], None]) -> None:
        self._client = client
        self._check = check
        self._restored: _FileStates = {}

    def download_channel(self, channel: Channel, directory: Path) -> None:
        """Copy every object of a channel. Raises RefusalError when there is none, or S3 says no."""
        try:
            count = self._download(channel.source, directory)
        except _TRANSFER_ERRORS as error:
            raise _download_failed(channel, str(error)) from error
        if count == 0:
            raise _download_failed(channel, "no object has that prefix")

    def restore_checkpoint(self, checkpoint: Checkpoint, directory: Path) -> None:
        """Copy what an earlier attempt saved, if anything. Raises RefusalError when S3 says no."""
        try:
            self._download(checkpoint.location, directory)
        except _TRANSFER_ERRORS as error:
            uri = checkpoint.location.uri
            raise RefusalError(f"ClientError: the checkpoint {uri} could not be read: {error}") from error
        self._restored = _states(directory)

    def save_checkpoint(self, checkpoint: Checkpoint, directory: Path) -> None:
        """Upload the files that are new or changed since `restore_checkpoint`. Raises UploadError."""
        for path, state in _states(directory).items():
            if self._restored.get(path) != state:
                self._upload(directory / path, checkpoint.location.join(path))

    def upload_files(self, directory: Path, location: S3Location) -> bool:
        """Upload each file below ``directory`` as an object; False when there is none. Raises UploadError."""
        paths = list(_states(directory))
        for path in paths:
            self._upload(directory / path, location.join(path))
        return bool(paths)

    def upload_archive(self, directory: Path, location: S3Location, scratch: Path) -> bool:
        """Upload ``directory`` as one gzipped tar; False when it holds no file. Raises UploadError."""
        if not _states(directory):
            return False
        archive = scratch / PurePosixPath(location.key).name
        try:
            with tarfile.open(archive, "w:gz", compresslevel=6) as tar:
                for entry in sorted(directory.iterdir()):
                    tar.add(entry, arcname=entry.name)
        except OSError as error:
            raise UploadError(f"{location.uri}: {error}") from error
        self._upload(archive, location)
        archive.unlink()
        return True

    def _download(self, source: S3Location, directory: Path) -> int:
        count = 0
        for key in self._keys(source):
            self._check()
            target = _target(source.key, key, directory)
            if key.endswith("/"):
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            body = self._client.get_object(Bucket=source.bucket, Key=key)["Body"]
            with body, target.open("wb") as file:
                shutil.copyfileobj(body, file)
            count += 1
        return count

    def _keys(self, source: S3Location) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=source.bucket, Prefix=source.key)
        for page in pages:
            for item in page.get("Contents", ()):
                yield item["Key"]

    def _upload(self, path: Path, location: S3Location) -> None:
        try:
            self._client.upload_file(str(path), location.bucket, location.key, Config=_ONE_THREAD)
        except _TRANSFER_ERRORS as error:
            raise UploadError(f"{location.uri}: {error}") from error


def _download_failed(channel: Channel, problem: str) -> RefusalError:
    return RefusalError(
        f"ClientError: Data download failed: channel {channel.name!r} from {channel.source.uri}: {problem}. "
        "Check the URI, and that the data is in the local S3."
    )


def _target(prefix: str, key: str, directory: Path) -> Path:
    """Where an object goes: with prefix ``a/b``, ``a/b/c`` goes to ``c``, ``a/b`` to ``b`` and ``a/bc`` to ``bc``."""
    folder = prefix if key.startswith(prefix.rstrip("/") + "/") else prefix.rpartition("/")[0]
    relative = PurePosixPath(key.removeprefix(folder).lstrip("/"))
    if ".." in relative.parts:
        raise OSError(f"the key {key!r} leads out of the channel's directory")
    return directory / relative


def _states(directory: Path) -> _FileStates:
    """State of every file below ``directory`` (symlinks to files included)."""
    return {
        path.relative_to(directory).as_posix(): (stat.st_size, stat.st_mtime_ns)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and (stat := path.stat())
    }
