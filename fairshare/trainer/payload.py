"""The `Payloads` adapter: a job's CreateTrainingJob request, built by the SageMaker SDK without any side effect.

The only module that touches ``ModelTrainer._create_training_job_args``, a private method: a contract test holds its
signature and compares what we send with what the SDK sends alone. The differences are these.

* ``TrainingJobName`` is absent: Batch makes it, and the SDK's has a stamp of one second, so two could be equal.
* S3 URIs of uploads depend on content, not on that stamp, and end with ``/``.
* ``Tags`` travel beside the payload, as in the SDK's own ``TrainingQueue.submit``.
* The run-time limit is never an hour that nobody asked for (case C20).
* Raw fields of ``training_job`` are merged on top.

The SDK is asked once for all jobs of a kind, and its request varied (`fairshare.trainer.template`).
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairshare.config.jobs import JobSpec, Origin, Resources, SecretRef
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
from fairshare.trainer.template import Point, Template, Templates

if TYPE_CHECKING:
    from fairshare.trainer.session import RecordingSession

DEFAULT_MAX_RUNTIME: Final = 86_400
"""Seconds that a job may run when nobody says: SageMaker's own default.

Source: MaxRuntimeInSeconds, https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html
"""

_SDK_TAG: Final = "sagemaker-sdk:"
"""How keys of tags begin that the SDK makes, of the name and version of a JumpStart model."""


@dataclass(frozen=True)
class _Draft:
    """A job on its way to its payload: what it is built from, and what is told of it."""

    kind: object
    point: Point
    build: Callable[[], Template]
    """Asks the SDK."""
    warnings: tuple[str, ...]
    secret_environment: tuple[str, ...] = ()

    def build_or_refuse(self) -> Template:
        """Ask the SDK, and tell what it refuses."""
        with _sdk_refusals():
            return self.build()


class TrainerPayloads:
    """Builds payloads with the SageMaker SDK.

    Each source directory and each file with a secret is read once per object: every job of a run gets the same code,
    whatever is edited meanwhile (case C48). Not for several threads at once.

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
        self._secrets: dict[SecretRef, str] = {}
        self._templates = Templates()
        self._stamp = 0

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
            draft = self._draft_of_spec(spec, said) if spec.trainer is None else self._draft_of_own(spec, said)
            template = self._templates.get(draft.kind, draft.point, draft.build_or_refuse)
            return _payload_of(spec, draft, template)

    def _draft_of_spec(self, spec: JobSpec, said: Sequence[str]) -> _Draft:
        _check_complete(spec)
        environment, secret = resolve_environment(spec.environment, self._environ, self._secrets)
        point = Point(encode_hyperparameters(spec.hyperparameters), environment, spec.checkpoint, spec.tags)
        warnings = _limit_warnings(spec)
        if spec.source_dir is not None:
            warnings += printed_secrets(secret)
        return _Draft(_kind_of(spec), point, lambda: self._of_spec(spec, point, said), tuple(warnings), secret)

    def _of_spec(self, spec: JobSpec, point: Point, said: Sequence[str]) -> Template:
        from fairshare.trainer.trainers import kms_key_of, trainer_of

        session = self._new_session()
        source = self._source_uri(spec, session.recorder, kms_key_of(spec))
        trainer = trainer_of(
            spec,
            session,
            role=self._role_arn(spec.role, session),
            source_uri=source,
            max_runtime=_max_runtime(spec),
            environment=point.environment,
            hyperparameters=point.hyperparameters,
        )
        return self._asked(trainer, point, said)

    def _draft_of_own(self, spec: JobSpec, said: Sequence[str]) -> _Draft:
        from fairshare.trainer.trainers import check_usable, has_sdk_limit, same_for_all_points

        check_usable(spec.trainer, "trainer")
        trainer = spec.trainer
        checkpoint = None
        if trainer.checkpoint_config is not None:
            checkpoint = trainer.checkpoint_config.s3_uri or self._checkpoint_prefix(spec.name)
        point = Point(encode_hyperparameters(trainer.hyperparameters or {}), trainer.environment or {}, checkpoint)
        warnings = tuple(_limit_warnings(spec)) if has_sdk_limit(trainer) else ()
        kind = (_kind_of(spec), same_for_all_points(trainer))
        return _Draft(kind, point, lambda: self._of_own(spec, point, said), warnings)

    def _of_own(self, spec: JobSpec, point: Point, said: Sequence[str]) -> Template:
        from fairshare.trainer.trainers import has_sdk_limit, twin_of

        session = self._new_session()
        with twin_of(spec.trainer, session) as twin:
            twin.role = self._role_arn(twin.role if twin.role is not None else spec.role, session)
            twin.hyperparameters = dict(point.hyperparameters)
            if has_sdk_limit(twin):
                twin.stopping_condition.max_runtime_in_seconds = _max_runtime(spec)
            if twin.checkpoint_config is not None:
                twin.checkpoint_config.s3_uri = point.checkpoint
            if twin.source_code is not None and isinstance(twin.source_code.source_dir, str):
                twin.source_code.source_dir = self._own_source_uri(twin, session.recorder)
            return self._asked(twin, point, said)

    def _asked(self, trainer: Any, point: Point, said: Sequence[str]) -> Template:
        """Return what the SDK makes of a trainer that stands at a point, and what it said meanwhile."""
        from fairshare.trainer.trainers import launcher_options

        request: Mapping[str, Any] = trainer._create_training_job_args(boto3=True)
        if trainer._temp_code_dir is not None:
            trainer._temp_code_dir.cleanup()
        uploads, warnings = trainer.sagemaker_session.recorder.uploads, tuple(said)
        code = trainer.source_code
        if code is None:
            return Template(request, point, uploads, warnings)
        launch = Launch(code.entry_script, code.requirements, launcher_options(trainer))
        return Template(request, point, uploads, warnings, launch, self._summaries.get(code.source_dir))

    def _checkpoint_prefix(self, name: str) -> str:
        """Return a prefix of a job's own: two that share one would resume from each other's checkpoints."""
        self._stamp = max(self._stamp + 1, self._clock.now())
        return f"s3://{self._bucket}/fairshare/checkpoints/{name}-{self._stamp}"

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


