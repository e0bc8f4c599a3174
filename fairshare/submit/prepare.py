"""From what a user asked for to a `SubmitPlan`: nothing is written or sent, and every problem is told at once.

``resolve -> check -> expand sweeps -> build payloads -> check -> name -> requests -> check -> waves and rules``. A job
with a problem goes on as far as it can, so that a user who has corrected a share does not then learn of a value that is
too long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from fairshare.config.jobs import AutoWaves, JobSpec, Limits, SecretRef, WavesSpec
from fairshare.config.times import Window
from fairshare.model import InfeasibleError, NotFoundError, Problem, UsageError
from fairshare.submit.checks import (
    check_alternative,
    check_job,
    check_payload,
    check_quota,
    check_request,
    check_written,
)
from fairshare.submit.dependencies import check_dependencies, expand_dependencies
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.launches import launch_warnings
from fairshare.submit.launching import launch_of
from fairshare.submit.naming import assign_names
from fairshare.submit.only_failed import only
from fairshare.submit.payload_target import build_from_payload
from fairshare.submit.ports import BuiltPayload, Payloads, SourceSummary, Upload
from fairshare.submit.report import Finding, Report, raise_errors
from fairshare.submit.requests import Alternative, PlannedJob, RunIdentity, build_request, moved, tags_of
from fairshare.submit.resolve import Overrides, QueueFacts, Queues, resolve
from fairshare.submit.rules import RunRules, check_in_flight
from fairshare.submit.sweep import expand
from fairshare.submit.waves import Wave, plan_waves
from fairshare.submit.windows import Gate

if TYPE_CHECKING:
    from fairshare.config.project import Project


_NAMED_VALUE: Final = re.compile(r"(?P<what>hyperparameter|environment|input) (?P<name>\S+?)(?=:| is )")
"""How a maker of payloads names the value that it refuses."""

_SECTIONS: Final = {"hyperparameter": "hyperparameters", "environment": "environment", "input": "inputs"}


@dataclass(frozen=True)
class SubmitOptions:
    """What the command line says about a submission as a whole."""

    overrides: Overrides = field(default_factory=Overrides)
    waves: WavesSpec | AutoWaves | None = None
    """None = all at once. Its times count only as ``start_at`` and ``window`` here."""
    start_at: int | None = None
    """When the first wave starts, ms since the epoch; None = at the run's ``created_at``."""
    window: Window | None = None
    """When waves may start; None = at any time."""
    limits: Limits = field(default_factory=Limits)
    """What the job file says; the project's fill what it does not say."""
    max_in_flight: int | None = None
    """Jobs of the run between their acceptance and their end; None = any number."""
    allow_unknown_share: bool = False
    only: frozenset[str] | None = None
    """Labels of the jobs to send (`fairshare.submit.only_failed`); None = all of them."""
    quotas: Mapping[str, int] = field(default_factory=dict)
    """Instances of each type that training jobs of the account may use at once, as far as they are known."""
    attempt_timeout: int | None = None
    """Seconds after which Batch ends an attempt; None = as long as the training job itself may run."""


def prepare(
    specs: Sequence[JobSpec],
    *,
    identity: RunIdentity,
    payloads: Payloads,
    project: Project | None = None,
    observed_queues: Sequence[QueueFacts] = (),
    options: SubmitOptions | None = None,
) -> SubmitPlan:
    """Return the plan of a submission.

    Args:
        specs: jobs as written; those with a sweep become many.
        identity: id, time, region and account of the run.
        payloads: makes training requests; only `Payloads.build` is called.
        project: the configuration; None when jobs name queues of others only.
        observed_queues: queues that are not in the project, as the caller found them on AWS.
        options: flags.

    Raises:
        UsageError: no jobs at all, or flags that make no sense.
        InvalidFileError: problems, of all jobs together.
        InfeasibleError: jobs that are larger than their environment, and nothing else wrong.
    """
    options = options or SubmitOptions()
    if not specs:
        raise UsageError("there are no jobs to submit", hint="name a script, a job file or module.py:name")
    queues = Queues(project, observed_queues)
    report = Report()
    written = [_with_project_tags(job, project) for job in resolve(specs, project, options.overrides, queues)]
    _check_as_written(report, written, queues, identity, options)
    expanded = [_points(report, job) if report.can_build(job) else [] for job in written]
    if options.only is not None and any(expanded):
        expanded = only(expanded, options.only, identity.run_id)
    jobs = [point for points in expanded for point in points]
    waves = _waves(len(jobs), identity, options)
    builder = _Builder(report, queues, payloads, identity, options)
    planned = builder.plan(jobs, waves)
    problems = report.problems()
    raise_errors(problems)
    after = expand_dependencies(written, expanded)
    planned = [replace(job, after=after[job.index]) for job in planned]
    rules = _rules(project, options)
    warnings = (*problems, *_rule_warnings(planned, rules, identity, options))
    uploads, sources = tuple(builder.uploads.values()), tuple(builder.sources.values())
    capacities = _capacities(planned, queues)
    return SubmitPlan(identity, waves, tuple(planned), uploads, warnings, sources, rules, capacities)


