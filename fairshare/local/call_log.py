"""What was called: the proof that a dry run writes nothing, and the first thing to read when something looks odd."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

KEPT_CALLS: Final = 10_000
"""Older calls are forgotten."""

CALL_KEY: Final = "fairshare.call"
"""Where a server's request carries its `ApiCall`: it is needed before moto sees the request."""

_LONGEST_VALUE: Final = 200
_NEVER_KEPT: Final = frozenset({"serviceRequestPayload", "Environment", "HyperParameters", "messages", "logEvents"})
"""Parameters that may hold what users keep secret, or much of it."""

_READ_VERBS: Final = (
    "Assume",
    "BatchGet",
    "Describe",
    "Filter",
    "Get",
    "Head",
    "List",
    "Lookup",
    "Query",
    "Scan",
    "Search",
    "Select",
    "Simulate",
    "Test",
    "Validate",
)


@dataclass(frozen=True)
class ApiCall:
    """One call. ``service`` as boto3 calls it; ``operation`` as AWS does, or method and path if it has no known name.

    ``params`` holds the short values at the top of the request: enough to see what it was about.
    """

    service: str
    operation: str
    is_write: bool
    params: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)


class CallLog:
    """The last calls, oldest first. Safe to use from several threads."""

    def __init__(self, kept: int = KEPT_CALLS) -> None:
        self._calls: deque[ApiCall] = deque(maxlen=kept)

    def add(self, call: ApiCall) -> None:
        """Note a call."""
        self._calls.append(call)

    def clear(self) -> None:
        """Forget all calls."""
        self._calls.clear()

    def calls(self) -> list[ApiCall]:
        """Return all calls."""
        return list(self._calls)

    def writes(self) -> list[ApiCall]:
        """Return the calls that may have changed something."""
        return [call for call in self.calls() if call.is_write]


def is_write(operation: str, http_method: str) -> bool:
    """Whether a call may change something: by its name, else by its HTTP method. In doubt it does."""
    if " " in operation:
        return http_method not in ("GET", "HEAD")
    return not operation.startswith(_READ_VERBS)


def short_params(params: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Return what of a request's parameters is kept."""
    return {
        name: value
        for name, value in params.items()
        if name not in _NEVER_KEPT
        and (isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) <= _LONGEST_VALUE))
    }
