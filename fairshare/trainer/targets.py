"""Python targets: ``train_all.py:trainers`` or ``pkg.module:name`` -> one job spec per ModelTrainer of the user's.

The user's module runs in this process, and so do the ModelTrainers it makes. On its own, ``ModelTrainer(...)``

* without ``sagemaker_session`` makes a ``Session()``: six boto3 clients of ``boto3.DEFAULT_SESSION``, no call yet;
* asks IAM for the role when it is given by name, then whether it may do everything (iam:SimulatePrincipalPolicy,
  iam:GetRole), unless ``SAGEMAKER_VALIDATE_ROLE=false``; without ``role`` it asks STS who the caller is;
* without ``output_data_config`` asks STS for the account, at a hard-coded public address, and creates a bucket.

So `offline_sdk` lets the SDK find its answers here while the module runs. What the user's own code asks of AWS is left
alone: it goes where the user's environment says, with our region.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from inspect import isclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from fairshare.config.jobs import JobSpec, Origin
from fairshare.model import FairshareError, NotFoundError, UsageError
from fairshare.trainer.payload import role_arn
from fairshare.trainer.recorder import Recorder
from fairshare.trainer.sdk import quiet_sdk, sdk_defaults


def load_target(target: str, *, region: str, account_id: str, bucket: str, boto_session: Any = None) -> list[JobSpec]:
    """Return the jobs of a Python target, in the order the module gives them.

    A job is called after the ``base_job_name`` of its ModelTrainer. Names are not made unique here.

    Args:
        target: ``path/to/file.py:name`` or ``package.module:name``; the name of a ModelTrainer, of an iterable of them,
            or of a function without arguments that returns one or the other.
        region: region of the jobs, which the module's own clients get too (case C18).
        account_id: account of the jobs; completes roles given by name.
        bucket: the SDK's default bucket while the module runs.
        boto_session: boto3's default session while the module runs; None = the one boto3 would take.

    Raises:
        NotFoundError: no such file, module or name.
        UsageError: the module fails, or what it gives are not ModelTrainers.
    """
    source, separator, name = target.rpartition(":")
    if not separator or not source or not name:
        raise UsageError(
            f"{target}: which object of it?",
            hint="write FILE.py:NAME or PACKAGE.MODULE:NAME, e.g. train_all.py:trainers",
        )
    with (
        quiet_sdk(),
        offline_sdk(region=region, account_id=account_id, bucket=bucket, boto_session=boto_session),
        _user_code(source),
        _importable(source) as module,
    ):
        given = list(_trainers_in(_attribute(module, name, source), target))
    return [_job_of(trainer, where, Origin(source)) for where, trainer in given]


def _job_of(trainer: Any, where: str, origin: Origin) -> JobSpec:
    from fairshare.trainer.trainers import check_usable

    check_usable(trainer, where)
    return JobSpec(name=trainer.base_job_name, origin=origin, trainer=trainer)


def _trainers_in(found: Any, target: str) -> Iterator[tuple[str, Any]]:
    """Yield what a target gives, each with its place."""
    if callable(found) and not isclass(found):
        found, target = found(), f"{target}()"
    if not _is_several(found):
        yield target, found
        return
    trainers = list(found)
    if not trainers:
        raise UsageError(f"{target}: holds no ModelTrainer", hint="give at least one")
    for index, trainer in enumerate(trainers):
        yield f"{target}[{index}]", trainer


def _is_several(found: Any) -> bool:
    """A ModelTrainer can itself be iterated over, like every pydantic model."""
    from sagemaker.train.model_trainer import ModelTrainer

    return isinstance(found, Iterable) and not isinstance(found, ModelTrainer | str | bytes | Mapping | type)


def _attribute(module: ModuleType, name: str, source: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    others = [
        known
        for known, value in vars(module).items()
        if not known.startswith("_") and not isinstance(value, type | ModuleType)
    ]
    close = get_close_matches(name, others, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(others) or 'no objects'}"
    raise NotFoundError(f"{source}: there is no {name} in it", hint=hint)


@contextmanager
def _importable(source: str) -> Iterator[ModuleType]:
    """Run a file or import a module, with its neighbours importable as they are for a script."""
    is_file = source.endswith(".py")
    path = Path(source).absolute()
    if is_file and not path.is_file():
        raise NotFoundError(f"{source}: no such file", hint="the path is relative to the working directory")
    before = list(sys.path)
    sys.path.insert(0, str(path.parent if is_file else Path.cwd()))
    try:
        yield _run_file(path) if is_file else _import_module(source)
    finally:
        sys.path[:] = before


def _run_file(path: Path) -> ModuleType:
    name = f"fairshare_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: cannot be run as Python", hint="give a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up here
    spec.loader.exec_module(module)
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise NotFoundError(
            f"{name}: no module named {error.name}",
            hint="run from the directory that holds it, install it, or give the path of a .py file",
        ) from error


@contextmanager
def _user_code(source: str) -> Iterator[None]:
    """Tell what went wrong in the user's module, and on which line of it."""
    try:
        yield
    except FairshareError:
        raise
    except SystemExit as error:
        raise UsageError(
            f"{source}: ends the program ({error.code}) instead of giving ModelTrainers",
            hint='put what runs as a script under: if __name__ == "__main__"',
        ) from error
    except Exception as error:
        raise UsageError(
            f"{_line_of(error, source)}: {type(error).__name__}: {error}", hint="correct the module and try again"
        ) from error


