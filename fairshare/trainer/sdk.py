"""Importing and calling the SageMaker SDK without its log lines, warnings and telemetry.

Parts of the SDK put a handler on the root logger when they are imported (``sagemaker.train.aws_batch`` does); all of it
logs what it does at INFO and raises DeprecationWarnings at itself. None of that may reach our standard output or change
how our program logs. Telemetry is switched off the SDK's own way, with the ``TelemetryOptOut`` key of its configuration
(https://sagemaker.readthedocs.io/en/stable/overview.html), for whatever holds a session of ours.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from fairshare.model import UsageError

_CONFIG_VARIABLES: Final = ("SAGEMAKER_ADMIN_CONFIG_OVERRIDE", "SAGEMAKER_USER_CONFIG_OVERRIDE")
"""Where the SDK looks for the paths of its configuration files; a path may be an ``s3://`` URI."""


class _Collector(logging.Handler):
    """Keeps the text of warnings and errors."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        if (text := record.getMessage()) not in self._texts:
            self._texts.append(text)


@contextmanager
def quiet_sdk() -> Iterator[list[str]]:
    """Import the SDK if need be, and keep it quiet inside the block.

    Yields the texts of the SDK's own log records from WARNING up, as they come: what a user should be told. Everything
    that the SDK changed in `logging` and `warnings` is put back at the end. Changes the process, so not for two threads
    at once.
    """
    said: list[str] = []
    root, sdk = logging.getLogger(), logging.getLogger("sagemaker")
    before = (root.level, list(root.handlers), sdk.propagate)
    collector = _Collector(said)
    sdk.addHandler(collector)
    sdk.propagate = False
    try:
        with warnings.catch_warnings():
            _import_sdk()
            warnings.filterwarnings("ignore", module=r"(sagemaker|pydantic)(\.|$)")
            warnings.filterwarnings("ignore", message=r"sagemaker\.", category=DeprecationWarning)
            yield said
    finally:
        sdk.removeHandler(collector)
        root.level, root.handlers, sdk.propagate = before


def _import_sdk() -> None:
    if "sagemaker.train.model_trainer" in sys.modules:
        return
    with warnings.catch_warnings(), _no_collection():
        warnings.simplefilter("ignore")
        import sagemaker.train.model_trainer  # noqa: F401 - loaded here, used by whoever comes next


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the collector from going through the SDK's thousand classes while they are made: a quarter of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def sdk_defaults(boto_session: Any) -> Mapping[str, Any]:
    """Return the user's "intelligent defaults" for the SDK, with telemetry opted out.

    Source: https://sagemaker.readthedocs.io/en/stable/overview.html. Read from local files; a file that the user keeps
    in S3 is read from there, the only thing for which ``boto_session`` is used.

    Raises:
        UsageError: a file cannot be read or does not fit the SDK's schema.
    """
    from sagemaker.core.config.config import load_sagemaker_config

    in_s3 = any(os.environ.get(name, "").startswith("s3://") for name in _CONFIG_VARIABLES)
    try:
        config: dict[str, Any] = load_sagemaker_config(s3_resource=boto_session.resource("s3") if in_s3 else None)
    except Exception as error:  # the SDK lets YAML, schema, file and botocore errors through as they are
        text = str(error).partition("\n")[0]
        raise UsageError(
            f"the SageMaker SDK's configuration file is wrong: {text}",
            hint=f"correct the file, or unset {' and '.join(_CONFIG_VARIABLES)}",
        ) from error
    config.setdefault("SchemaVersion", "1.0")
    config.setdefault("SageMaker", {}).setdefault("PythonSDK", {}).setdefault("Modules", {})["TelemetryOptOut"] = True
    return config
