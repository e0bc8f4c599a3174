"""Sweeps: which points they stand for, and where in a file a wrong one is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.config.errors import WrongValue
from fairshare.config.jobs import JobFile
from fairshare.config.sweeps import read_sweep

Read = Callable[[str], JobFile]
Problems = Callable[[str], list[str]]


def points(written: object) -> list[dict[str, Any]]:
    return list(read_sweep(written).points())


def test_a_grid_is_every_combination_and_its_last_key_changes_fastest() -> None:
    assert points({"lr": [0.1, 0.01], "seed": [0, 1]}) == [
        {"lr": 0.1, "seed": 0},
        {"lr": 0.1, "seed": 1},
        {"lr": 0.01, "seed": 0},
        {"lr": 0.01, "seed": 1},
    ]


def test_what_is_zipped_changes_together() -> None:
    assert points({"zip": {"lr": [0.1, 0.01], "wd": {"range": [0, 2]}}}) == [
        {"lr": 0.1, "wd": 0},
        {"lr": 0.01, "wd": 1},
    ]


def test_a_zip_is_crossed_with_the_keys_beside_it_in_written_order() -> None:
    assert points({"seed": [0, 1], "zip": {"lr": [1, 2], "wd": [3, 4]}}) == [
        {"seed": 0, "lr": 1, "wd": 3},
        {"seed": 0, "lr": 2, "wd": 4},
        {"seed": 1, "lr": 1, "wd": 3},
        {"seed": 1, "lr": 2, "wd": 4},
    ]


def test_a_list_of_points_is_taken_as_it_is() -> None:
    written = [{"lr": 0.1, "layers": 2}, {"lr": 0.01}]
    assert points(written) == written


@pytest.mark.parametrize(
    ("bounds", "values"),
    [
        ([0, 3], [0, 1, 2]),
        ([0, 8, 3], [0, 3, 6]),
        ([3, 0, -1], [3, 2, 1]),
        ([-2, 0], [-2, -1]),
        ([0, 1, 0.25], [0.0, 0.25, 0.5, 0.75]),
        ([0, 0.5, 0.1], [0.0, 0.1, 0.2, 0.3, 0.4]),
        ([1, 0, -0.5], [1.0, 0.5]),
        ([0.5, 3], [0.5, 1.5, 2.5]),
    ],
)
def test_ranges_are_half_open_and_add_up_exactly(bounds: list[float], values: list[float]) -> None:
    found = read_sweep({"x": {"range": bounds}}).values_of("x")
    assert found == values
    assert {type(value) for value in found} == {type(values[0])}


@pytest.mark.parametrize(
    ("bounds", "values"),
    [
        ([1e-4, 1e-1, 3], [1e-4, 1e-3, 1e-2]),
        ([1e-1, 1e-4, 3], [1e-1, 1e-2, 1e-3]),
        ([1, 1024, 5], [1.0, 4.0, 16.0, 64.0, 256.0]),
        ([1, 10, 2], [1.0, 3.16228]),
        ([5, 7, 1], [5.0]),
    ],
)
def test_log_ranges_are_half_open_in_equal_ratios_with_short_values(bounds: list[float], values: list[float]) -> None:
    assert read_sweep({"lr": {"log_range": bounds}}).values_of("lr") == values


def test_excluded_points_are_left_out() -> None:
    written = {"lr": [0.1, 0.01], "seed": {"range": [0, 3]}, "exclude": [{"lr": 0.1, "seed": 2}, {"seed": 1}]}
    assert points(written) == [{"lr": 0.1, "seed": 0}, {"lr": 0.01, "seed": 0}, {"lr": 0.01, "seed": 2}]


def test_a_truth_value_is_not_excluded_by_a_number() -> None:
    assert points({"x": [True, 1, 1.0], "exclude": [{"x": 1}]}) == [{"x": True}]


@pytest.mark.parametrize(
    ("written", "key", "values"),
    [
        ({"zip": [1, 2]}, "zip", [1, 2]),
        ({"zip": [{"a": 1}]}, "zip", [{"a": 1}]),
        ({"exclude": [1, 2]}, "exclude", [1, 2]),
        ({"exclude": {"range": [0, 2]}}, "exclude", [0, 1]),
        ([{"zip": 1}, {"zip": 2}], "zip", [1, 2]),
        ({"range": [0, 8]}, "range", [0, 8]),
    ],
)
def test_hyperparameters_may_be_called_like_words_of_ours(written: object, key: str, values: list[Any]) -> None:
    assert read_sweep(written).values_of(key) == values


def test_values_of_one_key_are_replaced_or_added() -> None:
    sweep = read_sweep({"lr": [1, 2], "seed": [0]}).with_values("lr", [3]).with_values("wd", [5, 6])
    assert list(sweep.points()) == [{"lr": 3, "seed": 0, "wd": 5}, {"lr": 3, "seed": 0, "wd": 6}]


def test_a_key_that_changes_together_with_others_cannot_be_replaced_alone() -> None:
    with pytest.raises(WrongValue, match=r"^lr changes together with wd, b$"):
        read_sweep({"zip": {"wd": [1], "lr": [2], "b": [3]}}).with_values("lr", [3])


def test_a_sweep_knows_its_keys_and_its_size() -> None:
    sweep = read_sweep({"seed": {"range": [0, 40]}, "zip": {"lr": [1, 2, 3], "wd": [1, 2, 3]}})
    assert (sweep.keys, sweep.size) == (["seed", "lr", "wd"], 120)


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ("", "3:3 jobs[0].sweep: must be a mapping of hyperparameters or a list of points, not nothing"),
        ("lr", '3:10 jobs[0].sweep: must be a mapping of hyperparameters or a list of points, not "lr"'),
        ("[]", "3:3 jobs[0].sweep: must not be empty"),
        ("[{lr: 1}, 2]", "3:20 jobs[0].sweep[1]: must be a point, not 2 | write {lr: 0.1, layers: 2}"),
        ("[{}]", "3:11 jobs[0].sweep[0]: must not be empty | write {lr: 0.1, layers: 2}"),
        ("[{lr: .nan}]", "3:16 jobs[0].sweep[0].lr: .nan is not a number that JSON can carry"),
        ("{lr: [1, .inf]}", "3:19 jobs[0].sweep.lr[1]: .inf is not a number that JSON can carry"),
        (
            "{lr: {log_range: [1, 2]}}",
            "3:11 jobs[0].sweep.lr: log_range must be two numbers and a count | write [start,",
        ),
        ("{lr: {log_range: [0, 2, 3]}}", "3:11 jobs[0].sweep.lr: the bounds of a log_range must be more than 0"),
        ("{lr: {log_range: [1, 1, 3]}}", "3:11 jobs[0].sweep.lr: log_range [1, 1, 3] is empty | the stop is not part"),
        ("{lr: {log_range: [1, 2, 0]}}", "3:11 jobs[0].sweep.lr: log_range [1, 2, 0] is empty"),
        (
            "{lr: {log_range: [1, 1.000001, 9]}}",
            "3:11 jobs[0].sweep.lr: log_range [1, 1.000001, 9] has values that 6 digits cannot tell apart | lower the",
        ),
        (
            "{s: {range: [0, 1000000000]}}",
            "3:11 jobs[0].sweep.s: has 1,000,000,000 values, at most 100,000 are allowed",
        ),
        (
            "{a: {range: [0, 1000]}, b: {range: [0, 101]}}",
            "3:3 jobs[0].sweep: has 101,000 points, at most 100,000 are allowed | shorten a list or a range",
        ),
        (
            "{zip: {lr: [1, 2], wd: [3]}}",
            "3:11 jobs[0].sweep.zip: lr has 2 values and wd 1 value: what changes together needs equally many | "
            "without zip, every combination is a job",
        ),
        ("{zip: {}}", "3:11 jobs[0].sweep.zip: must not be empty | write zip: {lr: [0.1, 0.01], wd: [0, 1]}"),
        (
            "{zip: {range: [0, 3]}}",
            "3:11 jobs[0].sweep.zip: takes hyperparameters that change together, not a range | "
            "write the values of a hyperparameter called zip as a list",
        ),
        ("{zip: {lr: []}}", "3:17 jobs[0].sweep.zip.lr: must not be empty"),
        ("{lr: [1], zip: {lr: [1], b: [1]}}", "3:11 jobs[0].sweep.lr: is in zip and beside it | remove one of the two"),
        ("{lr: [1], exclude: [{lr: 2}]}", "3:35 jobs[0].sweep.exclude[0].lr: fits no point of the sweep | write the"),
        (
            "{seed: [1], exclude: [{sed: 1}]}",
            "3:38 jobs[0].sweep.exclude[0].sed: sed is not swept | did you mean seed? (hyperparameters: seed)",
        ),
        (
            "{zip: {a: [1, 2], b: [3, 4]}, exclude: [{a: 1, b: 4}]}",
            "3:50 jobs[0].sweep.exclude[0]: fits no point of the sweep",
        ),
        ("{lr: [1], exclude: [{lr: 1}, 5]}", "3:39 jobs[0].sweep.exclude[1]: must be a point, not 5"),
        ("{lr: [1], exclude: {lr: 1}}", "3:20 jobs[0].sweep.exclude: must be a list of values, not a mapping with lr"),
    ],
)
def test_what_is_wrong_with_a_sweep_and_where(job_problems: Problems, sweep: str, expected: str) -> None:
    (problem,) = job_problems(f"jobs:\n- name: a\n  sweep: {sweep}\n")
    assert problem.startswith(expected)


def test_everything_wrong_with_a_sweep_comes_at_once(job_problems: Problems) -> None:
    found = job_problems("jobs:\n- name: a\n  sweep: {lr: 1, zip: {a: [], b: {range: 3}}, exclude: [{}]}\n")
    assert [problem.split(": ")[0] for problem in found] == [
        "3:15 jobs[0].sweep.lr",
        "3:24 jobs[0].sweep.zip.a",
        "3:31 jobs[0].sweep.zip.b",
        "3:57 jobs[0].sweep.exclude[0]",
    ]
