"""Reads a request by botocore's service model, so that operations meet only values of the right type.

boto3 checks types before it sends; anything else that speaks HTTP may send what it likes. What does not fit is refused
with the place and the rule, unknown members are dropped, null members count as absent: as AWS's own JSON services do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairshare.local.errors import ClientException
from fairshare.local.validation import ATTEMPTS_MISSING

_INTEGERS: Final = {"integer": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
_DEEPEST: Final = 100
"""Levels that a document may nest; the deepest shape of Batch and SageMaker has a dozen."""

_MEASURED: Final = {"retryStrategy.attempts": ATTEMPTS_MISSING}
"""What AWS says where a required member is missing, as far as it was measured (cdk-preflight, rules/batch)."""


def read_json(text: str | bytes, what: str, rule: str) -> dict[str, Any]:
    """Decode a JSON object.

    Args:
        text: the document.
        what: which document it is, for the message.
        rule: what it should be, for the message.

    Raises:
        ClientException: it is no JSON, or no object, or nested beyond reason.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ClientException(f"{what}: nested too deeply (at most {_DEEPEST} levels)") from None
    except ValueError as error:
        raise ClientException(f"{what}: not JSON, {error} ({rule})") from None
    if not isinstance(value, dict):
        raise ClientException(f"{what}: not a JSON object ({rule})")
    return value


def read_members(
    shape: Any, values: Mapping[str, Any], *, are_required: bool = True, where: str = ""
) -> dict[str, Any]:
    """Return the members of a structure that were given, each of its type.

    Args:
        shape: a botocore ``StructureShape``.
        values: by the members' names.
        are_required: whether a required member may not be missing.
        where: path of the structure, for messages.

    Raises:
        ClientException: ``<path>: <what is wrong> (<rule>)``.
    """
    if where.count(".") > _DEEPEST:
        raise ClientException(f"{where[:80]}: nested too deeply (at most {_DEEPEST} levels)")
    members: dict[str, Any] = {}
    for name, member in shape.members.items():
        path = f"{where}.{name}" if where else name
        value = values.get(name)
        if value is not None:
            members[name] = _read(member, value, path, are_required)
        elif are_required and name in shape.required_members:
            raise ClientException(_MEASURED.get(path, f"{path}: missing (required)"))
    return members


def _read(shape: Any, value: Any, where: str, are_required: bool) -> Any:
    match shape.type_name:
        case "structure":
            return read_members(shape, _a(dict, value, where, "an object"), are_required=are_required, where=where)
        case "list":
            items = _a(list, value, where, "a list")
            return [_read(shape.member, item, f"{where}[{number}]", are_required) for number, item in enumerate(items)]
        case "map":
            entries = _a(dict, value, where, "an object")
            return {
                _text(key, where): _read(shape.value, item, f"{where}.{key}", are_required)
                for key, item in entries.items()
            }
        case "integer" | "long":
            return _whole_number(value, where, *_INTEGERS[shape.type_name])
        case type_name:
            return _SCALARS[type_name](value, where)


def _a(kind: type, value: Any, where: str, name: str) -> Any:
    if not isinstance(value, kind):
        raise ClientException(f"{where}: {_shown(value)} has the wrong type ({name})")
    return value


def _text(value: Any, where: str) -> str:
    text = str(_a(str, value, where, "a string"))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ClientException(f"{where}: {_shown(value)} is no valid Unicode (half of a surrogate pair)") from None
    return text


def _whole_number(value: Any, where: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ClientException(f"{where}: {_shown(value)} has the wrong type (a whole number)")
    if not low <= value <= high:
        raise ClientException(f"{where}: the number is out of range ({low} - {high})")
    return value


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ClientException(f"{where}: {_shown(value)} has the wrong type (a number)")
    if (isinstance(value, int) and abs(value) > 2**63) or not math.isfinite(value):
        raise ClientException(f"{where}: the number is out of range (a finite one)")
    return value


def _truth(value: Any, where: str) -> bool:
    return bool(_a(bool, value, where, "true or false"))


_SCALARS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "string": _text,
    "boolean": _truth,
    "float": _number,
    "double": _number,
    "timestamp": _number,
    "blob": _text,
}


def _shown(value: Any) -> str:
    """Return a value for a message: short, and always printable."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:60] + "..."
