"""Values on their way into a training request: hyperparameters, environment, raw fields."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairshare.config.jobs import SecretRef
from fairshare.model import UsageError


def encode_hyperparameters(values: Mapping[str, Any]) -> dict[str, str]:
    """Return hyperparameters as the strings that CreateTrainingJob takes (case C09).

    Text stays as it is, unquoted; true, false and None become ``true``, ``false`` and ``null``; numbers, lists and maps
    become JSON. This is what the SDK does too, but for three things of its own that surprise: it writes NaN, which is
    not JSON; it writes Python's ``str()`` of a list or map with anything in it that is not JSON; and it writes a NumPy
    bool as ``True``.

    Args:
        values: name -> value. Not changed.

    Raises:
        UsageError: a value has no JSON, NaN and infinity included.
    """
    return {str(name): _encode(value, f"hyperparameter {name}") for name, value in values.items()}


def _encode(value: Any, where: str) -> str:
    try:
        plain = value if isinstance(value, _JSON_TYPES) else _plain(value)
        return plain if isinstance(plain, str) else json.dumps(plain, allow_nan=False, default=_plain)
    except TypeError as error:
        raise UsageError(f"{where}: {error}", hint="give text, a number, true, false, null, a list or a map") from None
    except ValueError:
        raise UsageError(
            f"{where} is {value!r}: JSON has no NaN and no infinity", hint="give a finite number, null, or text"
        ) from None


_JSON_TYPES = (str, bool, int, float, list, tuple, dict, type(None))


def _plain(value: Any) -> Any:
    """Return the JSON value that stands for a NumPy scalar or a path.

    Raises:
        TypeError: anything else.
    """
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if callable(item := getattr(value, "item", None)):
        return item()
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")


def resolve_environment(
    values: Mapping[str, str | SecretRef], environ: Mapping[str, str], known: dict[SecretRef, str] | None = None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return environment variables with the secrets filled in, and the names of those that are secret.

    Args:
        values: name -> text, or where a secret comes from.
        environ: where ``from_env`` looks.
        known: secrets that were resolved before, which are not looked up again. Added to.

    Raises:
        UsageError: a secret is not where it should be. The message never holds a value.
    """
    secret = {name: value for name, value in values.items() if isinstance(value, SecretRef)}
    known = {} if known is None else known
    for name, ref in secret.items():
        if ref not in known:
            known[ref] = _resolve(ref, environ, f"environment {name}")
    plain = {name: value for name, value in values.items() if isinstance(value, str)}
    return {name: known[secret[name]] if name in secret else plain[name] for name in values}, tuple(secret)


def _resolve(ref: SecretRef, environ: Mapping[str, str], where: str) -> str:
    if ref.from_env is not None:
        if ref.from_env not in environ:
            raise UsageError(
                f"{where}: the variable {ref.from_env} is not set here", hint=f"export {ref.from_env}=... and try again"
            )
        return environ[ref.from_env]
    if ref.from_file is None:
        raise UsageError(f"{where}: neither from_env nor from_file is given", hint="give one of the two")
    try:
        return Path(ref.from_file).expanduser().read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{where}: {ref.from_file} cannot be read: {reason}", hint="check the path") from error


def merge_request(request: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CreateTrainingJob request with raw fields on top; changes neither.

    Maps merge, None takes a key away, anything else replaces. Channels of ``InputDataConfig`` merge by name, so that a
    raw channel does not take away those that carry the source.
    """
    merged = deep_merge(request, raw)
    channels = raw.get("InputDataConfig")
    if isinstance(channels, Sequence):
        by_name = {channel["ChannelName"]: channel for channel in request.get("InputDataConfig", ())}
        by_name |= {channel.get("ChannelName", ""): channel for channel in channels}
        merged["InputDataConfig"] = list(by_name.values())
    return merged


def deep_merge(base: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``extra`` on top: maps merge, None takes a key away, anything else replaces."""
    merged = dict(base)
    for key, value in extra.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            below = merged.get(key)
            merged[key] = deep_merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged
