"""What AWS's own models say about values: how many, how long, which characters. Nothing here knows a queue or a region.

Batch passes the training request on unread, so SageMaker refuses what breaks one of its limits only when the job's turn
has come: as a FAILED job, after the wait. The figures are those of botocore's model of CreateTrainingJob and
SubmitServiceJob (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html,
https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitServiceJob.html); a contract test compares them with the
installed one. Lengths are in characters, sizes of requests in UTF-8 bytes. No message holds a value (case C46).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairshare.model import JobRequest
from fairshare.submit.report import Finding
from fairshare.submit.requests import canonical_json, request_bytes

MAX_PAYLOAD_BYTES: Final = 10 * 1024
MAX_REQUEST_BYTES: Final = 30 * 1024
"""Limits of SubmitServiceJob (https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html)."""

MAX_HYPERPARAMETERS: Final = 100
MAX_HYPERPARAMETER_NAME: Final = 256
MAX_HYPERPARAMETER_VALUE: Final = 2500
"""Shapes HyperParameters, HyperParameterKey and HyperParameterValue."""

MAX_VARIABLES: Final = 100
MAX_VARIABLE_NAME: Final = 512
MAX_VARIABLE_VALUE: Final = 512
VARIABLE_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""Shapes TrainingEnvironmentMap, TrainingEnvironmentKey and TrainingEnvironmentValue."""

MAX_CHANNELS: Final = 20
MAX_CHANNEL_NAME: Final = 64
CHANNEL_NAME: Final = re.compile(r"[A-Za-z0-9.\-_]+")
"""Shapes InputDataConfig and ChannelName."""

MAX_TAGS: Final = 50
MAX_TAG_KEY: Final = 128
MAX_TAG_VALUE: Final = 256
_TAG_PUNCTUATION: Final = frozenset("_.:/=+-@")
"""Shapes TagrisTagsMap, TagKey and TagValue; the characters are those of SageMaker's TagKey."""

_LARGEST_SHOWN: Final = 3
_NAME_SHOWN: Final = 40


