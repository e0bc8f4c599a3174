"""One finding of `fairshare.insight.lint`."""

from __future__ import annotations

from dataclasses import dataclass

from fairshare.config.jobs import Origin
from fairshare.config.yaml_source import Steps


@dataclass(frozen=True)
class Trap:
    """One finding. ``steps`` is its place in the project file, or ``origin`` that in a job file."""

    code: str
    message: str
    """What happens, with numbers."""
    change: str
    """What to do about it."""
    steps: Steps = ()
    origin: Origin | None = None
