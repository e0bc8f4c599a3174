"""Sizes and rates: what is read, what is refused, and how they are shown."""

from __future__ import annotations

import re

import pytest

from fairshare.config.sizes import format_size, parse_rate, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        (4096, 4096),
        ("0", 0),
        ("7B", 7),
        ("1kB", 1000),
        ("1KB", 1000),
        ("500MB", 500_000_000),
        ("4KiB", 4096),
        ("4GiB", 4 * 2**30),
        ("1.5 GiB", 3 * 2**29),
        ("2TiB", 2 * 2**40),
        ("0.1MB", 100_000),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4G", '"4G" is not a size: write 4GiB (in 1024s) or 4GB (in 1000s)'),
        ("512m", '"512m" is not a size: write 512MiB (in 1024s) or 512MB (in 1000s)'),
        ("16gb", '"16gb" is not a size: write 16GiB (in 1024s) or 16GB (in 1000s)'),
        ("8k", '"8k" is not a size: write 8KiB (in 1024s) or 8kB (in 1000s)'),
        ("-4GiB", '"-4GiB" is not a size: it cannot be negative'),
        ("4 apples", '"4 apples" is not a size: write bytes (4096) or a unit (500MB, 4GiB)'),
        ("", '"" is not a size: write bytes (4096) or a unit (500MB, 4GiB)'),
        ("1e3", '"1e3" is not a size: write bytes (4096) or a unit (500MB, 4GiB)'),
        ("0.5B", '"0.5B" is not a whole number of bytes: write it in a smaller unit'),
        (True, '"True" is not a size: write bytes (4096) or a unit (500MB, 4GiB)'),
    ],
)
def test_what_is_not_a_size(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_size(text)


@pytest.mark.parametrize("text", ["200MiB", "200MiB/s", " 200 MiB/s ", 200 * 2**20])
def test_rates_are_a_second(text: str | int) -> None:
    assert parse_rate(text) == 200 * 2**20


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (24 * 2**30, "24 GiB"),
        (2**50, "1 PiB"),
        (2**70, "1048576 PiB"),
    ],
)
def test_sizes_are_shown_in_their_largest_unit(size: int, text: str) -> None:
    assert format_size(size) == text
