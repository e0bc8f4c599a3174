"""When a run starts: ``--start-at`` and ``--window`` over what a job file says, read in the user's zone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from fairshare.model import UsageError

if TYPE_CHECKING:
    from fairshare.cli.context import AppContext
    from fairshare.config.jobs import AutoWaves, WavesSpec
    from fairshare.submit.windows import Gate

_Value = TypeVar("_Value")

_ZONES: Final = "zoneinfo/"


def run_gate(
    context: AppContext, waves: WavesSpec | AutoWaves | None, start_at: str | None, window: str | None
) -> Gate:
    """Return when waves may start; what had to be decided about the time is said.

    Args:
        context: of the command.
        waves: of the job file.
        start_at: the flag; None = not given.
        window: the flag; None = not given.

    Raises:
        UsageError: a time or a window that cannot be read or met.
    """
    from fairshare.config.times import parse_start, parse_window
    from fairshare.submit.windows import Gate

    where = "waves.start_at" if start_at is None else "--start-at"
    written = waves.start_at if waves else None
    start = written if start_at is None else _worded(where, lambda: parse_start(start_at))
    opens = (waves.window if waves else None) if window is None else _worded("--window", lambda: parse_window(window))
    if start is None:
        return Gate(None, opens)
    zone = local_zone(context.environ)
    resolved = _worded(where, lambda: start.resolve(context.clock.wall(), zone))
    if resolved.note:
        context.out.talk(f"{where}: {resolved.note}")
    return Gate(resolved.at, opens)


def shown_zone(environ: Mapping[str, str]) -> tzinfo:
    """Return the zone that times of day are shown in: this machine's, or UTC when it is not known."""
    from fairshare.config.times import load_zone

    try:
        return load_zone(local_zone(environ) or "UTC")
    except ValueError:
        return UTC


def local_zone(environ: Mapping[str, str], link: Path = Path("/etc/localtime")) -> str | None:
    """Return the name of this machine's time zone; None when it does not tell.

    ``TZ`` says it, else where ``/etc/localtime`` points to; a machine without either is in UTC.
    """
    named = environ.get("TZ", "").removeprefix(":")
    if named:
        return named.rpartition(_ZONES)[2]
    try:
        target = str(link.readlink())
    except FileNotFoundError:
        return "UTC"
    except OSError:  # a copy of the zone's data, without its name
        return None
    return target.rpartition(_ZONES)[2] if _ZONES in target else None


def _worded(where: str, read: Callable[[], _Value]) -> _Value:
    try:
        return read()
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
