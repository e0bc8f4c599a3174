from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec
from fairshare.model import UsageError
from fairshare.submit.naming import name_problem
from fairshare.submit.sweep import describe_grid, expand

MakeJob = Callable[..., JobSpec]


def names(job: JobSpec) -> list[str]:
    return [point.name for point in expand(job)]


def test_a_job_without_a_sweep_is_itself(make_job: MakeJob) -> None:
    job = make_job()

    assert expand(job) == [job]


def test_the_last_hyperparameter_changes_fastest(make_job: MakeJob) -> None:
    job = make_job(sweep={"lr": [0.1, 0.01], "seed": {"range": [0, 3]}}, hyperparameters={"epochs": 5, "lr": 9})

    points = expand(job)

    assert [point.name for point in points] == [
        "digits-lr0-1-seed0",
        "digits-lr0-1-seed1",
        "digits-lr0-1-seed2",
        "digits-lr0-01-seed0",
        "digits-lr0-01-seed1",
        "digits-lr0-01-seed2",
    ]
    assert points[4].hyperparameters == {"epochs": 5, "lr": 0.01, "seed": 1}
    assert all(point.sweep is None for point in points)


def test_c09_the_written_job_is_not_changed(make_job: MakeJob) -> None:
    job = make_job(sweep={"lr": [1, 2]}, hyperparameters={"opt": {"name": "adamw"}})

    first, second = expand(job)

    assert job.hyperparameters == {"opt": {"name": "adamw"}}
    assert first.hyperparameters["opt"] == second.hyperparameters["opt"] == {"name": "adamw"}


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ({"range": [0, 3]}, [0, 1, 2]),
        ({"range": [0, 8, 3]}, [0, 3, 6]),
        ({"range": [3, 0, -1]}, [3, 2, 1]),
        ({"range": (2, 4)}, [2, 3]),
    ],
)
def test_ranges_are_half_open(make_job: MakeJob, written: Any, values: list[int]) -> None:
    assert [point.hyperparameters["seed"] for point in expand(make_job(sweep={"seed": written}))] == values


def test_labels_are_readable_and_legal(make_job: MakeJob) -> None:
    values = [1e-05, -0.5, 1e20, True, None, "a b/c", [64, 64], {"name": "adamw"}, "αβ", ""]

    found = names(make_job(sweep={"x": values}))

    assert found == [
        "digits-x1e-05",
        "digits-xm0-5",
        "digits-x1e20",
        "digits-xtrue",
        "digits-xnull",
        "digits-xa-b-c",
        "digits-x64-64",
        "digits-xname-adamw",
        "digits-x",
        "digits-x-2",
    ]
    assert [name_problem(name) for name in found] == [None] * len(found)


def test_equal_labels_are_made_unique(make_job: MakeJob) -> None:
    assert names(make_job(sweep={"lr": ["a/b", "a b", "a/b"]})) == ["digits-lra-b", "digits-lra-b-2", "digits-lra-b-3"]


def test_each_point_has_checkpoints_of_its_own(make_job: MakeJob) -> None:
    job = make_job(sweep={"seed": [1, 2]}, checkpoint="s3://bucket/checkpoints/")

    assert [point.checkpoint for point in expand(job)] == [
        "s3://bucket/checkpoints/digits-seed1/",
        "s3://bucket/checkpoints/digits-seed2/",
    ]


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"lr": []}, 'job "digits": sweep of lr has no values'),
        ({"seed": {"range": [5, 5]}}, 'job "digits": sweep of seed has no values'),
        (
            {"seed": {"range": [1]}},
            "expected {range: [start, stop]} or {range: [start, stop, step]} with whole numbers",
        ),
        ({"seed": {"range": [0, 1.5]}}, "with whole numbers"),
        ({"seed": {"range": [0, 4, 0]}}, "with whole numbers"),
        ({"seed": {"range": [0, 4], "step": 2}}, "with whole numbers"),
        ({"seed": 4}, "expected a list of values or {range: [start, stop]}, not 4"),
        ({"seed": "abc"}, "expected a list of values or {range: [start, stop]}, not 'abc'"),
        ({"a": {"range": [0, 1000]}, "b": {"range": [0, 101]}}, "its sweep has 101,000 points, at most 100,000"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(make_job: MakeJob, sweep: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand(make_job(sweep=sweep))
    assert message in caught.value.message


def test_the_grid_is_described_for_people() -> None:
    assert describe_grid({"lr": [0.1, 0.01], "seed": {"range": [0, 40]}}) == "lr 2 x seed 40"
