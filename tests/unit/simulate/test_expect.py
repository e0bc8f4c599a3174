"""Ranges: what the file may say, and what is told when a figure lies outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairshare.model import InvalidFileError
from fairshare.simulate.expect import load_expectations, violations

POLICIES: list[dict[str, Any]] = [
    {"name": "fifo", "mean_wait_seconds": 500.0, "jain_index": None, "shares": {"a.b": {"wait_p95_seconds": 7.0}}},
    {"name": "v1.2 x=3", "mean_wait_seconds": 100.0, "jain_index": 0.5, "shares": {}},
]


def check(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "ranges.yaml"
    path.write_text(text)
    return [line.replace(f"{tmp_path}/", "") for line in violations(load_expectations(path), POLICIES)]


def test_figures_inside_their_ranges(tmp_path: Path) -> None:
    text = (
        "fifo.mean_wait_seconds: {min: 0, max: 10m}\n"
        "policies.fifo.shares.a.b.wait_p95_seconds: {max: 7}\n"
        "v1.2 x=3.jain_index: {min: 0.5}\n"
        '"*.mean_wait_seconds": {min: 1e1}\n'
    )

    assert check(tmp_path, text) == []


def test_every_figure_outside_is_told_with_its_place(tmp_path: Path) -> None:
    text = '"*.mean_wait_seconds": {min: 2m, max: 4m}\nfifo.jain_index: {min: 0.1}\n'

    assert check(tmp_path, text) == [
        "ranges.yaml:1:1: fifo.mean_wait_seconds is 500, more than 240",
        "ranges.yaml:1:1: v1.2 x=3.mean_wait_seconds is 100, less than 120",
        "ranges.yaml:2:1: fifo.jain_index has no value in this simulation",
    ]


def test_figures_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError) as refused:
        check(tmp_path, "fifo.mean_wat_seconds: {max: 1}\nfiffo.jain_index: {max: 1}\nfifo.shares: {max: 1}\n")

    assert [(p.line, p.message) for p in refused.value.problems] == [
        (1, 'there is no figure "fifo.mean_wat_seconds"'),
        (2, 'there is no figure "fiffo.jain_index"'),
        (3, 'there is no figure "fifo.shares"'),
    ]
    assert refused.value.problems[0].hint.startswith("did you mean mean_wait_seconds?")
    assert refused.value.problems[1].hint == "did you mean fifo? (policies: fifo, v1.2 x=3, *)"


def test_files_that_are_wrong(tmp_path: Path) -> None:
    text = (
        "fifo.jobs: {max: soon}\nfifo.wait_seconds: {max: 1:30}\n"
        "fifo.a: {maxx: 3}\nfifo.b: 3\nfifo.c: {min: 3, max: 2}\n"
    )

    with pytest.raises(InvalidFileError) as refused:
        check(tmp_path, text)

    assert [p.message for p in refused.value.problems] == [
        "fifo.jobs.max: must be a number",
        'fifo.wait_seconds.max: "1:30" is not a duration: 1:30 could be minutes or hours; write 1m30s or 1h30m',
        'unknown key "maxx" in fifo.a',
        "fifo.b needs min, max or both",
        "fifo.c: nothing lies between 3 and 2",
    ]


def test_a_file_that_maps_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="the file must map figures to ranges"):
        check(tmp_path, "- fifo.jobs\n")