_NOT_OF_THE_KIND: Final[Mapping[str, Any]] = {
    "hyperparameters": {},
    "environment": {},
    "checkpoint": None,
    "tags": {},
    "training_job": {},
    "trainer": None,
    "name": "",
    "origin": Origin(""),
    "queue": None,
    "queues": (),
    "fallback_after": None,
    "share": None,
    "quota_share": None,
    "priority": None,
    "sweep": None,
    "array": None,
    "after": (),
    "retry": None,
    "resources": Resources(),
}
"""What a point holds; what is merged or compared elsewhere; what is for Batch or for us to know."""


def _kind_of(spec: JobSpec) -> JobSpec:
    """Return what of a spec its request is built from, other than its point.

    What is not built from is taken out here, rather than what is picked: a new field makes more kinds, never a wrong
    request. Sweep points share their other values, which makes comparing them cheap.
    """
    return replace(spec, **_NOT_OF_THE_KIND)


def _payload_of(spec: JobSpec, draft: _Draft, template: Template) -> BuiltPayload:
    payload = merge_request(template.at(draft.point), spec.training_job)
    del payload["TrainingJobName"]
    tags = _cleaned({tag["Key"]: tag["Value"] for tag in payload.pop("Tags", None) or ()})
    check_drivers_can_carry(payload, template.launch)
    return BuiltPayload(
        payload=_strict(payload),
        uploads=template.uploads,
        tags=tags | dict(spec.tags),
        warnings=(*draft.warnings, *template.warnings),
        secret_environment=draft.secret_environment,
        source=template.source,
    )


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
