"""Charts as SVG inside HTML, without a script: lines, areas and axes.

A drawing is stretched to whatever width there is, so it holds no text and its lines keep their thickness
(``non-scaling-stroke``); labels are HTML beside it and keep their size, on a telephone too. Colours are classes
``c0`` to ``c6`` of the page's style sheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

COLOURS: Final = 7
"""Classes ``c0`` to ``c6``; the last one is grey, for all others together."""

WIDTH: Final = 1000
HEIGHT: Final = 300
"""Of the coordinates inside a drawing."""

_HOUR: Final = 3_600_000
_DAY: Final = 24 * _HOUR
_STEPS: Final = (
    *(_HOUR // 60, _HOUR // 12, _HOUR // 4, _HOUR, 2 * _HOUR, 4 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(days * _DAY for days in (1, 2, 3, 4, 5, 7, 10, 14, 21, 30, 40, 60, 100, 200, 365)),
)

Tick = tuple[float, str]
"""Where (0 to 1) and what to write."""


@dataclass(frozen=True)
class Series:
    """One line: its name, colour class and values; None leaves a gap. ``kind`` is ``line``, ``area`` or ``dashed``."""

    name: str
    colour: str
    values: Sequence[float | None]
    kind: str = "line"


@dataclass(frozen=True)
class Axes:
    """``top`` is the value at the upper edge; ``x`` and ``y`` are the ticks."""

    top: float
    x: Sequence[Tick]
    y: Sequence[Tick]


def line_chart(
    label: str, series: Sequence[Series], axes: Axes, hints: Sequence[str] = (), *, small: bool = False
) -> str:
    """Return a chart as HTML.

    Args:
        label: says what is seen, for those who cannot.
        series: drawn in this order; all have as many values.
        axes: the scales.
        hints: text for each step, shown by the pointer.
        small: for small multiples.
    """
    shapes = [_grid(axes), *(_shape(each, axes.top) for each in series), _hover(hints)]
    return frame(label, "".join(shapes), axes, "small" if small else "")


def frame(label: str, shapes: str, axes: Axes, kind: str = "", height: float = HEIGHT, style: str = "") -> str:
    """Return shapes in a stretched drawing, with its labels around it."""
    left = "".join(f'<span style="bottom:{at:.1%}">{escape(text)}</span>' for at, text in axes.y)
    below = "".join(f'<span style="left:{at:.1%}">{escape(text)}</span>' for at, text in axes.x)
    return (
        f'<div class="plot {kind}"><div class="y">{left}</div>'
        f'<svg viewBox="0 0 {WIDTH} {height:g}" preserveAspectRatio="none" role="img" aria-label="{escape(label)}"'
        f' style="{style}">{shapes}</svg><div class="x">{below}</div></div>'
    )


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Return names with their colours; an entry is (class, name)."""
    items = "".join(f'<li><i class="{css}"></i>{escape(name)}</li>' for css, name in entries)
    return f'<ul class="legend">{items}</ul>'


def colour(number: int) -> str:
    """Return the class of the nth thing; all beyond the last are grey."""
    return f"c{min(number, COLOURS - 1)}"


def axis_top(values: Sequence[float | None]) -> float:
    """Return a round number at or above every value, at least 1."""
    largest = max((value for value in values if value is not None), default=0.0)
    power = 1.0
    while power * 10 < largest:
        power *= 10
    return next((power * factor for factor in (1, 2, 4, 5, 8, 10) if power * factor >= largest), power * 10)


def value_ticks(top: float) -> list[Tick]:
    """Return ticks at nothing, half and the top."""
    return [(part, f"{top * part:,.4g}" if top * part < 10_000 else f"{top * part:,.0f}") for part in (0.0, 0.5, 1.0)]


def time_ticks(begin: int, end: int, most: int = 7) -> list[Tick]:
    """Return ticks at round times since the workload began, in ms: ``day 3``, ``3 18:00``, ``18:00``."""
    span = max(1, end - begin)
    step = next((step for step in _STEPS if span / step <= most), span)
    first = -(-begin // step) * step
    ticks = range(first, end + 1, step)
    return [((at - begin) / span, _time_label(at, step, at == first or at % _DAY == 0)) for at in ticks]


def duration_label(seconds: float) -> str:
    """Return a length of time in one unit: ``30 s``, ``5 min``, ``2 h``, ``4 d``."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def clock_label(at: int) -> str:
    """Return an instant since the workload began, in ms: ``day 3, 18:05``."""
    return f"day {at // _DAY + 1}, {at % _DAY // _HOUR:02}:{at % _HOUR // 60_000:02}"


def _time_label(at: int, step: int, names_day: bool) -> str:
    if step >= _DAY or (names_day and at % _DAY == 0):
        return f"day {at // _DAY + 1}"
    return f"{at % _DAY // _HOUR:02}:{at % _HOUR // 60_000:02}"


def _grid(axes: Axes) -> str:
    lines = [f"M0 {HEIGHT * (1 - at):.1f}H{WIDTH}" for at, _ in axes.y]
    lines += [f"M{WIDTH * at:.1f} 0V{HEIGHT}" for at, _ in axes.x]
    return f'<path class="grid" d="{"".join(lines)}"/>'


def _shape(series: Series, top: float) -> str:
    """Return the path of a series as steps: each value holds for the whole step."""
    width = WIDTH / max(1, len(series.values))
    is_area = series.kind == "area"
    path: list[str] = []
    is_drawing = False
    for number, value in enumerate([*series.values, None]):
        if value is not None:
            y = HEIGHT * (1 - min(value / top, 1))
            if not is_drawing:
                path.append(f"M{number * width:.1f} {HEIGHT if is_area else y:.1f}")
            path.append(f"V{y:.1f}H{(number + 1) * width:.1f}")
        elif is_drawing and is_area:
            path.append(f"V{HEIGHT}Z")
        is_drawing = value is not None
    name = escape(series.name)
    return f'<path class="{series.kind} {series.colour}" d="{"".join(path)}"><title>{name}</title></path>'


def _hover(hints: Sequence[str]) -> str:
    """Return strips that show a text each, one for every step."""
    width = WIDTH / max(1, len(hints))
    box = f'width="{width:.1f}" height="{HEIGHT}"'
    return "".join(
        f'<rect class="hover" x="{number * width:.1f}" {box}><title>{escape(hint)}</title></rect>'
        for number, hint in enumerate(hints)
    )