def _capacities(jobs: Sequence[PlannedJob], queues: Queues) -> dict[str, int]:
    """Return, by name of each queue that is known, the instances that the jobs may hold there at once."""
    shares: dict[str, set[str | None]] = {}
    for job in jobs:
        shares.setdefault(job.request.job_queue, set()).add(job.request.quota_share)
    return {
        queue.name: queue.capacity_for(asked)
        for name, asked in shares.items()
        if (queue := queues.find(name)) is not None
    }


def _check_as_written(
    report: Report, jobs: Sequence[JobSpec], queues: Queues, identity: RunIdentity, options: SubmitOptions
) -> None:
    for job in jobs:
        check_job(report, job, queues, region=identity.region, allow_unknown_share=options.allow_unknown_share)
        if not report.can_build(job):
            check_written(report, job, queues.find(job.queue or ""), region=identity.region)
    check_dependencies(report, jobs)


def _with_project_tags(job: JobSpec, project: Project | None) -> JobSpec:
    """A job carries the tags of its project as every resource does; its own win."""
    return replace(job, tags={**project.tags, **job.tags}) if project is not None and project.tags else job


def _points(report: Report, job: JobSpec) -> list[JobSpec]:
    try:
        return expand(job)
    except UsageError as error:
        report.error(job, error.message, key="sweep", hint=error.hint or "")
        return []


def _waves(count: int, identity: RunIdentity, options: SubmitOptions) -> tuple[Wave, ...]:
    start_at = options.start_at if options.start_at is not None else identity.created_at
    fixed = options.waves if isinstance(options.waves, WavesSpec) else None
    size, interval = (fixed.size, fixed.interval) if fixed is not None else (None, 0)
    return plan_waves(count, size, interval, start_at, options.window, timed=options.start_at is not None)


def _rules(project: Project | None, options: SubmitOptions) -> RunRules:
    check_in_flight(options.max_in_flight)
    return RunRules(
        gate=Gate(options.start_at, options.window),
        max_in_flight=options.max_in_flight,
        auto=options.waves if isinstance(options.waves, AutoWaves) else None,
        limits=options.limits if project is None else options.limits.over(project.limits),
    )


def _rule_warnings(
    jobs: Sequence[PlannedJob], rules: RunRules, identity: RunIdentity, options: SubmitOptions
) -> list[Problem]:
    if rules.auto is not None:
        texts = launch_warnings([launch_of(job) for job in jobs], rules.limits)
    elif options.limits != Limits():
        texts = ["limits are for launches that are paced: without `waves: auto` they change nothing"]
    else:
        texts = []
    return [Problem(identity.job_file or "command line", 0, 0, text, severity="warning") for text in texts]


