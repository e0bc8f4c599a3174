"""The `Payloads` adapter: a job's CreateTrainingJob request, built by the SageMaker SDK without any side effect.

The only module that touches ``ModelTrainer._create_training_job_args``, a private method: a contract test holds its
signature and compares what we send with what the SDK sends alone. The differences are these.

* ``TrainingJobName`` is absent: Batch makes it, and the SDK's has a stamp of one second, so two could be equal.
* S3 URIs of uploads depend on content, not on that stamp, and end with ``/``.
* ``Tags`` travel beside the payload, as in the SDK's own ``TrainingQueue.submit``.
* The run-time limit is never an hour that nobody asked for (case C20).
* Raw fields of ``training_job`` are merged on top.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairshare.config.jobs import JobSpec
from fairshare.model import FairshareError, UsageError, partition_of
from fairshare.scheduler.clock import Clock, SystemClock
from fairshare.submit.limits import clean_tag
from fairshare.submit.ports import BuiltPayload, SourceSummary, Upload
from fairshare.trainer.drivers import Launch, check_drivers_can_carry, printed_secrets
from fairshare.trainer.encode import encode_hyperparameters, merge_request, resolve_environment
from fairshare.trainer.ignore import DEFAULT_IGNORES, Ignores
from fairshare.trainer.recorder import Kind, Recorder
from fairshare.trainer.sdk import quiet_sdk, sdk_defaults
from fairshare.trainer.source import SourceTree, collect

if TYPE_CHECKING:
    from fairshare.trainer.session import RecordingSession

DEFAULT_MAX_RUNTIME: Final = 86_400
"""Seconds that a job may run when nobody says: SageMaker's own default.

