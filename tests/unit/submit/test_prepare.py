from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import (
    AutoWaves,
    Dependency,
    JobSpec,
    LaunchPeak,
    Limits,
    Origin,
    Resources,
    SecretRef,
    WavesSpec,
)
from fairshare.config.project import Project
from fairshare.config.times import Window
from fairshare.model import CredentialsError, InfeasibleError, InvalidFileError, UsageError
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.naming import SURVIVING
from fairshare.submit.ports import LeftOut, SourceSummary
from fairshare.submit.prepare import SubmitOptions, prepare
from fairshare.submit.requests import RunIdentity
from fairshare.submit.resolve import Overrides, QueueFacts
from fairshare.submit.rules import RunRules
from fairshare.submit.waves import Wave
from fairshare.submit.windows import Gate

MakeJob = Callable[..., JobSpec]
Plan = Callable[..., SubmitPlan]
T0 = 1_764_500_000_000


@pytest.fixture
def plan(project: Project, payloads: Any, identity: RunIdentity) -> Plan:
    def make(
        *specs: JobSpec, project: Project | None = project, observed: tuple[QueueFacts, ...] = (), **options: Any
    ) -> Any:
        return prepare(
            specs,
            identity=options.pop("identity", identity),
            payloads=payloads,
            project=project,
            observed_queues=observed,
            options=SubmitOptions(**options),
        )

    return make


def test_one_job_becomes_one_request(plan: Plan, make_job: MakeJob) -> None:
    submit_plan = plan(make_job(priority=0, max_runtime=21_600, tags={"team": "ml"}))

    (job,) = submit_plan.jobs
    assert (job.index, job.wave) == (0, 1)
    assert job.request.job_name.startswith("digits-")
    assert job.request.job_queue == "search-ml-gpu"
    assert (job.request.share_identifier, job.request.scheduling_priority) == ("HIGHPRI", 0)
    assert job.request.attempt_duration_seconds == 21_600
    assert job.request.tags == {"sdk": "yes", "team": "ml", "fairshare:run": "lunar-otter-3f2a"}
    payload = json.loads(job.request.payload)
    assert payload["TrainingJobName"] == job.request.job_name
    assert payload["StoppingCondition"] == {"MaxRuntimeInSeconds": 21_600}
    assert submit_plan.waves == (Wave(1, T0, 0, 1),)
    assert submit_plan.warnings == ()


def test_a_sweep_in_waves(plan: Plan, make_job: MakeJob) -> None:
    job = make_job(sweep={"lr": [0.1, 0.01], "seed": {"range": [0, 3]}})

    submit_plan = plan(job, make_job("last"), waves=WavesSpec(size=3, interval=90))

    assert [planned.wave for planned in submit_plan.jobs] == [1, 1, 1, 2, 2, 2, 3]
    assert [wave.starts_at for wave in submit_plan.waves] == [T0, T0 + 90_000, T0 + 180_000]
    assert [planned.request.job_name[:-7] for planned in submit_plan.jobs][:2] == [
        "digits-lr0-1-seed0",
        "digits-lr0-1-seed1",
    ]
    hyperparameters = [json.loads(planned.request.payload)["HyperParameters"] for planned in submit_plan.jobs]
    assert hyperparameters[4] == {"lr": "0.01", "seed": "1"}
    assert len({planned.request.client_token for planned in submit_plan.jobs}) == 7
    assert [len(submit_plan.jobs_of(wave)) for wave in submit_plan.waves] == [3, 3, 1]


def test_a_start_in_the_future(plan: Plan, make_job: MakeJob) -> None:
    assert plan(make_job(), start_at=T0 + 5_000).waves == (Wave(1, T0 + 5_000, 0, 1, gap=0),)


def test_equal_content_is_uploaded_once(plan: Plan, make_job: MakeJob) -> None:
    submit_plan = plan(make_job(sweep={"seed": {"range": [0, 50]}}))

    assert [upload.s3_uri for upload in submit_plan.uploads] == ["s3://bucket/fairshare/source/abc/train.py"]