def _line_of(error: Exception, source: str) -> str:
    """Return the last line of user code that led to an error, so not of an installed package or of Python itself."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}"
    ours = str(Path(__file__).parent.parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((ours, "<", sys.prefix, sys.base_prefix)):
            return f"{frame.filename}:{frame.lineno}"
    return source


@contextmanager
def offline_sdk(*, region: str, account_id: str, bucket: str, boto_session: Any = None) -> Iterator[None]:
    """Let the SDK find its answers in this process while a user's module makes ModelTrainers.

    Inside, ModelTrainers without a session share one of ours; sessions of the user's own keep working, but their
    default bucket and account are fixed and their STS is the one of our endpoint; roles become ARNs by arithmetic and
    stay None when nobody names one; ``train()`` is refused, because it would go past the queue. Everything is put back
    at the end. Changes the process, so not for two threads at once.

    The four arguments are those of `load_target`.
    """
    import boto3
    from sagemaker.core.helper import session_helper
    from sagemaker.train.defaults import TrainDefaults
    from sagemaker.train.model_trainer import ModelTrainer

    from fairshare.trainer.session import RecordingSession

    boto = boto_session or boto3.DEFAULT_SESSION or boto3.Session(region_name=region)
    ours = RecordingSession(Recorder(bucket), region=region, account_id=account_id, defaults=sdk_defaults(boto))

    def default_bucket(session: Any) -> str:
        own: str | None = session._default_bucket_name_override
        return bucket if own is None else own

    def role_of(role: str | None = None, sagemaker_session: Any = None) -> str | None:
        named = role if role is not None else ours.configured_role()
        return None if named is None else role_arn(named, region=region, account_id=account_id)

    with ExitStack() as stack:

        def put(owner: Any, name: str, value: Any) -> None:
            stack.enter_context(_replaced(owner, name, value))

        put(boto3, "DEFAULT_SESSION", boto)
        put(
            TrainDefaults,
            "get_sagemaker_session",
            staticmethod(lambda sagemaker_session=None: sagemaker_session or ours),
        )
        put(TrainDefaults, "get_role", staticmethod(role_of))
        put(session_helper.Session, "default_bucket", default_bucket)
        put(session_helper.Session, "account_id", lambda session: account_id)
        put(session_helper, "sts_regional_endpoint", lambda region: boto.client("sts").meta.endpoint_url)
        put(ModelTrainer, "train", _refuse_train)
        stack.enter_context(_region(region))
        yield


def _refuse_train(*_: Any, **__: Any) -> NoReturn:
    raise UsageError(
        "the module calls ModelTrainer.train() while it is loaded, which would go past the queue",
        hint='put the call under: if __name__ == "__main__"',
    )


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def _region(region: str) -> Iterator[None]:
    names = ("AWS_REGION", "AWS_DEFAULT_REGION")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, region))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
