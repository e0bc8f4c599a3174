"""A SageMaker ``Session`` that records uploads instead of doing them, and never opens a connection.

What the SDK does by itself while it builds a request, and where it is stopped:

====================================================  ===============================================================
the SDK                                               here
====================================================  ===============================================================
creates a default bucket named after the STS account  `RecordingSession.default_bucket` answers a fixed name
uploads the source and some twenty driver files       `RecordingSession.upload_data` records them
asks STS at a hard-coded public address               `RecordingSession.account_id` answers a fixed account
asks IAM whether the role may do everything           `_OfflineIam` answers that it cannot be told, and the SDK goes on
makes six boto3 clients per session                   none is made
====================================================  ===============================================================

Imports the SDK at its top, so it is imported only inside functions, under `fairshare.trainer.sdk.quiet_sdk`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sagemaker.core.config.config_manager import SageMakerConfig
from sagemaker.core.config.config_schema import TRAINING_JOB_ROLE_ARN_PATH
from sagemaker.core.helper.session_helper import Session
from sagemaker.train.constants import SM_DRIVERS

from fairshare.model import UsageError, partition_of
from fairshare.trainer.ignore import Ignores
from fairshare.trainer.recorder import Kind, Recorder
from fairshare.trainer.source import collect


class CheckedDefaults(SageMakerConfig):  # type: ignore[misc]
    """Looks up the SDK's defaults without checking the same file again at each of some 25 looks (50 ms each)."""

    @staticmethod
    def validate_sagemaker_config(sagemaker_config: object = None) -> None:
        """Accept: `fairshare.trainer.sdk.sdk_defaults` checked when it read."""


class RecordingSession(Session):  # type: ignore[misc]
    """A session that the SDK's payload builder can use without any effect on the world.

    Args:
        recorder: takes the uploads.
        region: region of the jobs.
        account_id: account of the jobs, 12 digits.
        defaults: the user's defaults for the SDK, from `fairshare.trainer.sdk.sdk_defaults`.
    """

    def __init__(self, recorder: Recorder, *, region: str, account_id: str, defaults: Mapping[str, Any]) -> None:
        self.recorder = recorder
        self._account_id = account_id
        self._region_name = region
        self._defaults = defaults
        super().__init__(default_bucket=recorder.bucket)

    def _initialize(self, **_: Any) -> None:
        """Take the place of the SDK's set-up, which makes six clients."""
        self.boto_session = _OfflineBoto(self._region_name, self._account_id)
        self.sagemaker_client = None
        self.local_mode = False
        self.sagemaker_config = self._defaults

    def default_bucket(self) -> str:
        """Return the fixed bucket; whether it exists is found out when something is uploaded."""
        return self.recorder.bucket

    def account_id(self) -> str:
        """Return the fixed account."""
        return self._account_id

    def configured_role(self) -> str | None:
        """Return the role that the user's SDK configuration names for training jobs, if any."""
        role: str | None = CheckedDefaults().get_sagemaker_config_value(self, TRAINING_JOB_ROLE_ARN_PATH)
        return role

    def upload_data(
        self,
        path: str,
        bucket: str | None = None,
        key_prefix: str = "data",
        callback: object = None,
        extra_args: Mapping[str, str] | None = None,
    ) -> str:
        """Record a file or directory and return its content-addressed URI; ``key_prefix`` only tells what it is for."""
        kind = Kind.DRIVERS if posixpath.basename(key_prefix) == SM_DRIVERS else Kind.INPUT
        kms_key = (extra_args or {}).get("SSEKMSKeyId")
        local = Path(path)
        if local.is_dir():  # byte code differs from machine to machine and is of no use to the container
            names = ("__pycache__",) if kind is Kind.DRIVERS else ()
            tree = collect(local, Ignores(names, files=False))
            return self.recorder.tree(tree, kind, bucket=bucket, kms_key=kms_key)
        return self.recorder.file(local.name, local.read_bytes(), kind, bucket=bucket, kms_key=kms_key)

    def upload_string_as_file_body(self, body: str | bytes, bucket: str, key: str, kms_key: str | None = None) -> str:
        """Record an object and return its content-addressed URI, which ends with the name in ``key``."""
        content = body.encode() if isinstance(body, str) else body
        return self.recorder.file(posixpath.basename(key), content, Kind.INPUT, bucket=bucket, kms_key=kms_key)


class _OfflineBoto:
    """Stands in for a boto3 session: answers what the SDK asks on its way to a request, refuses the rest."""

    def __init__(self, region: str, account_id: str) -> None:
        self.region_name = region
        self._account_id = account_id

    def client(self, service: str, **_: Any) -> Any:
        """Return the client of a service that building a request may ask."""
        if service == "iam":
            return _OfflineIam(f"arn:{partition_of(self.region_name)}:iam::{self._account_id}:role")
        raise UsageError(
            f"the SageMaker SDK wants to call {service} while it describes a training job",
            hint="build such a ModelTrainer in your own program, with a Session of your own, and pass the object",
        )

    resource = client


class _OfflineIam:
    """Answers the SDK's look at a role with nothing, which it takes for "cannot be verified" and goes on.

    Whether the role may be used is for ``fairshare doctor`` and for SageMaker to say, not for building a payload.
    """

    def __init__(self, role_prefix: str) -> None:
        self._role_prefix = role_prefix

    def get_role(self, RoleName: str) -> dict[str, Any]:
        """Answer the ARN alone, without a trust policy to inspect."""
        return {"Role": {"Arn": f"{self._role_prefix}/{RoleName}"}}

    def simulate_principal_policy(self, **_: Any) -> dict[str, Any]:
        """Answer no decision."""
        return {}

    def get_paginator(self, operation: str) -> _OfflineIam:
        """Return what has `paginate`."""
        return self

    def paginate(self, **_: Any) -> Iterator[dict[str, Any]]:
        """Answer no page."""
        return iter(())
