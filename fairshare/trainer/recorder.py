"""What should be in S3 before a job is sent, under URIs that depend on nothing but content.

``s3://<bucket>/fairshare/<kind>/<32 hex digits>/<path>``, or ``<32 hex digits>.tar.gz`` for a packed tree: equal
content has an equal URI, so it is uploaded once however many jobs, waves, runs and users of the bucket use it (case
C48), and different content never shares one, so that no job can overwrite the code of another.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

from fairshare.submit.ports import Upload
from fairshare.trainer.source import SourceFile, SourceTree


class Kind(StrEnum):
    """What an upload is for; a part of its URI."""

    SOURCE = "source"
    DRIVERS = "drivers"
    INPUT = "input"

    @property
    def label(self) -> str:
        """What a person calls it."""
        return "SDK driver" if self is Kind.DRIVERS else str(self)


class Recorder:
    """Collects the uploads that one payload wants.

    Args:
        bucket: where they go unless a call says otherwise.
        known: uploads that were recorded before, by URI; shared between the jobs of a run, so that equal content is
            held in memory once. Added to.
    """

    def __init__(self, bucket: str, known: dict[str, Upload] | None = None) -> None:
        self.bucket = bucket
        self._known = {} if known is None else known
        self._wanted: dict[str, None] = {}

    @property
    def uploads(self) -> tuple[Upload, ...]:
        """What was recorded, once each, in the order it came."""
        return tuple(self._known[uri] for uri in self._wanted)

    def tree(self, tree: SourceTree, kind: Kind, *, bucket: str | None = None, kms_key: str | None = None) -> str:
        """Record a directory and return its URI, with a ``/`` at the end."""
        prefix = f"{self._prefix(kind, tree.digest, bucket, kms_key)}/"
        for file in tree.files:
            self._want(prefix, file, kind, kms_key)
        return prefix

    def source(self, tree: SourceTree, entry: str | None, *, kms_key: str | None = None) -> str:
        """Record the user's code and return its URI: of a prefix, or of an archive (`SourceTree.travels_packed`)."""
        if not tree.travels_packed(entry):
            return self.tree(tree, Kind.SOURCE, kms_key=kms_key)
        place, _, digest = self._prefix(Kind.SOURCE, tree.digest, None, kms_key).rpartition("/")
        return self._want(f"{place}/", SourceFile(f"{digest}.tar.gz", tree.archive), Kind.SOURCE, kms_key)

    def file(self, name: str, body: bytes, kind: Kind, *, bucket: str | None = None, kms_key: str | None = None) -> str:
        """Record one file and return its URI, which ends with ``name``."""
        prefix = f"{self._prefix(kind, hashlib.sha256(body).hexdigest(), bucket, kms_key)}/"
        return self._want(prefix, SourceFile(name, body), kind, kms_key)

    def _prefix(self, kind: Kind, digest: str, bucket: str | None, kms_key: str | None) -> str:
        if kms_key is not None:  # one object cannot be encrypted with two keys
            digest = hashlib.sha256(f"{digest}:{kms_key}".encode()).hexdigest()
        return f"s3://{bucket or self.bucket}/fairshare/{kind}/{digest[:32]}"

    def _want(self, prefix: str, file: SourceFile, kind: Kind, kms_key: str | None) -> str:
        uri = prefix + file.path
        self._known.setdefault(uri, Upload(uri, file.body, f"{kind.label} {file.path}", kms_key))
        self._wanted[uri] = None
        return uri
