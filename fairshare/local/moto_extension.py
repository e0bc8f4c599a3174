"""Puts the local AWS into moto: moto has no plugin system, so its backends are exchanged while `installed`.

Works with moto 5.2 to 6 (not included). Imports moto at the top: loaded by `fairshare.local.server` and
`fairshare.local.inprocess` only, when one is started.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any, ClassVar, Final
from unittest.mock import patch

import moto.batch.urls
import moto.iam.urls
import moto.sagemaker.urls
import moto.servicequotas.urls
from botocore.exceptions import UnknownServiceError
from moto.batch.models import BatchBackend, batch_backends
from moto.cloudwatch.models import cloudwatch_backends
from moto.core.base_backend import BackendDict, backend_lock
from moto.core.model_instances import reset_model_data
from moto.core.routing import NotFound, get_service_router
from moto.iam.models import IAMBackend, iam_backends
from moto.moto_api import recorder
from moto.sagemaker.models import SageMakerModelBackend, sagemaker_backends
from moto.servicequotas.models import ServiceQuotasBackend, servicequotas_backends

from fairshare.local.call_log import CALL_KEY, ApiCall, CallLog, is_write, short_params
from fairshare.local.moto_alarms import alarms_followed
from fairshare.local.moto_cloudwatch import CloudWatchWithAlarms
from fairshare.local.moto_outlets import connected
from fairshare.local.moto_responses import (
    LocalIamResponse,
    LocalSageMakerResponse,
    LocalServiceQuotasResponse,
    batch_paths,
)
from fairshare.local.region import Region
from fairshare.local.runtime import Runtime
from fairshare.local.signature import credentials_of
from fairshare.local.training_jobs import TrainingJob, as_time
from fairshare.model import UsageError

ROLE_NAME: Final = "MLTraining"
"""A role that SageMaker may assume, there from the start: a newcomer needs no set-up."""

LOCK: Final = backend_lock
"""The one lock of the local AWS. It is moto's own: moto holds it while it makes a backend and then calls us, and we
need it while we look backends up, so two locks would wait for each other."""

_TRUST: Final = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
)
_BOTO3_NAMES: Final = {"monitoring": "cloudwatch"}
"""Services that boto3 calls otherwise than their signatures do."""


class _BatchBackend(BatchBackend):  # type: ignore[misc]
    """moto's Batch of one account and region, and the door to ours. moto makes it anew at each reset."""

    runtime: ClassVar[Runtime]

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.runtime.open_region(account_id, region_name)

    def operation(self) -> AbstractContextManager[Region]:
        """Return the context of one operation; see `Runtime.operation`."""
        return self.runtime.operation(self.account_id, self.region_name)

    @property
    def _url_module(self) -> SimpleNamespace:
        return SimpleNamespace(url_bases=moto.batch.urls.url_bases, url_paths=batch_paths())


class _IamBackend(IAMBackend):  # type: ignore[misc]
    """moto's IAM, born with `ROLE_NAME`: so it is there after every reset."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.create_role(
            role_name=ROLE_NAME,
            assume_role_policy_document=_TRUST,
            path="/",
            permissions_boundary=None,
            description="Role of training jobs on this machine",
            tags=[],
            max_session_duration="3600",
        )

    @property
    def _url_module(self) -> SimpleNamespace:
        paths = dict.fromkeys(moto.iam.urls.url_paths, LocalIamResponse.dispatch)
        return SimpleNamespace(url_bases=moto.iam.urls.url_bases, url_paths=paths)


class _SageMakerBackend(SageMakerModelBackend):  # type: ignore[misc]
    """moto's SageMaker, whose training jobs can be stopped."""

    @property
    def _url_module(self) -> SimpleNamespace:
        paths = dict.fromkeys(moto.sagemaker.urls.url_paths, LocalSageMakerResponse.dispatch)
        return SimpleNamespace(url_bases=moto.sagemaker.urls.url_bases, url_paths=paths)


class _ServiceQuotasBackend(ServiceQuotasBackend):  # type: ignore[misc]
    """moto's Service Quotas, which can be listed."""

    @property
    def _url_module(self) -> SimpleNamespace:
        paths = dict.fromkeys(moto.servicequotas.urls.url_paths, LocalServiceQuotasResponse.dispatch)
        return SimpleNamespace(url_bases=moto.servicequotas.urls.url_bases, url_paths=paths)