def test_jobs_that_differ_in_scheduling_only_are_jobs_of_their_own(plan: Plan, make_job: MakeJob) -> None:
    trainer = object()
    jobs = [make_job(trainer=trainer, share=share, priority=n) for n, share in enumerate(["HIGHPRI", "LOWPRI"] * 5)]

    submit_plan = plan(*jobs, make_job(trainer=object()), make_job(trainer=trainer, environment={"A": "1"}))

    assert len({planned.request.job_name for planned in submit_plan.jobs}) == 12
    assert [planned.request.scheduling_priority for planned in submit_plan.jobs][:10] == list(range(10))


def test_two_runs_in_the_same_instant_share_no_name_and_no_token(plan: Plan, make_job: MakeJob) -> None:
    runs = [RunIdentity(run_id, T0, "us-west-2", "1") for run_id in ("lunar-otter-3f2a", "lunar-otter-3f2b")]

    (one,), (other,) = (plan(make_job(), identity=identity).jobs for identity in runs)

    assert one.request.job_name != other.request.job_name
    assert one.request.client_token != other.request.client_token
    names = [json.loads(job.request.payload)["TrainingJobName"][:SURVIVING] for job in (one, other)]
    assert names[0] != names[1]


def test_the_same_run_is_the_same_requests(plan: Plan, make_job: MakeJob) -> None:
    job = make_job(sweep={"lr": [0.1, 0.01]})

    assert plan(job).jobs == plan(job).jobs


def test_all_problems_of_all_jobs_are_told_at_once(plan: Plan, make_job: MakeJob, payloads: Any) -> None:
    """Of one job, too: a wrong share does not hide that a value is too long."""
    broken = make_job(
        "bad",
        share="nope",
        priority=100,
        hyperparameters={"text": "x" * 11_000},
        tags={"git": "#12"},
        origin=Origin("jobs.yaml", 9, 1),
    )
    nowhere = make_job("nowhere", queue="gone", environment={"A-B": ""}, origin=Origin("jobs.yaml", 5, 1))
    sweep = make_job("grid", sweep={"lr": [1], "exclude": [{"lr": 1}]}, origin=Origin("jobs.yaml", 7, 1))
    imageless = make_job("imageless", image=None, tags={"": ""}, origin=Origin("jobs.yaml", 11, 1))

    with pytest.raises(InvalidFileError) as caught:
        plan(broken, nowhere, sweep, imageless)

    assert {(problem.line, problem.key) for problem in caught.value.problems} == {
        (5, "queue"),
        (5, "environment.A-B"),
        (7, "sweep"),
        (9, "hyperparameters.text"),
        (9, "payload"),
        (9, "priority"),
        (9, "share"),
        (9, "tags.git"),
        (11, "image"),
        (11, "tags."),
    }
    assert [job.name for job in payloads.built] == ["bad", "nowhere"], "without an image there is nothing to build"


@pytest.mark.parametrize("cause", ["no image", "refused by the builder"])
def test_a_job_that_cannot_be_built_is_checked_as_far_as_it_is_written(
    plan: Plan, make_job: MakeJob, payloads: Any, cause: str
) -> None:
    payloads.error = UsageError("src/pipe: a pipe") if cause != "no image" else None
    job = make_job(
        image=None if cause == "no image" else "111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1",
        hyperparameters={"note": "x" * 2501, "lr": 0.1},
        environment={"A-B": SecretRef(from_env="A"), "MODE": "fast"},
        tags={"git": "#12"},
        output="s3://My_Bucket/x",
        training_job={"EnableNetworkIsolation": True},
    )

    with pytest.raises(InvalidFileError) as caught:
        plan(job)

    expected = {"environment.A-B", "hyperparameters.note", "image", "output", "tags.git"}
    assert {problem.key for problem in caught.value.problems} - {""} == expected


