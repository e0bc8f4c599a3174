"""Validates a tree of `yaml_source` against pydantic models, and says where in the file each problem is.

A `Section` is a mapping in a file with known keys. pydantic checks it and reports the place of every error as a path;
this module finds the position of that path and words the message. Nothing stops at the first problem.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from fairshare.config.errors import WrongValue, WrongValues, did_you_mean
from fairshare.config.fields import kind_of
from fairshare.config.yaml_source import Document, Steps, dotted
from fairshare.model import InvalidFileError, Problem


class Section(BaseModel):
    """A mapping with known keys. Unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    example: ClassVar[str] = ""
    """How the section is written, for a hint when something else stands in its place or a key is missing."""


SectionT = TypeVar("SectionT", bound=Section)


def read_section(model: type[SectionT], document: Document) -> tuple[SectionT | None, list[Problem]]:
    """Validate a whole document; return the model, or None and every problem found in it."""
    try:
        return model.model_validate(document.data()), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        return None, [problem for detail in details for problem in _problems(model, document, detail)]


def unwrap(model: SectionT | None, document: Document, *problems: list[Problem]) -> SectionT:
    """Return the model if there was no problem at all.

    Raises:
        InvalidFileError: with the problems of the document and those given, in file order.
    """
    errors = [*document.problems, *(problem for some in problems for problem in some)]
    if model is None or errors:
        raise InvalidFileError(errors)
    return model


def _problems(model: type[Section], document: Document, detail: Any) -> list[Problem]:
    steps: Steps = detail["loc"]
    match detail["type"], detail.get("ctx", {}).get("error"):
        case "missing", _:
            return [_missing(model, document, steps)]
        case "extra_forbidden", _:
            return [_unknown_key(model, document, steps)]
        case _, WrongValues(wrong=wrong):
            return [_wrong_value(document, steps, each) for each in wrong]
        case _, WrongValue() as wrong if wrong.at:
            return [_wrong_value(document, steps, wrong)]
        case _:
            return [_wrong(model, document, steps, detail)]


def _wrong_value(document: Document, steps: Steps, wrong: WrongValue) -> Problem:
    steps = (*steps, *wrong.at)
    return document.problem(steps, f"{dotted(steps)}: {wrong}", hint=wrong.hint)


def _wrong(model: type[Section], document: Document, steps: Steps, detail: Any) -> Problem:
    if steps and steps[-1] == "[key]":  # pydantic's mark for "the key itself is wrong"
        steps = steps[:-1]
        message, hint = _wording(model, steps, detail)
        return document.problem(steps, f"{dotted(steps)}: {message}", hint=hint, at_key=True)
    message, hint = _wording(model, steps, detail)
    where = f"{dotted(steps)}: " if steps else "the file "
    return document.problem(steps, where + message, hint=hint)


def _wording(model: type[Section], steps: Steps, detail: Any) -> tuple[str, str]:
    """Return message and hint for a value of the wrong kind or size."""
    kind: str = detail["type"]
    limits: dict[str, Any] = detail.get("ctx", {})
    match kind:
        case "value_error" if isinstance(limits["error"], WrongValue):
            return str(limits["error"]), limits["error"].hint
        case "greater_than_equal":
            return f"must be at least {limits['ge']}, not {detail['input']}", ""
        case "less_than_equal":
            return f"must be at most {limits['le']}, not {detail['input']}", ""
        case "model_type" | "dict_type":
            example = _section_at(model, steps).example if kind == "model_type" else ""
            hint = f"write {example}" if example else "write key: value lines under it, indented"
            return f"must be a mapping, not {kind_of(detail['input'])}", hint
        case "tuple_type":
            return f"must be a list, not {kind_of(detail['input'])}", "begin each item with a dash, or write [a, b]"
        case "too_long":
            return f"has {len(detail['input'])} entries; at most {limits['max_length']} are possible", ""
        case _:
            return str(detail["msg"]), ""


def _missing(model: type[Section], document: Document, steps: Steps) -> Problem:
    *around, key = steps
    section = _section_at(model, tuple(around))
    where = f" in {dotted(tuple(around))}" if around else ""
    return document.problem(
        steps, f"{key} is missing{where}", hint=f"write {section.example}" if section.example else ""
    )


def _unknown_key(model: type[Section], document: Document, steps: Steps) -> Problem:
    *around, key = steps
    section = _section_at(model, tuple(around))
    where = f" in {dotted(tuple(around))}" if around else ""
    names = [field.alias or name for name, field in section.model_fields.items()]
    hint = did_you_mean(str(key), names, "keys here")
    return document.problem(steps, f'unknown key "{key}"{where}', hint=hint, at_key=True)


def _section_at(model: type[Section], steps: Steps) -> type[Section]:
    """Return the model of the mapping at a place."""
    section = model
    in_container = False
    for step in steps:
        if in_container:  # the step is a user's key or an index, and `section` already what it leads to
            in_container = False
        else:
            found = _section_in(section.model_fields[str(step)].annotation)
            if found is None:
                break
            section, in_container = found
    return section


def _section_in(annotation: Any) -> tuple[type[Section], bool] | None:
    """Return the section in ``X``, ``X | None``, ``dict[K, X]`` or ``tuple[X, ...]``, and whether in a container."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation, False
    for argument in get_args(annotation):
        if found := _section_in(argument):
            return found[0], found[1] or get_origin(annotation) in (dict, tuple)
    return None
