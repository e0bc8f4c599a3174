"""Problems are told once, where the value was written, and without what may be secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from fairshare.config.jobs import JobSpec, Origin
from fairshare.submit.report import Finding, Report

MakeJob = Callable[..., JobSpec]
Keys = tuple[str, ...]


def origin(places: Mapping[Keys, int], line: str = "") -> Origin:
    """A job at line 1 whose values stand at the given lines."""
    return Origin("jobs.yaml", 1, 1, "", {key: Origin("jobs.yaml", at, 7, line) for key, at in places.items()})


@pytest.mark.parametrize(
    ("at", "line"),
    [
        (("hyperparameters", "lr"), 20),
        (("hyperparameters", "seed"), 30),
        (("hyperparameters", "other"), 40),
        (("environment", "X"), 50),
        (("tags", "team"), 1),
        (("instance_count",), 60),
        (("capacity",), 60),
        (("entry",), 70),
        ((), 1),
    ],
)
def test_a_problem_stands_at_the_most_exact_place_that_is_known(make_job: MakeJob, at: Keys, line: int) -> None:
    places: dict[Keys, int] = {
        ("hyperparameters",): 10,
        ("hyperparameters", "lr"): 20,
        ("sweep",): 28,
        ("sweep", "seed"): 30,
        ("training_job", "HyperParameters"): 40,
        ("environment",): 50,
        ("compute", "instance_count"): 60,
        ("source", "entry"): 70,
    }
    report = Report()

    report.add(make_job(origin=origin(places)), Finding("wrong", at))

    (problem,) = report.problems()
    assert (problem.line, problem.key) == (line, ".".join(at))


def test_jobs_with_the_same_finding_share_a_problem(make_job: MakeJob) -> None:
    report = Report()
    for number in range(240):
        report.add_all(make_job(f"digits-{number}"), [Finding("too long", ("share",)), Finding(f"odd {number % 2}")])

    assert [problem.message for problem in report.problems()] == [
        'job "digits-0" and 119 more: odd 0',
        'job "digits-0" and 239 more: too long',
        'job "digits-1" and 119 more: odd 1',
    ]


def test_only_some_errors_keep_a_payload_from_being_built(make_job: MakeJob) -> None:
    report = Report()
    job = make_job()

    report.warning(job, "look out")
    report.error(job, "unknown share", key="share")
    report.add_all(job, [Finding("odd", severity="warning")], stops_build=True)
    assert report.can_build(job)

    report.error(job, "no image", key="image", stops_build=True)
    assert not report.can_build(job)
    assert report.can_build(replace(job, origin=Origin("other.yaml", 1, 1)))
