"""``after``: names that are wrong, cycles, and who waits for whom once sweeps and arrays are expanded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairshare.config.jobs import Dependency, JobSpec, Origin
from fairshare.model import Problem
from fairshare.submit.dependencies import check_dependencies, expand_dependencies
from fairshare.submit.report import Report
from fairshare.submit.sweep import expand

MakeJob = Callable[..., JobSpec]
Problems = Callable[[dict[str, list[str]]], list[Problem]]


@pytest.fixture
def problems(make_job: MakeJob) -> Problems:
    """What is wrong with jobs given as name -> names they come after; each job has a line of its own."""

    def check(jobs: dict[str, list[str]]) -> list[Problem]:
        report = Report()
        written = []
        for line, (name, others) in enumerate(jobs.items(), start=1):
            places = {("after", str(index)): Origin("jobs.yaml", line, 10 + index) for index in range(len(others))}
            after = tuple(map(Dependency, others))
            written.append(make_job(name, after=after, origin=Origin("jobs.yaml", line, 1, keys=places)))
        check_dependencies(report, written)
        return report.problems()

    return check


def test_right_dependencies_are_no_problem(problems: Problems) -> None:
    assert problems({"a": [], "b": ["a"], "c": ["a", "b"], "d": ["c", "a"]}) == []


def test_an_unknown_name_is_told_with_its_place_and_a_suggestion(problems: Problems) -> None:
    (problem,) = problems({"prepare": [], "train": ["prepare", "prepar"]})

    assert (problem.line, problem.column) == (2, 11)
    assert problem.message == 'job "train": it comes after "prepar", and there is no such job'
    assert problem.hint == "did you mean prepare? (jobs: prepare, train)"


def test_a_job_cannot_come_after_itself(problems: Problems) -> None:
    (problem,) = problems({"a": [], "b": ["a", "b"]})

    assert (problem.line, problem.column, problem.message) == (2, 11, 'job "b": it comes after itself')


def test_a_cycle_is_named_with_all_its_jobs_where_it_begins(problems: Problems) -> None:
    (problem,) = problems({"x": ["c"], "a": ["x0", "b"], "b": ["c"], "c": ["a"], "x0": []})

    assert (problem.line, problem.column) == (2, 11)
    assert problem.message == 'job "a": it comes after itself: a -> b -> c -> a'
    assert problem.hint == "remove one of these from its after"


def test_every_cycle_is_told(problems: Problems) -> None:
    found = problems({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]})

    assert [problem.message.split(": ")[-1] for problem in found] == ["a -> b -> a", "c -> d -> c"]


def test_a_long_chain_is_no_cycle(problems: Problems) -> None:
    chain = {f"job{n}": [f"job{n - 1}"] if n else [] for n in range(3_000)}

    assert problems(chain) == []


def test_a_sweep_waits_for_all_jobs_of_a_sweep(make_job: MakeJob) -> None:
    written = [
        make_job("prepare", array=2),
        make_job("train", sweep={"lr": [1, 2]}, after=(Dependency("prepare"),)),
        make_job("report", after=(Dependency("train", "any"), Dependency("prepare", "failed"))),
    ]

    after = expand_dependencies(written, [expand(job) for job in written])

    assert after == [
        (),
        (),
        (((0, 1), "ok"),),
        (((0, 1), "ok"),),
        (((2, 3), "any"), ((0, 1), "failed")),
    ]


def test_jobs_of_one_name_are_waited_for_together(make_job: MakeJob) -> None:
    written = [make_job("a"), make_job("b", after=(Dependency("a"),)), make_job("a")]

    assert expand_dependencies(written, [[job] for job in written])[1] == (((0, 2), "ok"),)
