"""Service jobs over AWS Batch: the adapter of `fairshare.submit.ports.JobBackend`.

What is surprising about ListServiceJobs: without a status it lists RUNNING jobs only, and a filter makes it ignore the
status. So "every job" is one listing filtered by ``AFTER_CREATED_AT`` 0, and "these statuses" is one listing for each.
It carries neither the priority nor the payload: DescribeServiceJob does.
Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_ListServiceJobs.html.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from typing import Any, Final

from fairshare.aws.answers import SERVICE_TYPE
from fairshare.aws.errors import cut_off, translated
from fairshare.aws.paging import pages
from fairshare.aws.session import AwsSession
from fairshare.model import (
    FrontOfQueueJob,
    JobAttempt,
    JobDetail,
    JobRef,
    JobRequest,
    JobStatus,
    JobSummary,
    NotFoundError,
    QueueSnapshot,
    ServiceError,
    to_camel,
    to_snake,
)
from fairshare.submit.ports import JobBackend

_PAGE: Final = 100
"""Largest page: a queue of 10,000 jobs costs 100 calls (case C49)."""


class BatchJobs(JobBackend):
    """Service jobs of one account and region."""

    def __init__(self, session: AwsSession) -> None:
        self._session = session

    def submit(self, request: JobRequest) -> JobRef:
        """Send one job, in exactly one call: botocore does not retry it, because the caller does (with its token).

        Raises:
            ServiceError: AWS refused, throttled (``http_status`` 429) or did not answer (``http_status`` None).
            CredentialsError: there are no credentials, or they are refused.
        """
        client = self._session.client("batch", retries=0)
        doing = f"submit job {request.job_name}"
        with translated(doing, self._session.caller, keep_answers=True):
            answer = client.submit_service_job(**submit_request(request))
        if "jobId" not in answer:  # botocore takes an empty body for an answer without fields
            raise cut_off(doing)
        return JobRef(answer["jobId"], answer.get("jobArn", ""), answer["jobName"])

    def find(self, queue: str, job_name: str) -> JobSummary | None:
        """Return the newest job of exactly that name. AWS's own filter ignores upper and lower case."""
        found = self._listing(queue, filters=[{"name": "JOB_NAME", "values": [job_name]}])
        exact = [job for job in found if job.job_name == job_name]
        return max(exact, key=lambda job: job.created_at, default=None)

    def newest(self, queue: str, created_after: int, calls: int) -> Sequence[JobSummary]:
        """Return jobs of any status made after an instant (ms), newest first: as many as fit into so many calls."""
        return self._filtered(queue, "AFTER_CREATED_AT", created_after, calls)

    def page_before(self, queue: str, created_before: int) -> Sequence[JobSummary]:
        """Return jobs of any status made before an instant (ms), newest first: as many as one call gives."""
        return self._filtered(queue, "BEFORE_CREATED_AT", created_before, 1)

    def walk(self, queue: str, created_before: int | None = None) -> Iterator[Sequence[JobSummary]]:
        """Yield jobs of any status, newest first, page by page: each is one call, made when the page is asked for.

        Args:
            queue: name or ARN.
            created_before: milliseconds; None = from the newest on.
        """
        name, at = ("AFTER_CREATED_AT", 0) if created_before is None else ("BEFORE_CREATED_AT", created_before)
        filters = [{"name": name, "values": [str(at)]}]
        with translated(f"list jobs of queue {queue}", self._session.caller):
            listing = self._session.client("batch").list_service_jobs
            for page in pages(listing, jobQueue=queue, maxResults=_PAGE, filters=filters):
                yield [summary_from(entry) for entry in page["jobSummaryList"]]

    def list(self, queue: str, statuses: Collection[JobStatus] | None = None) -> list[JobSummary]:
        """Return the jobs of a queue, newest first.

        With statuses, a job that moves on between two listings shows up twice: the later one counts. Statuses are
        listed in life-cycle order, so that a job moving forward is not missed.
        """
        if statuses is None:
            listings = [self._listing(queue, filters=[{"name": "AFTER_CREATED_AT", "values": ["0"]}])]
        else:
            listings = [self._listing(queue, jobStatus=status.value) for status in JobStatus if status in statuses]
        jobs = {job.job_id: job for listing in listings for job in listing}
        return sorted(jobs.values(), key=lambda job: job.created_at, reverse=True)

    def describe(self, job_ids: Iterable[str]) -> dict[str, JobDetail]:
        """Return details by job id, with one call for each. Ids that Batch does not know are absent (case C29)."""
        client = self._session.client("batch")
        found = {}
        for job_id in job_ids:
            try:
                with translated(f"describe job {job_id}", self._session.caller):
                    found[job_id] = detail_from(client.describe_service_job(jobId=job_id))
            except NotFoundError:
                continue
            except ServiceError as error:
                # The id is the only parameter: whatever its text, a ClientException means that it is not known.
                if error.aws_code != "ClientException":
                    raise
        return found

    def snapshot(self, queue: str) -> QueueSnapshot:
        """Return the first 100 RUNNABLE jobs in dispatch order and the capacity in use."""
        with translated(f"read the front of queue {queue}", self._session.caller):
            return snapshot_from(self._session.client("batch").get_job_queue_snapshot(jobQueue=queue))

    def update_priority(self, job_id: str, scheduling_priority: int) -> None:
        """Change the scheduling priority of a job."""
        with translated(f"change the priority of job {job_id}", self._session.caller):
            self._session.client("batch").update_service_job(jobId=job_id, schedulingPriority=scheduling_priority)

    def terminate(self, job_id: str, reason: str) -> None:
        """End a job; no effect on one that has ended."""
        with translated(f"end job {job_id}", self._session.caller):
            self._session.client("batch").terminate_service_job(jobId=job_id, reason=reason)

    def _filtered(self, queue: str, name: str, at: int, calls: int) -> Sequence[JobSummary]:
        with translated(f"list jobs of queue {queue}", self._session.caller):
            filters = [{"name": name, "values": [str(at)]}]
            listing = self._session.client("batch").list_service_jobs
            answers = islice(pages(listing, jobQueue=queue, maxResults=_PAGE, filters=filters), calls)
            return [summary_from(entry) for page in answers for entry in page["jobSummaryList"]]

    def _listing(self, queue: str, **request: Any) -> Iterator[JobSummary]:
        with translated(f"list the jobs of queue {queue}", self._session.caller):
            list_service_jobs = self._session.client("batch").list_service_jobs
            for page in pages(list_service_jobs, jobQueue=queue, maxResults=_PAGE, **request):
                for entry in page["jobSummaryList"]:
                    yield summary_from(entry)