def test_a_sweep_shows_a_problem_of_its_points_once(plan: Plan, make_job: MakeJob) -> None:
    places = {("sweep", "note"): Origin("jobs.yaml", 8, 20, "    sweep: {note: [...], seed: ...}")}
    job = make_job(
        sweep={"note": ["x" * 2501, "ok"], "seed": {"range": [0, 50]}}, origin=Origin("jobs.yaml", 3, 5, keys=places)
    )

    with pytest.raises(InvalidFileError) as caught:
        plan(job)

    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (8, 20)
    assert problem.message.endswith("and 49 more: hyperparameter note has 2501 characters, at most 2500 are allowed")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("hyperparameter note: its value holds a '", 11),
        ("hyperparameter note is nan: JSON has no NaN and no infinity", 11),
        ("environment HF: the variable HF is not set here", 12),
        ("input train: no such directory", 13),
        ("entry train.py is not in src", 14),
        ("{source}/pipe: a pipe, a socket or a device", 15),
        ("the SageMaker SDK refuses the job", 3),
    ],
)
def test_a_refusal_of_the_payload_builder_stands_at_the_value_it_names(
    plan: Plan, make_job: MakeJob, payloads: Any, source: Path, message: str, line: int
) -> None:
    keys = {
        ("hyperparameters", "note"): Origin("jobs.yaml", 11, 1),
        ("environment", "HF"): Origin("jobs.yaml", 12, 1),
        ("inputs", "train"): Origin("jobs.yaml", 13, 1),
        ("source", "entry"): Origin("jobs.yaml", 14, 1),
        ("source",): Origin("jobs.yaml", 15, 1),
    }
    message = message.format(source=source)
    payloads.error = UsageError(message)

    with pytest.raises(InvalidFileError) as caught:
        plan(make_job(origin=Origin("jobs.yaml", 3, 5, keys=keys)))

    assert [(problem.line, problem.message) for problem in caught.value.problems] == [
        (line, f'job "digits": {message}')
    ]


def test_c13_a_job_carries_the_tags_of_its_project(plan: Plan, make_job: MakeJob, project: Project) -> None:
    tagged = project.model_copy(update={"tags": {"cost-center": "42", "team": "search"}})

    (job,) = plan(make_job(tags={"team": "ml"}), project=tagged).jobs

    assert job.request.tags == {"sdk": "yes", "cost-center": "42", "team": "ml", "fairshare:run": "lunar-otter-3f2a"}


def test_c13_tags_are_counted_after_the_merge(plan: Plan, make_job: MakeJob, project: Project) -> None:
    tagged = project.model_copy(update={"tags": {f"p{n}": "" for n in range(24)}})
    own = {f"t{n}": "" for n in range(24)}

    assert len(plan(make_job(tags=own), project=tagged).jobs[0].request.tags) == 50
    with pytest.raises(InvalidFileError, match="it has 51 tags with those of the project, the SDK and the run"):
        plan(make_job(tags={**own, "one-more": ""}), project=tagged)


def test_jobs_that_differ_in_tags_only_keep_their_own(plan: Plan, make_job: MakeJob) -> None:
    trainer = object()
    jobs = [make_job(trainer=trainer, tags={"fold": "1"}), make_job(trainer=trainer, tags={"seed": "2"})]

    tags = [job.request.tags for job in plan(*jobs).jobs]

    assert [sorted(each) for each in tags] == [["fairshare:run", "fold", "sdk"], ["fairshare:run", "sdk", "seed"]]


@pytest.mark.parametrize("error", [UsageError("the note has a '", hint="leave it out"), InfeasibleError("no ray yet")])
def test_what_the_payload_builder_refuses_is_a_problem_of_the_job(
    plan: Plan, make_job: MakeJob, payloads: Any, error: Any
) -> None:
    payloads.error = error

    with pytest.raises(InvalidFileError) as caught:
        plan(make_job(), make_job("other", origin=Origin("jobs.yaml", 8, 5)))

    assert [str(problem) for problem in caught.value.problems] == [
        f'jobs.yaml:3:5: error: job "digits": {error.message}',
        f'jobs.yaml:8:5: error: job "other": {error.message}',
    ]
    assert caught.value.problems[0].hint == (error.hint or "")


def test_a_place_that_the_builder_names_is_not_named_twice(plan: Plan, make_job: MakeJob, payloads: Any) -> None:
    payloads.error = UsageError("jobs.yaml:3: job digits: no image\njobs.yaml:3: job digits: no type")

    with pytest.raises(InvalidFileError) as caught:
        plan(make_job())

    assert [problem.message for problem in caught.value.problems] == ['job "digits": no image', 'job "digits": no type']


