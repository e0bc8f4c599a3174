"""What came of a run: one row for each job, with what the sweep varied, the final metrics, the cost and the model.

Three sources, asked only for what is missing: the journal (what was sent, and every end that somebody has seen), AWS
Batch (status, attempts; for 7 days after the end) and SageMaker (metrics, seconds, the model's address).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from fairshare.config.errors import suggest
from fairshare.model import JobDetail, JobSummary, NotFoundError
from fairshare.submit.outcomes import Ending, Training, ending_in, ending_of
from fairshare.submit.ports import JobBackend
from fairshare.submit.records import JobRecord, RunRecord
from fairshare.submit.watch import Watched, look

ARRAY_INDEX: Final = "FAIRSHARE_ARRAY_INDEX"
"""Variable of the environment that tells the jobs of an array apart: a parameter like those of a sweep."""

PARALLEL: Final = 8
"""Jobs described at once: DescribeServiceJob tells of one."""

_STATES: Final = {"waiting": "NOT_SENT", "unknown": "NO_ANSWER", "skipped": "SKIPPED"}
"""Status of a job that Batch does not have, by `JobRecord.state`."""

SECONDS: Final = ("training_seconds", "billable_seconds")
"""What jobs can be sorted by, besides metrics and parameters."""


class TrainingSource(Protocol):
    """SageMaker training jobs. Adapter: `fairshare.aws.training.TrainingJobs`."""

    def describe(self, names: Collection[str]) -> dict[str, Training]:
        """Return what SageMaker tells of training jobs, by name. Those it does not (or no longer) know are absent.

        Raises:
            FairshareError: it cannot be asked.
        """


@dataclass(frozen=True)
class Seen:
    """What AWS told of the jobs it was asked about, by id: all that Batch knows, and how those ended that did."""

    jobs: Mapping[str, JobSummary] = field(default_factory=dict)
    endings: Mapping[str, Ending] = field(default_factory=dict)


@dataclass(frozen=True)
class JobResult:
    """One job. ``status`` is Batch's, else NOT_SENT, NO_ANSWER, REFUSED, SKIPPED (what it comes after failed),
    NOT_NEEDED (what it comes after went well), or UNKNOWN: Batch forgot it.

    None means "there is none" or "not known"; ``not_known`` lists what AWS no longer tells.
    """

    job_name: str
    status: str
    job_id: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Hyperparameters, as JSON values where the text is exactly one."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    training_seconds: int | None = None
    billable_seconds: int | None = None
    attempts: int | None = None
    """Those that were not preempted."""
    preemptions: int | None = None
    """How often it was stopped to give its capacity to another job. Of a job that has not ended, as far as it was
    described: not known when many are asked about at once."""
    preemption_reason: str | None = None
    """Why the last time, in AWS's words."""
    model_artifacts: str | None = None
    training_job_name: str | None = None
    reason: str | None = None
    not_known: tuple[str, ...] = ()

    def value(self, key: str) -> Any:
        """Return a metric, a parameter or a number of seconds by name; None when the job has none."""
        if key in SECONDS:
            return getattr(self, key)
        return self.metrics.get(key, self.parameters.get(key))


@dataclass(frozen=True)
class RunResults:
    """The jobs of a run, in the order of the run until it is sorted. ``parameters`` are those that vary."""

    run_id: str
    parameters: tuple[str, ...]
    metrics: tuple[str, ...]
    jobs: tuple[JobResult, ...]

    def sorted_by(self, key: str, *, lowest_first: bool = False) -> RunResults:
        """Return the same results sorted by a metric, a parameter or a number of seconds; jobs without one come last.

        Raises:
            NotFoundError: there is no such column.
        """
        known = (*self.metrics, *self.parameters, *SECONDS)
        if key not in known:
            close = suggest(key, known)
            what = f"did you mean {close}?" if close else f"there are {', '.join(known)}"
            raise NotFoundError(f'run {self.run_id} has no metric or parameter "{key}"', hint=what)
        having = [job for job in self.jobs if job.value(key) is not None]
        having.sort(key=lambda job: _order(job.value(key)), reverse=not lowest_first)
        return replace(self, jobs=(*having, *(job for job in self.jobs if job.value(key) is None)))

    def first(self, count: int) -> RunResults:
        """Return the same results with the first jobs only."""
        return replace(self, jobs=self.jobs[:count])


def job_ids_to_ask(record: RunRecord) -> list[str]:
    """Return the ids of jobs of which the journal does not know everything yet."""
    endings = [(job, ending_in(job)) for job in record.jobs if job.job_id is not None]
    return [str(job.job_id) for job, ending in endings if ending is None or not ending.is_complete]


