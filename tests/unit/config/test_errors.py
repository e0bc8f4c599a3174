from __future__ import annotations

import pytest

from fairshare.config.errors import did_you_mean, suggest

SHARES = ["HIGHPRI", "MIDPRI", "LOWPRI"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [("HIGHPRIO", "HIGHPRI"), ("highpri", "HIGHPRI"), ("LOWPIR", "LOWPRI"), ("research", None), ("", None)],
)
def test_suggest(word: str, meant: str | None) -> None:
    assert suggest(word, SHARES) == meant


def test_suggest_among_nothing() -> None:
    assert suggest("x", []) is None


def test_hint_names_the_guess_and_all_options() -> None:
    assert did_you_mean("highpri", SHARES, "shares") == "did you mean HIGHPRI? (shares: HIGHPRI, MIDPRI, LOWPRI)"


def test_hint_without_a_guess() -> None:
    assert did_you_mean("research", SHARES, "shares") == "shares: HIGHPRI, MIDPRI, LOWPRI"
    assert did_you_mean("x", [], "shares") == "there are no shares"