def submit_request(request: JobRequest) -> dict[str, Any]:
    """Return the SubmitServiceJob request. What is None is not sent; a priority of 0 is (case C08)."""
    optional = {
        "shareIdentifier": request.share_identifier,
        "schedulingPriority": request.scheduling_priority,
        "retryStrategy": None if request.retry_strategy is None else to_camel(request.retry_strategy),
        "timeoutConfig": None
        if request.attempt_duration_seconds is None
        else {"attemptDurationSeconds": request.attempt_duration_seconds},
        "tags": dict(request.tags) or None,
        "quotaShareName": request.quota_share,
        "preemptionConfiguration": None
        if request.preemption_retries is None
        else {"preemptionRetriesBeforeTermination": request.preemption_retries},
    }
    return {
        "jobName": request.job_name,
        "jobQueue": request.job_queue,
        "serviceJobType": SERVICE_TYPE,
        "serviceRequestPayload": request.payload,
        "clientToken": request.client_token,
    } | {name: value for name, value in optional.items() if value is not None}


def summary_from(answer: Mapping[str, Any]) -> JobSummary:
    """Read one entry of ListServiceJobs."""
    return JobSummary(**_summary_fields(to_snake(answer)))


def detail_from(answer: Mapping[str, Any]) -> JobDetail:
    """Read the answer of DescribeServiceJob."""
    job = to_snake(answer)
    preemption = job.get("preemption_summary", {})
    return JobDetail(
        **_summary_fields(job),
        job_queue=job["job_queue"],
        attempts=tuple(_attempt(attempt) for attempt in job.get("attempts", [])),
        payload=_payload(job.get("service_request_payload")),
        tags=job.get("tags", {}),
        attempt_duration_seconds=job.get("timeout_config", {}).get("attempt_duration_seconds"),
        preempted_attempts=tuple(_attempt(attempt) for attempt in preemption.get("recent_preempted_attempts", [])),
        preemptions=preemption.get("preempted_attempt_count", 0),
    )


