"""From what a user asked for to a `SubmitPlan`: nothing is written or sent, and every problem is told at once.

``resolve -> check -> expand sweeps -> build payloads -> check -> name -> requests -> check -> waves``. A job with a
problem goes on as far as it can, so that a user who has corrected a share does not then learn of a value that is too
long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from fairshare.config.jobs import JobSpec, SecretRef, WavesSpec
from fairshare.model import InfeasibleError, NotFoundError, UsageError
from fairshare.submit.checks import check_job, check_payload, check_request, check_written
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.naming import assign_names
from fairshare.submit.ports import BuiltPayload, Payloads, SourceSummary, Upload
from fairshare.submit.report import Finding, Report, raise_errors
from fairshare.submit.requests import PlannedJob, RunIdentity, build_request, tags_of
from fairshare.submit.resolve import Overrides, QueueFacts, Queues, resolve
from fairshare.submit.sweep import expand
from fairshare.submit.waves import Wave, plan_waves

if TYPE_CHECKING:
    from fairshare.config.project import Project


_NAMED_VALUE: Final = re.compile(r"(?P<what>hyperparameter|environment|input) (?P<name>\S+?)(?=:| is )")
"""How a maker of payloads names the value that it refuses."""

_SECTIONS: Final = {"hyperparameter": "hyperparameters", "environment": "environment", "input": "inputs"}


@dataclass(frozen=True)
class SubmitOptions:
    """What the command line says about a submission as a whole."""

    overrides: Overrides = field(default_factory=Overrides)
    waves: WavesSpec | None = None
    """None = all at once."""
    start_at: int | None = None
    """When the first wave starts, ms since the epoch; None = at the run's ``created_at``."""
    allow_unknown_share: bool = False
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
    for job in written:
        check_job(report, job, queues, region=identity.region, allow_unknown_share=options.allow_unknown_share)
        if not report.can_build(job):
            check_written(report, job, queues.find(job.queue or ""), region=identity.region)
    jobs = [point for job in written if report.can_build(job) for point in _points(report, job)]
    waves = _waves(len(jobs), identity, options)
    builder = _Builder(report, queues, payloads, identity, options)
    planned = builder.plan(jobs, waves)
    problems = report.problems()
    raise_errors(problems)
    uploads, sources = tuple(builder.uploads.values()), tuple(builder.sources.values())
    return SubmitPlan(identity, waves, tuple(planned), uploads, tuple(problems), sources)


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
    size, interval = (options.waves.size, options.waves.interval) if options.waves else (None, 0)
    return plan_waves(count, size, interval, start_at)


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
    _built: dict[object, BuiltPayload | None] = field(default_factory=dict)

    def plan(self, jobs: Sequence[JobSpec], waves: Sequence[Wave]) -> list[PlannedJob]:
        """Return the planned jobs; fills `uploads` and `sources`."""
        wave_of = [wave.number for wave in waves for _ in range(wave.count)]
        names = assign_names(self.identity.run_id, [job.name for job in jobs])
        planned: list[PlannedJob] = []
        for index, job in enumerate(jobs):
            built = self._build(job)
            queue = self.queues.find(job.queue or "")
            if built is None:
                check_written(self.report, job, queue, region=self.identity.region)
                continue
            tags = tags_of(job, built, self.identity.run_id)
            check_payload(self.report, job, built.payload, tags, queue=queue, region=self.identity.region)
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
            planned.append(PlannedJob(index, wave_of[index], request, _secrets(job, built)))
            self.uploads |= {upload.s3_uri: upload for upload in built.uploads}
            if built.source is not None:
                self.sources[built.source.s3_uri] = built.source
        return planned

    def _build(self, job: JobSpec) -> BuiltPayload | None:
        """Return the payload of a job, None when it has none. Jobs that differ in nothing it depends on share one."""
        neutral = replace(job, origin=replace(job.origin, line=0, column=0), trainer=None)
        neutral = replace(neutral, queue=None, share=None, priority=None)
        key = (id(job.trainer), repr(neutral))
        if key not in self._built:
            self._built[key] = None
            try:
                self._built[key] = self.payloads.build(job)
            except (UsageError, InfeasibleError, NotFoundError) as error:
                for line in error.message.splitlines():
                    message = _without_place(line, job)
                    self.report.add(job, Finding(message, _value_named_in(message, job), error.hint or ""))
        built = self._built[key]
        for warning in built.warnings if built else ():
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
