"""The worked example of docs/scheduler.md, step by step. Whoever changes one changes the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeLab = Callable[..., Any]
MINUTE = 60


@pytest.mark.parametrize(
    ("decay", "second_refill"),
    [(0, ["low-4", "low-5", "low-6", "low-7"]), (4 * 3600, ["high-3", "mid-1", "high-4", "high-5"])],
)
def test_four_instances_and_three_shares(make_lab: MakeLab, decay: int, second_refill: list[str]) -> None:
    lab = make_lab(4, {"HIGHPRI": "1", "MIDPRI": "3", "LOWPRI": "5"}, decay=decay)
    for number in range(8):
        lab.submit(f"low-{number}", "LOWPRI", runs=20 * MINUTE)
    for share, name in (("MIDPRI", "mid"), ("HIGHPRI", "high")):
        for number in range(8):
            lab.submit(f"{name}-{number}", share, at=10 * MINUTE, runs=15 * MINUTE)

    lab.to(10 * MINUTE)
    assert lab.started() == ["low-0", "low-1", "low-2", "low-3"]
    lab.to(20 * MINUTE)
    assert lab.started()[4:] == ["high-0", "mid-0", "high-1", "high-2"]
    lab.to(35 * MINUTE)
    assert lab.started()[8:] == second_refill
    assert lab.stopped == []
