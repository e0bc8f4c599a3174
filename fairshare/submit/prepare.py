"""From what a user asked for to a `SubmitPlan`: nothing is written or sent, and every problem is told at once.

``resolve -> check -> expand sweeps -> build payloads -> name -> requests -> check again -> waves``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fairshare.config.jobs import JobSpec, SecretRef, WavesSpec
from fairshare.model import InfeasibleError, NotFoundError, UsageError
from fairshare.submit.checks import Report, check_job, check_request, raise_errors
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.naming import assign_names
from fairshare.submit.ports import BuiltPayload, Payloads, Upload
from fairshare.submit.requests import PlannedJob, RunIdentity, build_request
from fairshare.submit.resolve import Overrides, QueueFacts, Queues, resolve
from fairshare.submit.sweep import expand
from fairshare.submit.waves import Wave, plan_waves

if TYPE_CHECKING:
    from fairshare.config.project import Project


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
    written = resolve(specs, project, options.overrides, queues)
    for job in written:
        check_job(report, job, queues, region=identity.region, allow_unknown_share=options.allow_unknown_share)
    jobs = [point for job in written if report.is_sound(job) for point in _points(report, job)]
    waves = _waves(len(jobs), identity, options)
    planned, uploads = _Builder(report, queues, payloads, identity, options).plan(jobs, waves)
    problems = report.problems()
    raise_errors(problems)
    return SubmitPlan(identity, waves, tuple(planned), tuple(uploads), tuple(problems))


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
    _built: dict[object, BuiltPayload | None] = field(default_factory=dict)

    def plan(self, jobs: Sequence[JobSpec], waves: Sequence[Wave]) -> tuple[list[PlannedJob], list[Upload]]:
        """Return the planned jobs, and what they want uploaded, each URI once."""
        wave_of = [wave.number for wave in waves for _ in range(wave.count)]
        names = assign_names(self.identity.run_id, [job.name for job in jobs])
        planned: list[PlannedJob] = []
        uploads: dict[str, Upload] = {}
        for index, job in enumerate(jobs):
            built = self._build(job)
            queue = self.queues.find(job.queue or "")
            if built is None or queue is None:
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
            check_request(self.report, job, queue, request, region=self.identity.region)
            planned.append(PlannedJob(index, wave_of[index], request, _secrets(job, built)))
            uploads |= {upload.s3_uri: upload for upload in built.uploads}
        return planned, list(uploads.values())

    def _build(self, job: JobSpec) -> BuiltPayload | None:
        """Return the payload of a job, None when it has none. Jobs that differ in nothing it depends on share one."""
        neutral = replace(job, origin=replace(job.origin, line=0, column=0), trainer=None, tags={})
        neutral = replace(neutral, queue=None, share=None, priority=None)
        key = (id(job.trainer), repr(neutral))
        if key not in self._built:
            self._built[key] = None
            try:
                self._built[key] = self.payloads.build(job)
            except (UsageError, InfeasibleError, NotFoundError) as error:
                for line in error.message.splitlines():
                    self.report.error(job, _without_place(line, job), hint=error.hint or "")
        built = self._built[key]
        for warning in built.warnings if built else ():
            self.report.warning(job, _without_place(warning, job))
        return built


def _secrets(job: JobSpec, built: BuiltPayload) -> dict[str, SecretRef]:
    """Where the secret values of the environment came from; an empty reference for one whose source is not known."""
    references = {key: value for key, value in job.environment.items() if isinstance(value, SecretRef)}
    return {key: SecretRef() for key in built.secret_environment} | references


def _without_place(message: str, job: JobSpec) -> str:
    """The report says which job it is and where it was written; an adapter may have said so, too."""
    return message.split(f"job {job.name}: ", 1)[-1]