def see_jobs(record: RunRecord, backend: JobBackend) -> Seen:
    """Ask Batch about the jobs of a run that the journal does not know everything of.

    Raises:
        FairshareError: Batch cannot be asked.
    """
    sent = [(job, job.job_id, ending_in(job)) for job in record.jobs if job.job_id is not None]
    found = look(backend, [Watched(job.index, job_id, job.request.job_queue) for job, job_id, end in sent if not end])
    listed = [job_id for job_id, job in found.items() if ending_of(job) and not isinstance(job, JobDetail)]
    noted = [job_id for _, job_id, end in sent if end is not None and end.attempts is None]
    jobs = found | describe_in_parallel(backend, [*listed, *noted])
    known = {job_id: end for _, job_id, end in sent}
    endings = {job_id: ending for job_id, job in jobs.items() if (ending := ending_of(job)) is not None}
    return Seen(jobs, {job_id: ending.completed_by(known[job_id]) for job_id, ending in endings.items()})


def with_training(record: RunRecord, seen: Seen, source: TrainingSource) -> Seen:
    """Return what was seen, together with what SageMaker tells of the jobs that have ended.

    Raises:
        FairshareError: SageMaker cannot be asked.
    """
    known = {str(job.job_id): ending for job in record.jobs if (ending := ending_in(job)) is not None}
    endings = {**known, **seen.endings}
    names = {ending.training_job_name: job_id for job_id, ending in endings.items() if not _is_told(ending)}
    told = source.describe([name for name in names if name is not None])
    new = {names[name]: replace(endings[names[name]], training=training) for name, training in told.items()}
    return replace(seen, endings={**seen.endings, **new})


def results_of(record: RunRecord, seen: Seen | None = None) -> RunResults:
    """Return the results of a run, from its journal and what was seen since. Asks nobody."""
    seen = seen or Seen()
    jobs = tuple(_result(job, seen) for job in record.jobs)
    names = dict.fromkeys(name for job in jobs for name in job.parameters)
    varying = tuple(name for name in names if len({repr(job.parameters.get(name)) for job in jobs}) > 1)
    metrics = tuple(dict.fromkeys(name for job in jobs for name in job.metrics))
    return RunResults(record.run_id, varying, metrics, jobs)


def _is_told(ending: Ending) -> bool:
    return ending.training is not None or ending.training_job_name is None


def describe_in_parallel(backend: JobBackend, job_ids: Sequence[str]) -> dict[str, JobDetail]:
    """Return jobs by id, in the order given, a few calls at a time; those that Batch does not know are absent."""

    def describe(job_id: str) -> dict[str, JobDetail]:
        return backend.describe([job_id])

    if not job_ids:
        return {}
    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="describe") as pool:
        return {job_id: job for found in pool.map(describe, job_ids) for job_id, job in found.items()}


def _result(job: JobRecord, seen: Seen) -> JobResult:
    result = JobResult(
        job_name=job.as_planned().request.job_name,
        status="NOT_NEEDED" if job.state == "skipped" and not job.has_failed else _STATES.get(job.state, "UNKNOWN"),
        job_id=job.job_id,
        parameters=parameters_of(job.request.payload),
        reason=job.error if job.skip is None else job.skip.reason,
    )
    if job.job_id is None:
        return result if job.error is None else replace(result, status="REFUSED")
    ending = seen.endings.get(job.job_id) or ending_in(job)
    if ending is None:
        known = seen.jobs.get(job.job_id)
        if known is not None:
            return _unfinished(result, known)
        return replace(result, not_known=("status", "metrics", *SECONDS, "attempts", "model_artifacts"))
    training = ending.training or Training()
    not_known = () if _is_told(ending) else ("metrics", *SECONDS, "model_artifacts")
    return replace(
        result,
        status=ending.status,
        metrics=training.metrics,
        training_seconds=training.training_seconds,
        billable_seconds=training.billable_seconds,
        attempts=ending.attempts,
        preemptions=ending.preemptions if ending.attempts is None else ending.preemptions or 0,
        preemption_reason=ending.preemption_reason,
        model_artifacts=training.model_artifacts,
        training_job_name=ending.training_job_name,
        reason=ending.reason,
        not_known=not_known if ending.attempts is not None else (*not_known, "attempts"),
    )


def _unfinished(result: JobResult, known: JobSummary) -> JobResult:
    """Return the result of a job that goes on."""
    result = replace(result, status=known.status, training_job_name=known.training_job_name)
    if not isinstance(known, JobDetail):
        return result
    return replace(result, preemptions=known.preemptions, preemption_reason=known.preemption_reason)


def parameters_of(payload: str) -> dict[str, Any]:
    """Return the hyperparameters of a training request, and the number of a job in its array.

    A secret is left out: the journal has a reference in its place (case C46).
    """
    document = json.loads(payload)
    index = (document.get("Environment") or {}).get(ARRAY_INDEX)
    values = {**(document.get("HyperParameters") or {}), **({} if index is None else {"array_index": index})}
    return {name: _plain(value) for name, value in values.items() if isinstance(value, str)}


def _plain(text: str) -> Any:
    """Return the number, boolean or null that a text is, if it is written exactly so; else the text (case C09)."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_scalar = value is None or isinstance(value, bool | int | float)
    return value if is_scalar and json.dumps(value) == text else text


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, after them everything else by its text."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (not is_number, value if is_number else 0.0, "" if is_number else str(value))