def test_errors_that_are_not_about_a_job_stop_at_once(plan: Plan, make_job: MakeJob, payloads: Any) -> None:
    payloads.error = CredentialsError("no credentials")

    with pytest.raises(CredentialsError):
        plan(make_job())


def test_warnings_do_not_stop(
    plan: Plan, make_job: MakeJob, payloads: Any, project_with: Callable[..., Project]
) -> None:
    payloads.warnings = ("it may run 86400 s",)

    submit_plan = plan(make_job(instance_count=9), make_job("b"), project=project_with(reservation=50))

    assert [str(problem) for problem in submit_plan.warnings] == [
        'jobs.yaml:3:5: warning: job "digits" and 1 more: it may run 86400 s',
        'jobs.yaml:3:5: warning: job "digits": it needs 9 instances, and with compute_reservation 50 a lone share of '
        "queue gpu may use 8 of 16: it starts only while 2 shares are active",
    ]


def test_c16_a_job_that_can_never_start_is_infeasible(plan: Plan, make_job: MakeJob) -> None:
    with pytest.raises(InfeasibleError, match="it needs 17 instances at once and queue gpu has 16"):
        plan(make_job(instance_count=17))


def test_c17_flags_and_defaults_meet_the_queue(
    plan: Plan, make_job: MakeJob, project_with: Callable[..., Project]
) -> None:
    project = project_with(defaults={"queue": "batch", "share": "LOWPRI", "priority": 10})
    job = make_job(queue=None, share=None, priority=None, instance_type="ml.c5.2xlarge")

    (planned,) = plan(job, project=project).jobs

    assert planned.request.job_queue == "search-ml-batch"
    assert (planned.request.share_identifier, planned.request.scheduling_priority) == (None, None)
    with pytest.raises(InvalidFileError, match=r"queue batch is first-in-first-out and takes no share \(HIGHPRI\)"):
        plan(job, project=project, overrides=Overrides(share="HIGHPRI"))


def test_a_queue_of_others_needs_no_project(plan: Plan, make_job: MakeJob) -> None:
    arn = "arn:aws:batch:us-west-2:111122223333:job-queue/theirs"
    facts = QueueFacts(arn, "theirs", is_fair_share=True, capacity=4, weights={"TEAM*": "0.5"})

    (planned,) = plan(make_job(queue=None, share="TEAM1"), project=None, observed=(facts,)).jobs

    assert planned.request.job_queue == arn


def test_an_unknown_share_is_sent_when_that_is_allowed(plan: Plan, make_job: MakeJob) -> None:
    (planned,) = plan(make_job(share="NEW"), allow_unknown_share=True).jobs

    assert planned.request.share_identifier == "NEW"


def test_c20_a_time_limit_for_attempts(plan: Plan, make_job: MakeJob) -> None:
    submit_plan = plan(make_job(max_runtime=7_200), attempt_timeout=3_600)

    assert submit_plan.jobs[0].request.attempt_duration_seconds == 3_600
    assert "Batch ends an attempt after 3600 s" in str(submit_plan.warnings[0])


def test_c46_secrets_are_sent_and_not_shown(plan: Plan, make_job: MakeJob) -> None:
    job = make_job(environment={"CONFIG": SecretRef(from_env="CONFIG"), "MODE": "fast"})

    submit_plan = plan(job)

    assert json.loads(submit_plan.jobs[0].request.payload)["Environment"]["CONFIG"] == "s3cret"
    assert submit_plan.jobs[0].secrets == {"CONFIG": SecretRef(from_env="CONFIG")}
    assert "s3cret" not in json.dumps(submit_plan.to_json())