class _SageMakerTrainingJob:
    """A training job of ours among moto's: the attributes that moto's SageMaker reads, always as they are now."""

    def __init__(self, job: TrainingJob) -> None:
        self._job = job
        self.training_job_name = job.name
        self.arn = job.arn
        self.tags: list[dict[str, str]] = []

    @property
    def training_job_status(self) -> str:
        return self._job.status

    @property
    def creation_time(self) -> datetime:
        return _naive(self._job.created_at)

    @property
    def last_modified_time(self) -> datetime:
        return _naive(self._job.last_modified_at)

    @property
    def training_end_time(self) -> datetime | None:
        return None if self._job.ended_at is None else _naive(self._job.ended_at)

    @property
    def response_object(self) -> dict[str, Any]:
        return self.gen_response_object()

    def gen_response_object(self) -> dict[str, Any]:
        with LOCK:
            return self._job.describe()


def publish_training_job(region: Region, job: TrainingJob) -> None:
    """Make a training job known to moto's SageMaker, or unknown (`fairshare.local.execution.Publish`)."""
    jobs = sagemaker_backends[region.account_id][region.name].training_jobs
    if job.is_deleted:
        jobs.pop(job.name, None)
    else:
        jobs[job.name] = _SageMakerTrainingJob(job)


@contextmanager
def installed(runtime: Runtime, call_log: CallLog) -> Iterator[None]:
    """Let moto serve this runtime, from empty, and note every call. All of moto's state is gone afterwards.

    Raises:
        UsageError: this process already has a local AWS; moto's state is global.
    """
    if batch_backends.backend is not BatchBackend:
        raise UsageError(
            "This process already has a local AWS, and moto keeps its state in one place",
            hint="End the other one first, or start this one in a process of its own.",
        )

    def on_call(request: Any, body: bytes | None = None) -> None:
        """Stands in for moto's recorder, which sees each request, in a server and in-process, before it is answered."""
        if not request.path.startswith("/moto-api"):
            call_log.add(request.environ.get(CALL_KEY) or identify(request))
        runtime.pump()

    with ExitStack() as undo:
        _reset_moto()
        undo.callback(_reset_moto)
        _BatchBackend.runtime = runtime
        undo.enter_context(patch.object(batch_backends, "backend", _BatchBackend))
        undo.enter_context(patch.object(iam_backends, "backend", _IamBackend))
        undo.enter_context(patch.object(sagemaker_backends, "backend", _SageMakerBackend))
        undo.enter_context(patch.object(servicequotas_backends, "backend", _ServiceQuotasBackend))
        undo.enter_context(patch.object(cloudwatch_backends, "backend", CloudWatchWithAlarms))
        undo.enter_context(alarms_followed(runtime))
        undo.enter_context(connected(runtime))
        undo.enter_context(patch.object(recorder, "_record_request", on_call))
        yield


def _reset_moto() -> None:
    BackendDict.reset()
    reset_model_data()


def identify(request: Any) -> ApiCall:
    """Say which operation a request is, by AWS's own service models."""
    credentials = credentials_of(request.headers.get("Authorization", ""), request.query_string.decode("latin-1"))
    signed_for = next((credential.service for credential in credentials if credential.service), "")
    service = signed_for or request.host.split(".")[0]
    service = _BOTO3_NAMES.get(service, service)
    operation, params = f"{request.method} {request.path}", {}
    try:
        model, params = get_service_router(service).match(request)
        operation = str(model.name)
    except (NotFound, NotImplementedError, UnknownServiceError):
        pass
    if service != "s3":  # whose bodies are data, whatever their type says: looking at them could change them
        params = _body_of(request) | params
    return ApiCall(service, operation, is_write(operation, request.method), short_params(params))


def _body_of(request: Any) -> dict[str, Any]:
    """Return the parameters in a form or a JSON body."""
    if request.content_encoding is not None:
        return {}
    if (request.content_type or "").startswith("application/x-www-form-urlencoded"):
        return {name: value for name, value in request.form.items() if name not in ("Action", "Version")}
    try:
        body = json.loads(request.get_data() or b"{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _naive(milliseconds: int) -> datetime:
    """Return a time as moto keeps it: UTC without saying so."""
    return as_time(milliseconds).replace(tzinfo=None)