def snapshot_from(answer: Mapping[str, Any]) -> QueueSnapshot:
    """Read the answer of GetJobQueueSnapshot; every part of it may be missing."""
    front = to_snake(answer.get("frontOfQueue", {}))
    use = to_snake(answer.get("queueUtilization", {}))
    shares = use.get("fairshare_utilization", {}).get("top_capacity_utilization", [])
    quota_shares = use.get("quota_share_utilization", {}).get("top_capacity_utilization", [])
    fronts = answer.get("frontOfQuotaShares", {}).get("quotaShares", {})
    return QueueSnapshot(
        front_of_queue=tuple(
            FrontOfQueueJob(job["job_arn"], job.get("earliest_time_at_position")) for job in front.get("jobs", [])
        ),
        instances_in_use=_instances(use.get("total_capacity_usage")) or 0,
        instances_by_share={
            share["share_identifier"]: _instances(share.get("capacity_usage")) or 0 for share in shares
        },
        front_of_quota_shares={
            name: FrontOfQueueJob(jobs[0]["jobArn"], jobs[0].get("earliestTimeAtPosition"))
            for name, jobs in fronts.items()
            if jobs
        },
        instances_by_quota_share={
            share["quota_share_name"]: {
                usage["capacity_unit"]: round(usage["quantity"]) for usage in share.get("capacity_usage", [])
            }
            for share in quota_shares
        },
    )


_SAME_NAME: Final = frozenset(field.name for field in fields(JobSummary)) - {
    "instances",
    "training_job_name",
    "quota_share",
}
"""Fields of a summary that AWS calls the same."""


def _summary_fields(job: Mapping[str, Any]) -> dict[str, Any]:
    own = {"job_arn": "", "created_at": 0, "status": ""} | {name: job[name] for name in _SAME_NAME if name in job}
    return own | {
        "instances": _instances(job.get("capacity_usage")),
        "training_job_name": _training_job_name(job.get("latest_attempt", {})),
        "quota_share": job.get("quota_share_name"),
    }


def _attempt(attempt: Mapping[str, Any]) -> JobAttempt:
    return JobAttempt(
        training_job_name=_training_job_name(attempt),
        started_at=attempt.get("started_at"),
        stopped_at=attempt.get("stopped_at"),
        status_reason=attempt.get("status_reason"),
    )


def _training_job_name(attempt: Mapping[str, Any]) -> str | None:
    """Return the name at the end of a training job's ARN. It is never made up: Batch adds to it and may shorten it."""
    arn = attempt.get("service_resource_id", {}).get("value")
    return None if arn is None else str(arn).rsplit("training-job/", 1)[-1]


def _instances(usage: list[Mapping[str, Any]] | None) -> int | None:
    """Add up capacity in use over its units; AWS gives doubles of whole instances."""
    return None if usage is None else round(sum(entry.get("quantity", 0) for entry in usage))


def _payload(text: str | None) -> Mapping[str, Any]:
    """Return the CreateTrainingJob request of a job; {} when somebody submitted what is not a JSON object."""
    try:
        payload = json.loads(text or "{}")
    except ValueError:
        return {}
    return payload if isinstance(payload, dict) else {}