Source: MaxRuntimeInSeconds, https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html
"""

_SDK_TAG: Final = "sagemaker-sdk:"
"""How keys of tags begin that the SDK makes, of the name and version of a JumpStart model."""


class TrainerPayloads:
    """Builds payloads with the SageMaker SDK.

    Each source directory is read once per object: every job of a run gets the same code, whatever is edited meanwhile
    (case C48). Not for several threads at once.

    Args:
        region: region of the jobs.
        account_id: account of the jobs, 12 digits; completes a role given by name.
        bucket: where sources go, and output that has no path of its own.
        boto_session: used for nothing but an SDK configuration file that the user keeps in S3.
        put_missing: puts what is not in S3 yet and returns how many objects it sent.
        clock: tells apart the default checkpoint prefixes of two runs; None = the machine's clock.
        environ: where secrets are looked up; None = this process's environment.
    """

    def __init__(
        self,
        *,
        region: str,
        account_id: str,
        bucket: str,
        boto_session: Any,
        put_missing: Callable[[Sequence[Upload]], int],
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._region = region
        self._account_id = account_id
        self._bucket = bucket
        self._boto_session = boto_session
        self._put_missing = put_missing
        self._clock = clock or SystemClock()
        self._environ = os.environ if environ is None else environ
        self._defaults: Mapping[str, Any] | None = None
        self._trees: dict[tuple[Path, Ignores], SourceTree | UsageError] = {}
        self._summaries: dict[str, SourceSummary] = {}
        self._known: dict[str, Upload] = {}

    def upload(self, uploads: Sequence[Upload]) -> int:
        """Put what is not in S3 yet; return how many objects were sent."""
        return self._put_missing(uploads)

    def build(self, spec: JobSpec) -> BuiltPayload:
        """Return the payload of one job: no write, no upload, no network, and ``spec`` is left as it is.

        Messages name the field and not the job, so that jobs of a sweep that share a mistake share its message.

        Raises:
            UsageError: something is missing, cannot be read, or the SDK refuses it.
            InfeasibleError: the SDK's scripts in the container could not carry it, or it is not for SageMaker.
        """
        if "TrainingJobName" in spec.training_job:
            raise UsageError("training_job.TrainingJobName: Batch makes this name", hint="remove it")
        with quiet_sdk() as said, _sdk_refusals():
            if self._defaults is None:
                self._defaults = sdk_defaults(self._boto_session)
            built = self._build_from_spec(spec) if spec.trainer is None else self._build_from_own(spec)
        return replace(built, warnings=(*built.warnings, *said))

    def _build_from_spec(self, spec: JobSpec) -> BuiltPayload:
        from fairshare.trainer.trainers import kms_key_of, trainer_of

        _check_complete(spec)
        session = self._new_session()
        source = self._source_uri(spec, session.recorder, kms_key_of(spec))
        environment, secret = resolve_environment(spec.environment, self._environ)
        trainer = trainer_of(
            spec,
            session,
            role=self._role_arn(spec.role, session),
            source_uri=source,
            max_runtime=_max_runtime(spec),
            environment=environment,
            hyperparameters=encode_hyperparameters(spec.hyperparameters),
        )
        warnings = _limit_warnings(spec)
        if source is not None:
            warnings += printed_secrets(secret)
        return self._finish(spec, trainer, warnings, secret)

    def _build_from_own(self, spec: JobSpec) -> BuiltPayload:
        from fairshare.trainer.trainers import check_usable, has_sdk_limit, twin_of

        check_usable(spec.trainer, "trainer")
        session = self._new_session()
        with twin_of(spec.trainer, session) as twin:
            twin.role = self._role_arn(twin.role if twin.role is not None else spec.role, session)
            twin.hyperparameters = encode_hyperparameters(twin.hyperparameters or {})
            warnings: list[str] = []
            if has_sdk_limit(twin):
                twin.stopping_condition.max_runtime_in_seconds = _max_runtime(spec)
                warnings = _limit_warnings(spec)
            if twin.checkpoint_config is not None and not twin.checkpoint_config.s3_uri:
                stamp = f"{spec.name}-{self._clock.now()}"
                twin.checkpoint_config.s3_uri = f"s3://{self._bucket}/fairshare/checkpoints/{stamp}"
            if twin.source_code is not None and isinstance(twin.source_code.source_dir, str):
                twin.source_code.source_dir = self._own_source_uri(twin, session.recorder)
            return self._finish(spec, twin, warnings, ())

    def _finish(
        self, spec: JobSpec, trainer: Any, warnings: list[str], secret_environment: tuple[str, ...]
    ) -> BuiltPayload:
        from fairshare.trainer.trainers import launcher_options

        request: Mapping[str, Any] = trainer._create_training_job_args(boto3=True)
        if trainer._temp_code_dir is not None:
            trainer._temp_code_dir.cleanup()
        payload = merge_request(request, spec.training_job)
        del payload["TrainingJobName"]
        tags = _cleaned({tag["Key"]: tag["Value"] for tag in payload.pop("Tags", None) or ()})
        code = trainer.source_code
        launch = (
            Launch(code.entry_script, code.requirements, launcher_options(trainer)) if code is not None else Launch()
        )
        check_drivers_can_carry(payload, launch)
        return BuiltPayload(
            payload=_strict(payload),
            uploads=trainer.sagemaker_session.recorder.uploads,
            tags=tags | dict(spec.tags),
            warnings=tuple(warnings),
            secret_environment=secret_environment,
            source=self._summaries.get(code.source_dir) if code is not None else None,
        )

    def _new_session(self) -> RecordingSession:
        from fairshare.trainer.session import RecordingSession

        recorder = Recorder(self._bucket, self._known)
        return RecordingSession(
            recorder, region=self._region, account_id=self._account_id, defaults=self._defaults or {}
        )

    def _role_arn(self, role: str | None, session: RecordingSession) -> str:
        wanted = role if role is not None else session.configured_role()
        if wanted is None:
            raise UsageError(
                "no role for the training job",
                hint="give role: (a name or an ARN) in the job or in the defaults of fairshare.yaml",
            )
        return role_arn(wanted, region=self._region, account_id=self._account_id)

    def _source_uri(self, spec: JobSpec, recorder: Recorder, kms_key: str | None) -> str | None:
        if spec.source_dir is None:
            return None
        tree = self._tree(spec.source_dir, Ignores())
        _check_in_source(tree, "entry", spec.entry)
        _check_in_source(tree, "requirements", spec.requirements)
        return self._recorded(tree, spec.entry, recorder, kms_key)

    def _own_source_uri(self, trainer: Any, recorder: Recorder) -> str:
        """A directory loses our ignores and the user's; an archive goes as it is; an S3 URI is one already."""
        code = trainer.source_code
        source: str = code.source_dir
        if source.startswith("s3://"):
            return source
        key = getattr(trainer.output_data_config, "kms_key_id", None)
        kms_key = key if isinstance(key, str) else None
        path = Path(source).absolute()
        if path.is_file():
            return recorder.file(path.name, path.read_bytes(), Kind.SOURCE, kms_key=kms_key)
        tree = self._tree(path, Ignores((*DEFAULT_IGNORES, *(code.ignore_patterns or ()))))
        _check_in_source(tree, "entry_script", None if code.command else code.entry_script)
        _check_in_source(tree, "requirements", code.requirements)
        return self._recorded(tree, None if code.command else code.entry_script, recorder, kms_key)

    def _tree(self, directory: Path, ignores: Ignores) -> SourceTree:
        """Read a directory, once; what is wrong with it is found once, too, however many points a sweep has."""
        key = (directory, ignores)
        if key not in self._trees:
            try:
                self._trees[key] = collect(directory, ignores)
            except UsageError as error:
                self._trees[key] = error
        found = self._trees[key]
        if isinstance(found, UsageError):
            raise UsageError(found.message, hint=found.hint)
        return found

    def _recorded(self, tree: SourceTree, entry: str | None, recorder: Recorder, kms_key: str | None) -> str:
        """Record a tree and what is to be told of it; return its URI."""
        uri = recorder.source(tree, entry, kms_key=kms_key)
        self._summaries[uri] = SourceSummary(str(tree.root), uri, len(tree.files), tree.size, tree.left_out)
        return uri


