"""Secrets in training requests: which values are secret, how the journal goes without them, how they come back.

Secret are environment variables that a job file takes from elsewhere (`fairshare.config.jobs.SecretRef`), and values of
environment and hyperparameters whose name or content says so: ``WANDB_API_KEY``, ``https://user:password@host``. Where
a payload is written or shown, such a value is replaced: by a mask for people, by a reference for the journal. A
reference is a map in a place where a training request has text; it says where the value came from, as far as that is
known. Putting the values back gives the payload again, which its SHA-256 proves (case C46).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from fairshare.config.jobs import SecretRef
from fairshare.model import UsageError
from fairshare.submit.requests import canonical_json, payload_sha256

MASK: Final = "***"
ENVIRONMENT: Final = "Environment"
SECTIONS: Final = (ENVIRONMENT, "HyperParameters")
"""Parts of a CreateTrainingJob request that hold values of the user's, as a map of text."""

_SECRET_WORD: Final = r"(token|secret|passw(or)?d|passphrase|credentials?|(api|access|private|secret)[_-]?key)"
_SECRET_NAME: Final = re.compile(rf"(^|[_-]){_SECRET_WORD}$|(passw(or)?d|secret|apikey)$|[_-]pwd$", re.IGNORECASE)
_SECRET_IN_JSON: Final = re.compile(rf'"([^"\\]*[_-])?{_SECRET_WORD}"\s*:', re.IGNORECASE)
"""A value that is a map of its own, with a secret in it."""

_SECRET_IN_URL: Final = re.compile(
    r"://([^/\s:@]*:[^/\s@]+|[^/\s:@]{20,})@|[?&](x-amz-signature|x-amz-security-token|sig|signature|token|access_token|api_key)=",
    re.IGNORECASE,
)
_SHORTEST: Final = 4
"""Shorter values are not searched for in messages: they would blank out half of the text."""

_MOST_TRIES: Final = 10_000
"""Combinations of candidates that are tried for one payload."""

FindValues = Callable[[str, str, SecretRef], Sequence[str]]
"""From section, key and reference to the values that it may stand for now; empty when there is none."""


def is_secret(name: str, value: str) -> bool:
    """Whether the value of an environment variable or hyperparameter is secret, by its name or its content."""
    return any(
        (_SECRET_NAME.search(name), _SECRET_IN_URL.search(value), value[:1] in "{[" and _SECRET_IN_JSON.search(value))
    )


def secret_values(payload: str, declared: Iterable[str]) -> list[str]:
    """Return the secret values in a payload; ``declared`` are environment keys that are secret whatever they hold."""
    document = json.loads(payload)
    return [document[section][key] for section, key in _secret_keys(document, frozenset(declared))]


def secret_keys(payload: str, declared: Iterable[str]) -> list[str]:
    """Return the names of the environment variables and hyperparameters of a payload whose values are secret."""
    return [key for _, key in _secret_keys(json.loads(payload), frozenset(declared))]


def masked(payload: str, declared: Iterable[str]) -> dict[str, Any]:
    """Return the training request for display: secret values as ``***``."""
    document: dict[str, Any] = json.loads(payload)
    for section, key in _secret_keys(document, frozenset(declared)):
        document[section][key] = MASK
    return document


def without_values(text: str, values: Iterable[str]) -> str:
    """Return a message in which the values, should AWS have repeated them, are ``***``."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, MASK)
    return text


def with_references(payload: str, declared: Mapping[str, SecretRef]) -> str:
    """Return a payload in which each secret value is replaced by a reference, for the journal."""
    document = json.loads(payload)
    keys = list(_secret_keys(document, frozenset(declared)))
    if not keys:
        return payload
    for section, key in keys:
        source = asdict(declared.get(key, SecretRef()) if section == ENVIRONMENT else SecretRef())
        document[section][key] = {name: value for name, value in source.items() if value is not None}
    return canonical_json(document)


def restored(payload: str, sha256: str, find_values: FindValues) -> str:
    """Return the payload with values in place of its references.

    Args:
        payload: as the journal has it.
        sha256: of the full payload.
        find_values: where values are looked for; with several, the hash tells which is right.

    Raises:
        UsageError: a value is not to be found, or none of those found is the one that was sent.
    """
    document = json.loads(payload)
    references = [
        (section, key, SecretRef(**value))
        for section in SECTIONS
        for key, value in (document.get(section) or {}).items()
        if isinstance(value, Mapping)
    ]
    if not references and payload_sha256(payload) == sha256:
        return payload
    candidates = [find_values(*reference) for reference in references]
    for (_, key, reference), found in zip(references, candidates, strict=True):
        if not found:
            raise UsageError(f"the value of {key} is not known any more", hint=_where(key, reference))
    for values in itertools.islice(itertools.product(*candidates), _MOST_TRIES):
        for (section, key, _), value in zip(references, values, strict=True):
            document[section][key] = value
        text = canonical_json(document)
        if payload_sha256(text) == sha256:
            return text
    names = ", ".join(key for _, key, _ in references)
    first = references[0] if references else ("", "", SecretRef())
    raise UsageError(f"the value of {names} is not the one that was submitted", hint=_where(first[1], first[2]))


def _where(key: str, reference: SecretRef) -> str:
    if reference.from_file is not None:
        return f"put the value that was submitted into {reference.from_file}, or submit the jobs as a new run"
    name = reference.from_env or key
    return f"set {name} in the environment to the value that was submitted, or submit the jobs as a new run"


def _secret_keys(document: Mapping[str, Any], declared: frozenset[str]) -> Iterator[tuple[str, str]]:
    for section in SECTIONS:
        for key, value in (document.get(section) or {}).items():
            is_declared = section == ENVIRONMENT and key in declared
            if isinstance(value, str) and (is_declared or is_secret(key, value)):
                yield section, key