def test_c14_the_plan_tells_what_of_each_source_is_uploaded(
    plan: Plan, make_job: MakeJob, payloads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SourceSummary(
        "/src", "s3://bucket/fairshare/source/abc/", 2, 12, (LeftOut(".git/", "never source: .git"),)
    )
    build = payloads.build
    monkeypatch.setattr(payloads, "build", lambda spec: replace(build(spec), source=source))

    submit_plan = plan(make_job(sweep={"seed": {"range": [0, 4]}}))

    assert submit_plan.sources == (source,)
    assert submit_plan.to_json()["sources"] == [
        {
            "directory": "/src",
            "s3_uri": "s3://bucket/fairshare/source/abc/",
            "files": 2,
            "size": 12,
            "left_out": ({"path": ".git/", "reason": "never source: .git"},),
        }
    ]


def test_no_jobs_at_all(plan: Plan) -> None:
    with pytest.raises(UsageError, match="there are no jobs to submit"):
        plan()


def test_planning_writes_and_uploads_nothing(plan: Plan, make_job: MakeJob, payloads: Any, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))

    plan(make_job())

    assert payloads.uploaded == []
    assert sorted(tmp_path.rglob("*")) == before


def test_a_thousand_jobs_are_planned_quickly(plan: Plan, make_job: MakeJob) -> None:
    """A guard against quadratic work: naming, merging of problems, waves."""
    submit_plan = plan(make_job(sweep={"seed": {"range": [0, 2_000]}}), waves=WavesSpec(size=10, interval=1))

    assert len(submit_plan.jobs) == 2_000
    assert len(submit_plan.waves) == 200


def test_what_a_job_comes_after_is_known_by_its_place_in_the_run(plan: Plan, make_job: MakeJob) -> None:
    jobs = plan(
        make_job("report", after=(Dependency("train"), Dependency("prepare", "any"))),
        make_job("train", sweep={"seed": [0, 1]}, after=(Dependency("prepare"),)),
        make_job("prepare"),
    ).jobs

    assert [job.after for job in jobs] == [
        (((1, 2), "ok"), ((3,), "any")),
        (((3,), "ok"),),
        (((3,), "ok"),),
        (),
    ]


def test_a_dependency_that_cannot_be_is_told_with_all_other_problems(plan: Plan, make_job: MakeJob) -> None:
    with pytest.raises(InvalidFileError) as caught:
        plan(make_job("train", after=(Dependency("prepair"),)), make_job("prepare", share="NOBODY"))

    messages = " ".join(problem.message for problem in caught.value.problems)
    assert 'it comes after "prepair", and there is no such job' in messages
    assert "NOBODY" in messages


def test_what_holds_a_run_back_is_in_its_plan(plan: Plan, make_job: MakeJob, project: Project) -> None:
    window = Window("20:00", "06:00", tuple(range(7)), "UTC")
    peak = LaunchPeak(memory=6 << 30, read=1, seconds=90)

    submit_plan = plan(
        make_job(resources=Resources(launch_peak=peak)),
        project=project.model_copy(update={"limits": Limits(concurrent_launches=8, memory=1 << 40)}),
        waves=AutoWaves(first=2),
        start_at=T0 + 60_000,
        window=window,
        limits=Limits(concurrent_launches=4),
        max_in_flight=40,
    )

    assert submit_plan.rules == RunRules(
        Gate(T0 + 60_000, window), 40, AutoWaves(first=2), Limits(concurrent_launches=4, memory=1 << 40)
    )
    assert submit_plan.jobs[0].launch_peak == peak
    assert [wave.count for wave in submit_plan.waves] == [1]
    assert submit_plan.warnings == ()


def test_limits_without_auto_waves_are_warned_about(plan: Plan, make_job: MakeJob, project: Project) -> None:
    (warning,) = plan(make_job(), limits=Limits(concurrent_launches=4)).warnings

    assert warning.message == "limits are for launches that are paced: without `waves: auto` they change nothing"
    assert plan(make_job(), project=project.model_copy(update={"limits": Limits(memory=1)})).warnings == (), (
        "others may use them"
    )


def test_limits_that_nobody_declared_anything_for_are_warned_about(plan: Plan, make_job: MakeJob) -> None:
    (warning,) = plan(make_job(), waves=AutoWaves(), limits=Limits(memory=1 << 30)).warnings

    assert warning.message.startswith("limits.memory: 1 of 1 jobs do not say their resources.launch_peak.memory")


def test_no_jobs_in_flight_are_too_few(plan: Plan, make_job: MakeJob) -> None:
    with pytest.raises(UsageError, match="0 jobs in flight are too few") as caught:
        plan(make_job(), max_in_flight=0)
    assert caught.value.hint == "give --max-in-flight 1 or more, or leave it out"
