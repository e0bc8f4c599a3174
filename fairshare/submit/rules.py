"""What holds the jobs of a run back, as data: it is planned once, kept in the run's journal and obeyed by a resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from fairshare.config.jobs import AutoWaves, Limits
from fairshare.model import UsageError
from fairshare.submit.windows import Gate, gate_from_json


@dataclass(frozen=True)
class RunRules:
    """Rules beside the timetable of waves and what jobs come after."""

    gate: Gate = field(default_factory=Gate)
    """When the wall clock lets waves start."""
    max_in_flight: int | None = None
    """Jobs between their acceptance and their end; None = any number."""
    auto: AutoWaves | None = None
    """Waves find their own size; None = the timetable has it. Its times are in ``gate``."""
    limits: Limits = field(default_factory=Limits)
    """What launches share; only ``auto`` obeys them."""

    def to_json(self) -> dict[str, Any]:
        """Return the rules for a journal; `rules_from_json` reads them."""
        auto = None if self.auto is None else {"first": self.auto.first, "hold_runnable": self.auto.hold_runnable}
        return {
            "gate": self.gate.to_json(),
            "max_in_flight": self.max_in_flight,
            "auto": auto,
            "limits": asdict(self.limits),
        }


NO_RULES: Final = RunRules()
"""Nothing holds jobs back."""


def check_in_flight(most: int | None) -> None:
    """Refuse a limit of jobs in flight under which nothing could be sent.

    Raises:
        UsageError: it is below 1.
    """
    if most is not None and most < 1:
        raise UsageError(
            f"{most} jobs in flight are too few: not even one could be sent",
            hint="give --max-in-flight 1 or more, or leave it out",
        )


def rules_from_json(document: Mapping[str, Any] | None) -> RunRules:
    """Return the rules of a journal; None, in journals from before there were any, holds nothing back."""
    if document is None:
        return NO_RULES
    auto = document["auto"]
    return RunRules(
        gate_from_json(document["gate"]),
        document["max_in_flight"],
        None if auto is None else AutoWaves(**auto),
        Limits(**document["limits"]),
    )
