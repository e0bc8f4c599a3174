"""A picture of series: one panel for each metric, one line for each host, gaps left open.

Drawn with matplotlib, which the SageMaker SDK brings along; it is imported (half a second) only here. The HTML page
holds its picture inside and loads nothing.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairshare.metrics.series import Series
from fairshare.model import FairshareError, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: Final = ("svg", "png", "html")
_WIDTH: Final = 10.0
_PANEL_HEIGHT: Final = 2.2
_MARKED_AT_MOST: Final = 240
"""Up to so many points each is marked: one between two gaps has no line to show it."""

_NAMED_AT_MOST: Final = 9
"""So many lines of a panel are named beside it; there is no room for more, and no more colours to tell them by."""

_EDGE: Final = 2.5
"""Per cent of room below 0 and above 100: a line along the edge would be cut in half."""

_TICKS: Final = ("%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M", "%H:%M:%S")
_CORNER: Final = ("", "%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d")
"""How ticks a year, month, day, hour, minute or second apart are written, and below them what they have in common."""

_STYLE: Final[Any] = {"svg.hashsalt": "fairshare", "svg.fonttype": "none", "text.parse_math": False}
"""The same series give the same bytes; names are text, never formulas."""


def check_plot_path(path: Path) -> str:
    """Return the format that a file's name asks for.

    Raises:
        UsageError: none that can be drawn.
    """
    found = path.suffix.lower().removeprefix(".")
    if found not in FORMATS:
        raise UsageError(f"--plot: {path.name} does not say what to draw", hint="end it in .svg, .png or .html")
    return found


def plot(series: Sequence[Series], title: str, path: Path) -> None:
    """Draw series into a file, whose name says as what.

    Raises:
        UsageError: the name ends in none of `FORMATS`.
        FairshareError: the file cannot be written, or matplotlib is not installed.
    """
    kind = check_plot_path(path)
    try:
        content = render(series, title, kind)
    except ImportError as error:
        raise FairshareError(
            "pictures need matplotlib, which is not installed", hint=f"pip install {error.name}"
        ) from None
    try:
        path.write_bytes(content)
    except OSError as error:
        raise FairshareError(f"cannot write {path}: {error.strerror}", hint="give another path with --plot") from None


def render(series: Sequence[Series], title: str, kind: str) -> bytes:
    """Return the bytes of a picture of one of `FORMATS`."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        figure = _figure(series, title)
        if kind == "png":
            return _bytes(figure, "png")
        svg = _bytes(figure, "svg")
    return svg if kind == "svg" else _page(svg, title)


def _figure(series: Sequence[Series], title: str) -> Figure:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(line.name for line in series)) or [""]
    figure = Figure(figsize=(_WIDTH, 1 + _PANEL_HEIGHT * len(names)), layout="constrained")
    panels: Any = figure.subplots(len(names), 1, sharex=True, squeeze=False)
    figure.suptitle(title)
    for name, panel in zip(names, panels[:, 0], strict=True):
        _draw(panel, name, [line for line in series if line.name == name])
    dates: Any = import_module("matplotlib.dates")  # without types
    locator = dates.AutoDateLocator()
    bottom = panels[-1, 0]
    bottom.xaxis.set_major_locator(locator)
    bottom.xaxis.set_major_formatter(
        dates.ConciseDateFormatter(locator, formats=_TICKS, zero_formats=_TICKS, offset_formats=_CORNER)
    )
    bottom.set_xlabel("UTC")
    return figure


def _draw(panel: Any, name: str, lines: Sequence[Series]) -> None:
    known = [line for line in lines if line.points]
    for line in known:
        times, values = zip(*line.with_gaps(), strict=True)
        panel.plot(
            [datetime.fromtimestamp(at / 1000, UTC) for at in times],
            [math.nan if value is None else value for value in values],
            label=line.host or "all hosts",
            marker="." if len(times) <= _MARKED_AT_MOST else None,
        )
    unit = lines[0].unit if lines else ""
    panel.set_title(name if not lines or lines[0].normalised else f"{name} (as published)", fontsize=10, loc="left")
    panel.set_ylabel(unit)
    if unit == "Percent" and all(line.normalised for line in lines):
        panel.set_ylim(-_EDGE, 100 + _EDGE)
    if len(known) > 1:
        handles, names = (each[:_NAMED_AT_MOST] for each in panel.get_legend_handles_labels())
        if len(known) > _NAMED_AT_MOST:
            names[-1] = f"{names[-1]}, {len(known) - _NAMED_AT_MOST} more"
        panel.legend(handles, names, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    if not known:
        panel.text(0.5, 0.5, "no data", transform=panel.transAxes, ha="center", va="center")


def _bytes(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()


def _page(svg: bytes, title: str) -> bytes:
    drawing = svg.decode().partition("<svg")
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        "<style>body{font-family:sans-serif;margin:1em}svg{max-width:100%;height:auto}</style></head>\n"
        f"<body>\n<svg{drawing[2]}\n</body></html>\n"
    ).encode()
