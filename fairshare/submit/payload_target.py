"""Raw CreateTrainingJob requests as a target: JSON text to jobs, and back to the payloads that Batch is sent.

The request is the user's own, so it is sent as it is written but for what submission has to set: the name, the tags
(Batch carries them) and the values that flags, sweeps and arrays vary. The SageMaker SDK is not asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from fairshare.config.errors import WrongValue
from fairshare.config.job_file import parse_job_file
from fairshare.config.jobs import JobFile, JobSpec, Origin
from fairshare.model import InvalidFileError, Problem
from fairshare.submit.naming import clean_label
from fairshare.submit.ports import BuiltPayload

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_BETWEEN: Final = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_JSON_START: Final = re.compile(r"\s*(?:\[|\{\s*[\"}])")
_ENVELOPE: Final = "serviceRequestPayload"
"""A request of SubmitServiceJob has the training request in this field, as text."""

_SHAPES: Final = "write a CreateTrainingJob request as a JSON object, a list of them, or one a line"
_NO_LIMIT: Final = (
    "no StoppingCondition.MaxRuntimeInSeconds given: the job may run for 24h (86400 s), SageMaker's own default"
)


SUFFIXES: Final = (".yaml", ".yml", ".json", ".jsonl")
"""Of files that `read_jobs` reads."""


def read_jobs(text: str, path: Path, *, folder: Path | None = None) -> JobFile:
    """Return the jobs of a text, told by its content: a job file, or JSON without ``jobs``, which is raw requests.

    Args:
        text: content of the file.
        path: its name in messages.
        folder: what relative paths in a job file are relative to; None = the directory of ``path``.

    Raises:
        InvalidFileError: it is neither; with every problem of a job file.
    """
    if _looks_like_payloads(text):
        return read_payloads(text, path)
    return parse_job_file(text, path, folder=folder)


def _looks_like_payloads(text: str) -> bool:
    if not _JSON_START.match(text):
        return False
    try:
        first, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        return True  # to be told where the JSON is wrong
    return not (isinstance(first, dict) and "jobs" in first)


def read_payloads(text: str, path: Path) -> JobFile:
    """Return one job for each request in a text: an object, a list of objects, or one object after the other.

    A job is called as its ``TrainingJobName``, else as the file.

    Args:
        text: content of the file.
        path: its name in messages.

    Raises:
        InvalidFileError: it is not JSON, or holds something else than objects; says where.
    """
    return JobFile(tuple(_job(request, origin, path) for request, origin in _Reader(text, str(path)).requests()))


def build_from_payload(spec: JobSpec) -> BuiltPayload:
    """Return the payload of a job that came with a request of its own, whose shape has been checked."""
    payload = {key: value for key, value in (spec.payload or {}).items() if key not in ("TrainingJobName", "Tags")}
    if spec.hyperparameters:
        payload["HyperParameters"] = {**(payload.get("HyperParameters") or {}), **_texts(spec.hyperparameters)}
    if spec.environment:
        payload["Environment"] = {**(payload.get("Environment") or {}), **spec.environment}
    if spec.checkpoint is not None:
        payload["CheckpointConfig"] = {**(payload.get("CheckpointConfig") or {}), "S3Uri": spec.checkpoint}
    has_limit = "MaxRuntimeInSeconds" in (payload.get("StoppingCondition") or {})
    warnings = () if has_limit else (_NO_LIMIT,)
    return BuiltPayload(payload, tags=spec.tags, warnings=warnings)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """SageMaker takes every hyperparameter as text (case C09)."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, allow_nan=False) for key, value in values.items()
    }


def _job(request: Mapping[str, Any], origin: Origin, path: Path) -> JobSpec:
    name = request.get("TrainingJobName")
    checkpoint = request.get("CheckpointConfig")
    uri = checkpoint.get("S3Uri") if isinstance(checkpoint, dict) else None
    tags = request.get("Tags")
    return JobSpec(
        name=name if isinstance(name, str) and name else clean_label(path.stem) or "job",
        origin=origin,
        checkpoint=uri if isinstance(uri, str) else None,
        tags=dict(_pair(tag) for tag in tags) if isinstance(tags, list) else {},
        payload=request,
    )


def _pair(tag: object) -> tuple[str, str]:
    """A tag of the wrong shape is read as it can be: that the request has one stops it later."""
    written = tag if isinstance(tag, dict) else {}
    return str(written.get("Key")), str(written.get("Value"))


@dataclass(frozen=True)
class _Reader:
    """Walks a JSON text and knows where each value begins."""

    text: str
    file: str

    def requests(self) -> Iterator[tuple[dict[str, Any], Origin]]:
        at = self._space(0)
        if at == len(self.text):
            self._fail("holds no training request", at)
        is_list = self.text.startswith("[", at)
        if is_list:
            at = self._space(at + 1)
        while at < len(self.text) and not (is_list and self.text.startswith("]", at)):
            request, end = self._value(at)
            yield request, self._origin(at)
            at = self._next(end, is_list)
        if is_list and self._space(at + 1) != len(self.text):
            self._fail("something follows the list" if at < len(self.text) else "the list has no end", at)

    def _next(self, end: int, is_list: bool) -> int:
        comma = _BETWEEN.match(self.text, end)
        if is_list and comma:
            return comma.end()
        at = self._space(end)
        if is_list and not self.text.startswith("]", at):
            self._fail("expected a comma or the end of the list", at)
        return at

    def _value(self, at: int) -> tuple[dict[str, Any], int]:
        decoder = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
        try:
            value, end = decoder.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            self._fail(f"is not JSON: {error.msg}", error.pos)
        except WrongValue as error:
            self._fail(str(error), at, error.hint or _SHAPES)
        if not isinstance(value, dict):
            self._fail("must be a training request, as a JSON object", at)
        if _ENVELOPE in value:
            hint = f"give what is in its {_ENVELOPE}; share, priority and queue are flags"
            self._fail("is a request of SubmitServiceJob, not of CreateTrainingJob", at, hint)
        return value, end

    def _space(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def _origin(self, at: int) -> Origin:
        line = self.text.count("\n", 0, at) + 1
        return Origin(self.file, line, at - (self.text.rfind("\n", 0, at) + 1) + 1)

    def _fail(self, message: str, at: int, hint: str = _SHAPES) -> NoReturn:
        place = self._origin(min(at, len(self.text)))
        raise InvalidFileError([Problem(self.file, place.line, place.column, message, hint=hint)])


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise WrongValue(f'duplicate key "{key}"', hint="remove one of the two")
        found[key] = value
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise WrongValue(f"{text} is not JSON", hint="give finite numbers, or text")
