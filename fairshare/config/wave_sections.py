"""How waves, windows and limits are written, in job files and in ``fairshare.yaml``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from fairshare.config.errors import WrongValue
from fairshare.config.fields import Flag, Rate, Seconds, Size, Text, Whole, kind_of, read_text_value
from fairshare.config.jobs import AutoWaves, Limits, WavesSpec
from fairshare.config.sections import Section
from fairshare.config.times import DAYS, StartTime, Window, make_window, parse_start, parse_window
from fairshare.config.yaml_source import Scalar

_Value = TypeVar("_Value")


def _read_start(value: object) -> StartTime:
    return value if isinstance(value, StartTime) else _worded(parse_start, read_text_value(value))


def _text_as_window(value: object) -> object:
    """``20:00-06:00 Europe/Berlin`` is short for the mapping."""
    if not isinstance(value, Scalar) or value.is_null:
        return value
    window = _worded(parse_window, value.text)
    return {**asdict(window), "days": [DAYS[day] for day in window.days]}


def _worded(read: Callable[..., _Value], *written: object) -> _Value:
    try:
        return read(*written)
    except ValueError as error:
        raise WrongValue(str(error)) from None


class WindowSection(Section):
    """When waves may start."""

    example: ClassVar = '{start: "20:00", end: "06:00", days: [mon, tue], zone: Europe/Berlin}'

    start: Text
    end: Text
    days: tuple[Text, ...] = ()
    zone: Text

    @model_validator(mode="after")
    def _check(self) -> WindowSection:
        self.to_window()
        return self

    def to_window(self) -> Window:
        """Return the window."""
        return _worded(make_window, self.start, self.end, self.days, self.zone)


class WavesSection(Section):
    """Waves of a fixed size, or with ``auto`` of a size that follows the launches."""

    example: ClassVar = "{size: 8, interval: 90s}"

    auto: Flag = False
    size: Whole | None = Field(default=None, ge=1)
    interval: Seconds | None = Field(default=None, ge=0)
    first: Whole | None = Field(default=None, ge=1)
    hold_runnable: Flag | None = None
    start_at: Annotated[StartTime, PlainValidator(_read_start)] | None = None
    window: Annotated[WindowSection, BeforeValidator(_text_as_window)] | None = None

    @model_validator(mode="after")
    def _check_one_of_two(self) -> WavesSection:
        fixed, auto = ("size", "interval"), ("first", "hold_runnable")
        foreign, kind = (fixed, "auto: true") if self.auto else (auto, "waves of a fixed size")
        said = [name for name in foreign if getattr(self, name) is not None]
        if said:
            hint = "remove it" if self.auto else "write auto: true beside it"
            raise WrongValue(f"has no effect in {kind}", hint=hint, at=(said[0],))
        missing = [name for name in fixed if getattr(self, name) is None]
        if missing and not self.auto:
            verb = "is" if len(missing) == 1 else "are"
            raise WrongValue(f"{' and '.join(missing)} {verb} missing", hint=f"write {self.example}, or auto")
        return self

    def to_waves(self) -> WavesSpec | AutoWaves:
        """Return the waves."""
        window = None if self.window is None else self.window.to_window()
        if self.size is None or self.interval is None:
            return AutoWaves(self.first, bool(self.hold_runnable), self.start_at, window)
        return WavesSpec(self.size, self.interval, self.start_at, window)


def _auto_as_section(value: object) -> object:
    """``auto`` is short for ``{auto: true}``."""
    if not isinstance(value, Scalar):
        return value
    if value.text != "auto":
        raise WrongValue(f"must be auto or a mapping, not {kind_of(value)}", hint=f"write {WavesSection.example}")
    return {"auto": True}


Waves = Annotated[WavesSection, BeforeValidator(_auto_as_section)]
"""``auto`` or a `WavesSection`."""


class LimitsSection(Section):
    """What launches share, and how much of it they may take together."""

    example: ClassVar = "{concurrent_launches: 8, read_bandwidth: 2GiB}"

    concurrent_launches: Whole | None = Field(default=None, ge=1)
    image_pulls: Whole | None = Field(default=None, ge=1)
    read_bandwidth: Rate | None = Field(default=None, ge=1)
    memory: Size | None = Field(default=None, ge=1)

    def to_limits(self) -> Limits:
        """Return the limits."""
        values: dict[str, Any] = dict(self)
        return Limits(**values)
