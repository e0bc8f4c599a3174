from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec
from fairshare.model import UsageError
from fairshare.submit.naming import name_problem
from fairshare.submit.sweep import expand

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


def test_an_array_is_equal_jobs_told_apart_by_their_environment(make_job: MakeJob) -> None:
    job = make_job(array=3, environment={"A": "1"}, checkpoint="s3://bucket/c")

    members = expand(job)

    assert [member.name for member in members] == ["digits-0", "digits-1", "digits-2"]
    assert [member.environment for member in members] == [
        {"A": "1", "FAIRSHARE_ARRAY_INDEX": str(index), "FAIRSHARE_ARRAY_SIZE": "3"} for index in range(3)
    ]
    assert members[1].checkpoint == "s3://bucket/c/digits-1/"
    assert all(member.array is None for member in members)


def test_each_point_of_a_sweep_has_an_array_of_its_own(make_job: MakeJob) -> None:
    job = make_job(sweep={"lr": [1, 2]}, array=2)

    members = [(each.name, each.hyperparameters, each.environment["FAIRSHARE_ARRAY_INDEX"]) for each in expand(job)]

    assert members == [
        ("digits-lr1-0", {"lr": 1}, "0"),
        ("digits-lr1-1", {"lr": 1}, "1"),
        ("digits-lr2-0", {"lr": 2}, "0"),
        ("digits-lr2-1", {"lr": 2}, "1"),
    ]


def test_excluded_points_do_not_become_jobs(make_job: MakeJob) -> None:
    assert names(make_job(sweep={"lr": [1, 2], "s": [0, 1], "exclude": [{"lr": 1, "s": 0}]})) == [
        "digits-lr1-s1",
        "digits-lr2-s0",
        "digits-lr2-s1",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sweep": {"lr": [1], "exclude": [{"lr": 1}]}}, "every point of the sweep is excluded"),
        (
            {"sweep": {"s": {"range": [0, 1001]}}, "array": 100},
            "it is 100,100 jobs, at most 100,000 are allowed",
        ),
        (
            {"array": 2, "environment": {"FAIRSHARE_ARRAY_SIZE": "3"}},
            "the environment of an array cannot set FAIRSHARE_ARRAY_SIZE",
        ),
    ],
)
def test_what_cannot_be_expanded_is_refused(make_job: MakeJob, changes: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand(make_job(**changes))
    assert caught.value.message == message


def test_c46_a_swept_secret_is_in_no_name(make_job: MakeJob) -> None:
    jobs = expand(make_job("digits", sweep={"api_key": ["pl4nted_1", "pl4nted_2"], "lr": [1]}))

    assert [job.name for job in jobs] == ["digits-api_key-lr1", "digits-api_key-lr1-2"]
    assert [job.hyperparameters["api_key"] for job in jobs] == ["pl4nted_1", "pl4nted_2"]
