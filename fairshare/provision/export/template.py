"""The grammar of CloudFormation templates: resources, references, logical ids. Knows nothing of what a stack holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

FORMAT_VERSION: Final = "2010-09-09"
"""The one version of templates that there is."""

_ID_DIGITS: Final = 6


@dataclass(frozen=True)
class Resource:
    """One resource.

    ``condition`` is the name of a condition of the template, None = always there. ``holds_data``: the template says
    that the data goes with the resource, which is CloudFormation's default for these.
    """

    type: str
    properties: Mapping[str, Any]
    condition: str | None = None
    holds_data: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as a template holds it."""
        condition = {} if self.condition is None else {"Condition": self.condition}
        policies = {"DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete"} if self.holds_data else {}
        return {"Type": self.type, **condition, **policies, "Properties": dict(self.properties)}


class LogicalIds:
    """Names resources after the keys of ``fairshare.yaml``: ``gpu-a`` becomes ``GpuAJobQueue``.

    Logical ids take letters and digits only. Keys that would become the same (``a-b`` and ``ab``) get a part of their
    hash, so that no id depends on what else is in the file except for those.

    Args:
        keys: all that will be asked for.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._taken = Counter(_pascal(key) for key in set(keys))

    def of(self, kind: str, key: str) -> str:
        """Return the logical id of a resource of a kind."""
        word = _pascal(key)
        return f"{word}{_digest(key) if self._taken[word] > 1 else ''}{kind}"


def ref(logical_id: str) -> dict[str, str]:
    """Return a reference to a resource or parameter."""
    return {"Ref": logical_id}


def attribute(logical_id: str, name: str) -> dict[str, list[str]]:
    """Return a reference to an attribute of a resource."""
    return {"Fn::GetAtt": [logical_id, name]}


def substituted(value: Any) -> Any:
    """Wrap each text that holds ``${...}`` in ``Fn::Sub``, at every depth."""
    if isinstance(value, Mapping):
        return {key: substituted(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [substituted(each) for each in value]
    return {"Fn::Sub": value} if isinstance(value, str) and "${" in value else value


def _pascal(key: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", key)
    return "".join(word[:1].upper() + word[1:] for word in words)


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()[:_ID_DIGITS].upper()
