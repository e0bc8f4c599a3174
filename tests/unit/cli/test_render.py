from fractions import Fraction

import pytest

from fairshare.cli.render import (
    Column,
    count,
    display_width,
    elapsed,
    local_time,
    percent,
    safe,
    shorten,
    table,
    utc_time,
)

COLUMNS = (Column("NAME", shrinks=True), Column("N", right=True), Column("WHY", shrinks=True, prose=True))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("ok\x1b[2J\rFAKE", "ok\\x1b[2J\\rFAKE"),
        ("\x1b]8;;http://evil\x07link\x1b]8;;\x07", "\\x1b]8;;http://evil\\x07link\\x1b]8;;\\x07"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2066b\u200bc\ufeff", "a\\u2066b\\u200bc\\ufeff"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("line\u2028separator", "line\\u2028separator"),
        ("half \ud800", "half \\ud800"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("Åsa 模型 é", "Åsa 模型 é"),
    ],
)
def test_c47_what_could_move_the_cursor_is_shown_as_text(raw, shown):
    assert safe(raw) == shown


def test_c47_characters_to_keep_are_kept():
    assert safe("a\tb\r\n", keep="\t\n") == "a\tb\\r\n"


def test_c47_columns_stay_aligned_with_wide_and_combining_characters():
    text = table((Column("NAME"), Column("N")), [["模型", "1"], ["e\u0301t", "2"], ["plain", "3"]])

    assert text.splitlines() == ["NAME   N", "模型   1", "e\u0301t     2", "plain  3"]
    assert {display_width(line) for line in text.splitlines()} == {8}


def test_c47_a_cell_cannot_break_its_row():
    assert len(table((Column("A"),), [["x\ny\r\x1b[1A"]]).splitlines()) == 2


def test_numbers_align_right_and_no_line_ends_in_spaces():
    assert table(COLUMNS, [["a", "10", ""], ["bb", "9", "x"]]).splitlines() == [
        "NAME   N  WHY",
        "a     10",
        "bb     9  x",
    ]


def test_a_table_for_a_pipe_is_as_wide_as_it_needs():
    assert "x" * 300 in table(COLUMNS, [["x" * 300, "1", ""]])


def test_on_a_narrow_terminal_names_lose_their_middle_and_prose_its_end():
    text = table(COLUMNS, [["digits-lr0.1-batch64-seed17", "1", "it waits for somebody else"]], width=40)

    assert text.splitlines()[1] == "digits-l…4-seed17  1  it waits for some…"
    assert max(map(display_width, text.splitlines())) == 40


def test_a_column_is_not_squeezed_to_nothing():
    assert table((Column("NAME", shrinks=True),), [["abcdefghijkl"]], width=3).splitlines()[1] == "abc…ijkl"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("abcdef", 6, "abcdef"), ("abcdef", 5, "ab…ef"), ("模型模型", 7, "模…模型"), ("模型模型", 6, "模…型")],
)
def test_shorten_counts_cells(text, width, shown):
    assert shorten(text, width) == shown
    assert display_width(shown) <= width


def test_times_for_programs_are_rfc_3339_in_utc_with_milliseconds():
    assert utc_time(1_796_061_600_123) == "2026-11-30T18:00:00.123Z"
    assert utc_time(0) == "1970-01-01T00:00:00.000Z"


def test_times_for_people_carry_their_offset(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Europe/Amsterdam")
    time.tzset()
    try:
        assert local_time(1_796_061_600_000) == "2026-11-30 19:00:00 +0100"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_lengths_of_time_are_never_negative():
    assert elapsed(4_320_000) == "1 h 12 min"
    assert elapsed(-5) == "0 s"


def test_percent_and_count():
    assert percent(Fraction(15, 23)) == "65.2 %"
    assert [count(1, "job"), count(0, "job")] == ["1 job", "0 jobs"]
