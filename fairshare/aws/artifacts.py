"""Models on their way home: downloaded from S3, unpacked, one folder for each job.

A folder is there whole or not at all: it is filled beside its place and renamed. A download that was cut off goes on
where it stopped. An archive was made by a training job, so by whatever code that ran: nothing in it may reach outside
its folder (`tarfile`'s ``data`` filter, https://docs.python.org/3/library/tarfile.html#tarfile.data_filter).
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path, PurePosixPath

from fairshare.aws.objects import S3Store
from fairshare.model import FairshareError

_UNFINISHED = ".unfinished"


def fetch_model(store: S3Store, uri: str, folder: Path, *, force: bool = False) -> bool:
    """Bring a model into a folder of its own, and return whether that took a download.

    Args:
        store: S3.
        uri: of an archive, which is unpacked; one that ends with ``/`` is the prefix of an uncompressed model's files.
        folder: where the files go; its parents are made.
        force: replace a folder that is there; else it is taken for what is wanted, and left alone.

    Raises:
        FairshareError: there is no such object, it is not an archive, something in it would leave the folder, or the
            disk does not take it. No folder is left.
    """
    if folder.exists() and not force:
        return False
    workplace = folder.with_name(f".{folder.name}{_UNFINISHED}")
    content = workplace / "content"
    try:
        if content.exists():
            shutil.rmtree(content)
        content.mkdir(parents=True)
        if uri.endswith("/"):
            _fetch_files(store, uri, content)
        else:
            archive = workplace / "model.tar.gz"
            store.download(uri, archive)
            _unpack(archive, content, uri)
        if folder.exists():
            folder.rename(workplace / "replaced")
        content.rename(folder)
        shutil.rmtree(workplace)
    except OSError as error:
        raise FairshareError(
            f"cannot write {folder}: {error.strerror or error}", hint="make room, or name another directory"
        ) from error
    return True


def _fetch_files(store: S3Store, prefix: str, content: Path) -> None:
    for uri in store.list(prefix):
        path = PurePosixPath(uri.removeprefix(prefix))
        if path.is_absolute() or ".." in path.parts:
            raise FairshareError(f"{uri} would leave the folder of its model", hint="look at what wrote it")
        target = content / path
        target.parent.mkdir(parents=True, exist_ok=True)
        store.download(uri, target)


def _unpack(archive: Path, content: Path, uri: str) -> None:
    try:
        with tarfile.open(archive, "r:*") as tar:
            tar.extractall(content, filter="data")
    except tarfile.FilterError as error:
        raise FairshareError(
            f"{uri} is not unpacked: {error}", hint=f"look at what wrote it; the archive is kept as {archive}"
        ) from error
    except (tarfile.TarError, EOFError) as error:
        archive.unlink()
        raise FairshareError(f"{uri} is not an archive: {error}", hint="look at what the job wrote there") from error