@dataclass
class _Builder:
    """Builds the requests of a run, noting in the report what is wrong with them."""

    report: Report
    queues: Queues
    payloads: Payloads
    identity: RunIdentity
    options: SubmitOptions
    uploads: dict[str, Upload] = field(default_factory=dict)
    """What the planned jobs want uploaded, by URI."""
    sources: dict[str, SourceSummary] = field(default_factory=dict)
    """The code of the planned jobs, by URI."""

    def plan(self, jobs: Sequence[JobSpec], waves: Sequence[Wave]) -> list[PlannedJob]:
        """Return the planned jobs; fills `uploads` and `sources`."""
        wave_of = [wave.number for wave in waves for _ in range(wave.count)]
        names = assign_names(self.identity.run_id, [job.name for job in jobs])
        planned: list[PlannedJob] = []
        for index, written in enumerate(jobs):
            job, *others = self.queues.by_queue(written)
            built = self._build(job)
            queue = self.queues.find(job.queue or "")
            if built is None:
                check_written(self.report, job, queue, region=self.identity.region)
                continue
            tags = tags_of(job, built, self.identity.run_id)
            check_payload(self.report, job, built.payload, tags, queue=queue, region=self.identity.region)
            check_quota(self.report, job, built.payload, self.options.quotas)
            if queue is None:
                continue
            try:
                request = build_request(
                    job,
                    built,
                    queue=queue,
                    names=names[index],
                    run_id=self.identity.run_id,
                    index=index,
                    attempt_timeout=self.options.attempt_timeout,
                )
            except UsageError as error:
                self.report.error(job, error.message, hint=error.hint or "")
                continue
            check_request(self.report, job, request)
            peak = job.resources.launch_peak if job.resources is not None else None
            new = PlannedJob(index, wave_of[index], request, _secrets(job, built), launch_peak=peak)
            planned.append(self._with_alternatives(new, job, others))
            self.uploads |= {upload.s3_uri: upload for upload in built.uploads}
            if built.source is not None:
                self.sources[built.source.s3_uri] = built.source
        return planned

    def _with_alternatives(self, planned: PlannedJob, job: JobSpec, others: Sequence[JobSpec]) -> PlannedJob:
        """Return a planned job that may move to its other queues. Each move is checked as if it were made."""
        if not others:
            return planned
        known = [(other, queue) for other in others if (queue := self.queues.find(other.queue or "")) is not None]
        own_type = json.loads(planned.request.payload).get("ResourceConfig", {}).get("InstanceType")
        has_own_type = own_type == job.instance_type
        alternatives = tuple(
            Alternative(
                queue.name,
                other.share,
                other.priority,
                other.instance_type if has_own_type else None,
                other.quota_share,
            )
            for other, queue in known
        )
        planned = replace(planned, alternatives=alternatives, fallback_after=job.fallback_after)
        for other, queue in known:
            there = moved(planned, queue.name, 2).request
            check_alternative(self.report, other, json.loads(there.payload), queue=queue, region=self.identity.region)
            check_request(self.report, other, there)
        return planned

    def _build(self, job: JobSpec) -> BuiltPayload | None:
        """Return the payload of a job, None when it has none."""
        try:
            built = self.payloads.build(job) if job.payload is None else build_from_payload(job)
        except (UsageError, InfeasibleError, NotFoundError) as error:
            for line in error.message.splitlines():
                message = _without_place(line, job)
                self.report.add(job, Finding(message, _value_named_in(message, job), error.hint or ""))
            return None
        for warning in built.warnings:
            self.report.warning(job, _without_place(warning, job))
        return built


def _secrets(job: JobSpec, built: BuiltPayload) -> dict[str, SecretRef]:
    """Where the secret values of the environment came from; an empty reference for one whose source is not known."""
    references = {key: value for key, value in job.environment.items() if isinstance(value, SecretRef)}
    return {key: SecretRef() for key in built.secret_environment} | references


def _value_named_in(message: str, job: JobSpec) -> tuple[str, ...]:
    """Where a job file has the value that a maker of payloads names in its refusal."""
    if named := _NAMED_VALUE.match(message):
        return _SECTIONS[named["what"]], named["name"]
    if job.source_dir is not None and message.startswith(str(job.source_dir)):
        return ("source",)
    key = message.split(" ", 1)[0]
    return (key,) if key in ("entry", "requirements") else ()


def _without_place(message: str, job: JobSpec) -> str:
    """The report says which job it is and where it was written; an adapter may have said so, too."""
    return message.split(f"job {job.name}: ", 1)[-1]