def role_arn(role: str, *, region: str, account_id: str) -> str:
    """Return the ARN of a role given by ARN or by name (with its path, if it has one)."""
    if role.startswith("arn:"):
        return role
    return f"arn:{partition_of(region)}:iam::{account_id}:role/{role.removeprefix('/')}"


def _cleaned(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags that the SDK made fit AWS's characters; what a person wrote stays for the checks to refuse (case C13)."""
    return {key: clean_tag(value) if key.startswith(_SDK_TAG) else value for key, value in tags.items()}


def _max_runtime(spec: JobSpec) -> int:
    return DEFAULT_MAX_RUNTIME if spec.max_runtime is None else spec.max_runtime


def _limit_warnings(spec: JobSpec) -> list[str]:
    """Tell the limit that nobody gave, in the job or as a raw field (case C20)."""
    if spec.max_runtime is not None or "MaxRuntimeInSeconds" in (spec.training_job.get("StoppingCondition") or {}):
        return []
    return [
        "no max_runtime given: the job may run for 24h (86400 s), SageMaker's own default; set max_runtime to change it"
    ]


def _check_complete(spec: JobSpec) -> None:
    missing = []
    if spec.image is None:
        missing.append("no training image: give image: in the job or in the defaults of fairshare.yaml")
    if spec.instance_type is None:
        missing.append("no instance type: give compute.instance_type:")
    if spec.source_dir is not None and spec.entry is None:
        missing.append("a source directory without an entry script: give source.entry:")
    if spec.source_dir is None and (spec.entry is not None or spec.requirements is not None):
        missing.append("an entry script or requirements without their directory: give source.dir:")
    if missing:
        raise UsageError("\n".join(missing), hint="complete the job and try again")


def _check_in_source(tree: SourceTree, key: str, path: str | None) -> None:
    if path is None or posixpath.normpath(path) in tree:
        return
    close = get_close_matches(path, [file.path for file in tree.files], n=3)
    reason = tree.reason_left_out(posixpath.normpath(path))
    ignored = f"; it is left out ({reason})" if reason is not None else ""
    raise UsageError(
        f"{key} {path} is not in {tree.root}{ignored}",
        hint=f"did you mean {' or '.join(close)}?" if close else "the path is relative to the source directory",
    )


def _strict(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a payload of plain JSON values that nobody else holds."""
    try:
        plain: Mapping[str, Any] = json.loads(json.dumps(payload, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the training request cannot be written as JSON: {error}",
            hint="give finite numbers, text, lists and maps; pipeline variables have no value here",
        ) from error
    return plain


@contextmanager
def _sdk_refusals() -> Iterator[None]:
    """Tell the user what the SDK refuses, without its traceback."""
    try:
        yield
    except FairshareError:
        raise
    except (ValueError, TypeError, OSError) as error:  # pydantic's ValidationError is a ValueError
        raise UsageError(
            f"the SageMaker SDK refuses the job: {_text_of(error)}", hint="correct the job and try again"
        ) from error


def _text_of(error: Exception) -> str:
    problems = getattr(error, "errors", None)
    if not callable(problems):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems())
