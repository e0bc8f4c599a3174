from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairshare.config.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90", 90),
        (90, 90),
        ("0", 0),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2d", 172_800),
        ("1d12h", 129_600),
        ("90s", 90),
        ("90m", 5400),
        ("5 min", 300),
        ("1 h 12 min", 4320),
        (" 5m ", 300),
        ("PT1M", 60),
        ("PT1H30M", 5400),
        ("P1D", 86_400),
        ("P1DT2H", 93_600),
    ],
)
def test_c28_durations_that_are_read(written: str | int, seconds: int) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("P1M", "years, months and weeks are not supported"),
        ("P1Y", "years, months and weeks are not supported"),
        ("P1W", "years, months and weeks are not supported"),
        ("1:30", "write 1m30s or 1h30m"),
        ("90:00", "write 1m30s or 1h30m"),
        ("4:00", "write 1m30s or 1h30m"),
        ("5M", "units are small letters; write 5m"),
        ("1H30M", "units are small letters; write 1h30m"),
        ("-5m", "it cannot be negative"),
        ("-90", "it cannot be negative"),
        (-90, "it cannot be negative"),
        ("1.5h", "fractions are not supported"),
        ("30m1h", "from large to small"),
        ("5m5m", "from large to small"),
        ("5x", "write seconds (90) or units"),
        ("soon", "write seconds (90) or units"),
        ("", "write seconds (90) or units"),
        ("P", "write seconds (90) or units"),
        ("PT", "write seconds (90) or units"),
        ("9" * 5000, "write seconds (90) or units"),
        ("٣m", "write seconds (90) or units"),
        (True, "write seconds (90) or units"),
    ],
)
def test_c28_durations_that_are_refused(written: str | int, why: str) -> None:
    with pytest.raises(ValueError, match="is not a duration") as refused:
        parse_duration(written)
    assert why in str(refused.value)


def test_c28_the_refused_text_is_in_the_message() -> None:
    with pytest.raises(ValueError, match=r'^"5M" is not a duration: units are small letters; write 5m$'):
        parse_duration("5M")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (41, "41 s"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (4320, "1 h 12 min"),
        (3601, "1 h"),
        (7200, "2 h"),
        (86_400, "1 d"),
        (93_659, "1 d 2 h"),
        (-90, "-1 min 30 s"),
    ],
)
def test_durations_are_shown_in_their_two_largest_units(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**9))
def test_what_is_shown_can_be_read_back_and_loses_only_small_units(seconds: int) -> None:
    shown = parse_duration(format_duration(seconds))
    assert shown <= seconds
    assert seconds - shown < (1 if seconds < 3600 else 60 if seconds < 86_400 else 3600)
