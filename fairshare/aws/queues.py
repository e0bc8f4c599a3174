"""Queues as the collector asks AWS Batch about them: the adapter of `fairshare.insight.collect.QueueSource`.

Imports neither pydantic nor Typer, directly or not: the collector runs as a Lambda function that has boto3 only.
"""

from __future__ import annotations

from typing import Final

from fairshare.aws.answers import environment_from, policy_from, queue_from
from fairshare.aws.errors import translated
from fairshare.aws.jobs import BatchJobs
from fairshare.aws.paging import pages
from fairshare.aws.session import AwsSession
from fairshare.insight.queue_state import QueueFacts
from fairshare.model import OWNER_TAG, NotFoundError

_PAGE: Final = 100


class BatchQueues(BatchJobs):
    """Queues and jobs of one account and region."""

    def __init__(self, session: AwsSession) -> None:
        super().__init__(session)
        self._caller = session.caller
        self._batch = session.client("batch")

    def facts(self, queue: str) -> QueueFacts:
        """Return what decides about a queue: one call for it, its environments, its policy and its quota shares each.

        Raises:
            NotFoundError: there is no such queue.
            FairshareError: AWS refused, or cannot be asked.
        """
        with translated(f"describe queue {queue}", self._caller):
            answer = self._batch.describe_job_queues(jobQueues=[queue])["jobQueues"]
            if not answer:
                raise NotFoundError(f"there is no job queue {queue}", hint="check its name, the region and the account")
            found = queue_from(answer[0])
            names = list(found.service_environments)
            described = self._batch.describe_service_environments(serviceEnvironments=names) if names else {}
            arn = found.scheduling_policy_arn
            policies = [] if arn is None else self._batch.describe_scheduling_policies(arns=[arn])["schedulingPolicies"]
            policy = policy_from(policies[0]) if policies else None
            has_quotas = policy is not None and policy.fairshare_policy is None
            answers = pages(self._batch.list_quota_shares, jobQueue=found.name, maxResults=_PAGE) if has_quotas else []
            quota_shares = [share["quotaShareName"] for page in answers for share in page["quotaShares"]]
        environments = map(environment_from, described.get("serviceEnvironments", []))
        fairshare = None if policy is None else policy.fairshare_policy
        return QueueFacts(
            name=found.name,
            capacity=sum(limit.max_capacity for each in environments for limit in each.capacity_limits),
            stack=found.tags.get(OWNER_TAG, ""),
            environments=found.service_environments,
            weights=None
            if fairshare is None
            else {entry.share_identifier: entry.weight_factor for entry in fairshare.share_distribution},
            share_decay_seconds=0 if fairshare is None else fairshare.share_decay_seconds,
            compute_reservation=0 if fairshare is None else fairshare.compute_reservation,
            quota_shares=tuple(sorted(quota_shares)),
        )