def hyperparameter_findings(values: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what SageMaker would refuse of the hyperparameters of a request (case C10)."""
    if len(values) > MAX_HYPERPARAMETERS:
        message = f"it has {len(values)} hyperparameters, SageMaker takes {MAX_HYPERPARAMETERS}"
        yield Finding(message, ("hyperparameters",), "put some into one as a map, or into a file of the source")
    for name, value in values.items():
        at = ("hyperparameters", name)
        what = f"hyperparameter {_shown(name)}"
        if not name or len(name) > MAX_HYPERPARAMETER_NAME:
            yield Finding(f"{what}: its name has {_of(len(name), MAX_HYPERPARAMETER_NAME)}", at)
        yield from _text_findings(what, value, MAX_HYPERPARAMETER_VALUE, at)
        if isinstance(value, str) and ("\n" in value or "\r" in value):
            yield Finding(
                f"{what} has a line break, which SageMaker's pattern for values, .*, does not match",
                at,
                "put the text into a file of the source directory",
                "warning",
            )


def environment_findings(values: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what SageMaker would refuse of the environment of a request (case C10)."""
    if len(values) > MAX_VARIABLES:
        message = f"it has {len(values)} environment variables, SageMaker takes {MAX_VARIABLES}"
        yield Finding(message, ("environment",), "put some into a file of the source directory")
    for name, value in values.items():
        at = ("environment", name)
        what = f"environment variable {_shown(name)}"
        if not VARIABLE_NAME.fullmatch(name):
            hint = "use letters a-z, digits and _, not beginning with a digit"
            yield Finding(f"{what}: SageMaker takes no such name", at, hint)
        elif len(name) > MAX_VARIABLE_NAME:
            yield Finding(f"{what}: its name has {_of(len(name), MAX_VARIABLE_NAME)}", at)
        yield from _text_findings(what, value, MAX_VARIABLE_VALUE, at)


def _text_findings(what: str, value: Any, limit: int, at: tuple[str, ...]) -> Iterator[Finding]:
    if not isinstance(value, str):
        yield Finding(f"{what} must be text, not {type(value).__name__}", at, "quote it")
    elif len(value) > limit:
        yield Finding(f"{what} has {_of(len(value), limit)}", at, "put it into a file in S3 or of the source directory")


def channel_findings(channels: list[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield what SageMaker would refuse of the names and the number of input channels; the SDK's own count too."""
    if len(channels) > MAX_CHANNELS:
        message = f"it has {len(channels)} input channels with those of the SDK, SageMaker takes {MAX_CHANNELS}"
        yield Finding(message, ("inputs",), "join some under one prefix")
    for channel in channels:
        name = str(channel.get("ChannelName", ""))
        if not CHANNEL_NAME.fullmatch(name) or len(name) > MAX_CHANNEL_NAME:
            hint = f"use 1 to {MAX_CHANNEL_NAME} letters a-z, digits, '.', '-' and '_'"
            yield Finding(f"input {_shown(name)!r}: SageMaker takes no such channel name", ("inputs", name), hint)


# ---------------------------------------------------------------------------------------------------------------------
# Tags


def tag_findings(tags: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what AWS would refuse of all the tags a job will carry (case C13). None is ever dropped in silence."""
    if len(tags) > MAX_TAGS:
        message = f"it has {len(tags)} tags with those of the project, the SDK and the run, AWS takes {MAX_TAGS}"
        yield Finding(message, ("tags",), "leave some out")
    for key, value in tags.items():
        at = ("tags", key)
        what = f"tag {_shown(key)}" if key else "a tag without a key"
        if not key or len(key) > MAX_TAG_KEY:
            yield Finding(f"{what}: its key has {_of(len(key), MAX_TAG_KEY)}", at)
        if len(value) > MAX_TAG_VALUE:
            yield Finding(f"{what}: its value has {_of(len(value), MAX_TAG_VALUE)}", at)
        if key.lower().startswith("aws:"):
            yield Finding(f"{what}: AWS keeps keys that begin with aws: for itself", at, "choose another key")
        for part, text in (("key", key), ("value", value)):
            if illegal := sorted({character for character in text if not _may_be_in_tag(character)}):
                hint = "use letters and digits of any script, spaces and _ . : / = + - @"
                yield Finding(f"{what}: its {part} has {' '.join(map(repr, illegal))}", at, hint)


def clean_tag(text: str, limit: int = MAX_TAG_VALUE) -> str:
    """Return text that a program, not a person, put into a tag, as AWS takes it: ``-`` for what it refuses, and cut."""
    return "".join(character if _may_be_in_tag(character) else "-" for character in text[:limit])


def _may_be_in_tag(character: str) -> bool:
    """``[\\p{L}\\p{Z}\\p{N}_.:/=+\\-@]``: Python's `re` has no such classes."""
    return character in _TAG_PUNCTUATION or unicodedata.category(character)[0] in "LZN"


# ---------------------------------------------------------------------------------------------------------------------
# Sizes


def size_findings(request: JobRequest, payload: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what makes the request too large for Batch, naming what it is made of (case C10)."""
    size = len(request.payload.encode())
    if size > MAX_PAYLOAD_BYTES:
        message = f"its training request is {_bytes(size)}, Batch takes {_bytes(MAX_PAYLOAD_BYTES)}"
        hint = f"largest: {_largest(payload)}; move long values into a file in S3"
        yield Finding(message, ("payload",), hint)
    size = request_bytes(request)
    if size > MAX_REQUEST_BYTES:
        message = f"its whole request is {_bytes(size)}, Batch takes {_bytes(MAX_REQUEST_BYTES)}"
        hint = f"largest: {_largest({'payload': request.payload, 'tags': dict(request.tags)})}"
        yield Finding(message, ("request",), hint)


def _largest(document: Mapping[str, Any]) -> str:
    """The largest fields, entry by entry for the maps a user fills (hyperparameters, environment, tags)."""
    fields: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            fields |= {f"{name}.{key}": {key: each} for key, each in value.items()}
        else:
            fields[name] = value
    sizes = sorted(((len(canonical_json(value).encode()), name) for name, value in fields.items()), reverse=True)
    return ", ".join(f"{name} {_bytes(size)}" for size, name in sizes[:_LARGEST_SHOWN])


def _bytes(size: int) -> str:
    """To the byte, so that a value just above a limit does not look equal to it."""
    return f"{size:,} bytes"


def _of(length: int, limit: int) -> str:
    return "no characters" if length == 0 else f"{length} characters, at most {limit} are allowed"


def _shown(name: str) -> str:
    return name if len(name) <= _NAME_SHOWN else name[: _NAME_SHOWN - 3] + "..."
