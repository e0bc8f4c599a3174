"""Provisioning over AWS Batch: observe by describing and listing, make one change and wait until it has settled.

Batch has no waiters, answers before the work is done, and refuses a call while the previous one still settles. So every
change polls until the resource is VALID, or gone (case C04). It has no conditional updates either: a resource is looked
at right before it is changed, and again after. The clock is injected; polling is the only waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, TypeVar

from fairshare.aws.answers import environment_from, policy_from, queue_from, quota_share_from
from fairshare.aws.errors import translated
from fairshare.aws.jobs import BatchJobs
from fairshare.aws.paging import pages
from fairshare.aws.resources import (
    KINDS,
    Kind,
    create_request,
    update_request,
)
from fairshare.aws.session import AwsSession
from fairshare.model import (
    IN_USE_STATUSES,
    OWNER_TAG,
    WAITING_STATUSES,
    InfeasibleError,
    JobQueue,
    NotFoundError,
    QuotaShare,
    ResourceType,
    SchedulingPolicy,
    ServiceEnvironment,
    ServiceError,
    ThrottledError,
    WaitTimeoutError,
)
from fairshare.provision.compare import (
    TAG_FIELD,
    FieldChange,
    ObservedBatchResource,
    changed_fields,
    is_going,
    name_of,
    shown,
)
from fairshare.provision.desired import DesiredBatchResource
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Action, Change
from fairshare.provision.ports import Provisioner
from fairshare.provision.refusals import jobs_problem
from fairshare.provision.stale import SOMEBODY_ELSE, Move, StalePlanError, refuse_moved
from fairshare.scheduler.clock import Clock

_PAGE: Final = 100
_POLL_MS: Final = 2_000
_LOOPBACK_POLL_MS: Final = 50
_TIMEOUT_MS: Final = 600_000
_AGREE_MS: Final = 30_000
"""How long a VALID resource may show other values than those just set: AWS answers from more than one place."""
_RETRIES: Final = 4
_SETTLING: Final = ("being modified", "found existing jobqueue relationship")
"""Refusals that pass: a change still settles, or a deleted queue is not forgotten yet. Lower case."""
_EXISTS: Final = "already exists"
_GONE: Final = "does not exist"
"""What a describe call says of a quota share that is not there; other kinds are absent from the answer."""
_STUCK_HINT: Final = "AWS is slow or the resource is stuck: the AWS Batch console shows more."

_Resource = TypeVar("_Resource", ServiceEnvironment, SchedulingPolicy, JobQueue)
_Lacking = Callable[[ObservedBatchResource | None], str | None]


class BatchProvisioner(Provisioner):
    """Provisions service environments, scheduling policies, job queues and their quota shares.

    Args:
        session: account and region.
        clock: for polling.
        poll_ms: pause between two looks; None = 2 s, and 50 ms on this machine.
        timeout_ms: longest wait for one change.
    """

    def __init__(
        self, session: AwsSession, clock: Clock, *, poll_ms: int | None = None, timeout_ms: int = _TIMEOUT_MS
    ) -> None:
        self._session = session
        self._clock = clock
        self._poll_ms = poll_ms or (_LOOPBACK_POLL_MS if session.is_loopback else _POLL_MS)
        self._timeout_ms = timeout_ms

    # -- the port ------------------------------------------------------------------------------------------------

    def observe(self, names: Collection[str], stack: str) -> Observed:
        """Read resources with these names, those tagged with the stack, and the queues that use one of the latter.

        Everything is listed and filtered here: an account holds at most 50 environments and 50 queues, and nothing but
        a listing finds what carries a tag.
        """
        client = self._session.client("batch")

        def is_ours(resource: ObservedBatchResource) -> bool:
            return resource.tags.get(OWNER_TAG) == stack

        def wanted(resources: Iterator[_Resource]) -> dict[str, _Resource]:
            return {
                resource.name: resource
                for resource in resources
                if (resource.name in names or is_ours(resource)) and _status(resource) != "DELETED"
            }

        with translated("read service environments, scheduling policies and job queues", self._session.caller):
            environments = wanted(
                environment_from(entry)
                for page in pages(client.describe_service_environments, maxResults=_PAGE)
                for entry in page["serviceEnvironments"]
            )
            all_policies = [policy_from(entry) for entry in self._policies(self._policy_arns())]
            policies = wanted(iter(all_policies))
            queues = [
                queue_from(entry)
                for page in pages(client.describe_job_queues, maxResults=_PAGE)
                for entry in page["jobQueues"]
            ]
        referred: tuple[ObservedBatchResource, ...] = (*environments.values(), *policies.values())
        ours = {resource.arn for resource in referred if is_ours(resource)}
        users = {queue.name: queue for queue in queues if ours.intersection(_used_by(queue))}
        found = users | wanted(iter(queues))
        quota_policies = {policy.arn for policy in all_policies if policy.fairshare_policy is None}
        with translated("read quota shares", self._session.caller):
            shares = [
                self._describe_quota_share(entry["quotaShareArn"])
                for queue in found.values()
                if queue.scheduling_policy_arn in quota_policies
                for page in pages(client.list_quota_shares, jobQueue=queue.name, maxResults=_PAGE)
                for entry in page["quotaShares"]
            ]
        return Observed(environments, policies, found, {share.name: share for share in shares if share is not None})

    def _describe_quota_share(self, arn: str) -> QuotaShare | None:
        """Return a quota share with its tags, which a listing does not tell; None when it has just gone."""
        return next((quota_share_from(answer) for answer in self._quota_share(arn)), None)

    def _quota_share(self, arn: str) -> list[Any]:
        try:
            return [self._session.client("batch").describe_quota_share(quotaShareArn=arn)]
        except self._session.client("batch").exceptions.ClientException as error:
            if _GONE not in str(error):
                raise
            return []

    def execute(self, change: Change) -> None:
        """Make one change and wait until the resource is VALID, or gone.

        Raises:
            StalePlanError: the resource is no longer as it was when the change was planned.
            InfeasibleError: a queue that should be deleted holds jobs that have not ended.
            WaitTimeoutError: the resource did not settle in time.
            ServiceError: AWS refused, or the resource became INVALID.
        """
        match change.action:
            case Action.CREATE:
                self._create(change)
            case Action.UPDATE:
                self._update(change)
            case Action.DELETE:
                self._delete(change)
            case Action.NOOP:
                return

    # -- changes -------------------------------------------------------------------------------------------------

    def _create(self, change: Change) -> None:
        if change.observed is not None:
            self._wait(change, lambda found: None if found is None else "is still being deleted")
        self._make(change)
        self._wait_until_as_wanted(change)

    def _make(self, change: Change) -> None:
        """Create a resource, with retries of our own: botocore's would hide whether "already exists" means us.

        Raises:
            StalePlanError: the resource exists, and no call of ours can have made it.
        """
        is_answer_lost = False
        for pause in [self._poll_ms << number for number in range(_RETRIES)] + [None]:
            try:
                self._call_create(change)
                return
            except ThrottledError:
                if pause is None:
                    raise
            except ServiceError as error:
                exists = _EXISTS in error.message.lower()
                if exists and is_answer_lost:
                    return
                if exists and self._find(change) is not None:
                    raise StalePlanError(SOMEBODY_ELSE, [Move(change.label, now="there")]) from error
                if pause is None or not (exists or error.is_transient):  # a deleted name may not be free at once
                    raise
                is_answer_lost = not exists
            self._clock.sleep_until(self._clock.now() + pause)

    def _call_create(self, change: Change) -> None:
        client = self._session.client("batch", retries=0)
        with translated(f"create {change.label}", self._session.caller):
            getattr(client, f"create_{change.resource_type.value}")(**create_request(_desired(change), self._arn_of))

    def _update(self, change: Change) -> None:
        refuse_moved(change, self._find(change))
        self._tag(change)
        fields = frozenset(field.field for field in change.fields)
        request = update_request(_desired(change), fields, self._arn_of)
        if request:
            self._call(change, "update", self._reference(change) | request)
        self._wait_until_as_wanted(change)

    def _tag(self, change: Change) -> None:
        """Remove and set tags. In this order a tag that we set is on our list until it is gone."""
        tags = {field.field.removeprefix(TAG_FIELD): field.wanted for field in change.fields if _is_tag(field)}
        removed = [key for key, value in tags.items() if value is None]
        added = {key: value for key, value in tags.items() if value is not None}
        arn = self._arn_of(change.resource_type, change.name)
        with translated(f"tag {change.label}", self._session.caller):
            if removed:
                self._session.client("batch").untag_resource(resourceArn=arn, tagKeys=removed)
            if added:
                self._session.client("batch").tag_resource(resourceArn=arn, tags=added)

    def _delete(self, change: Change) -> None:
        found = self._find(change)
        if found is None:
            return
        try:
            if not is_going(found):
                refuse_moved(change, found)
                self._disable(change, found)
                self._refuse_jobs(change)
                self._call(change, "delete", self._reference(change))
        except NotFoundError:
            return
        self._wait(change, lambda found: None if found is None else "is still being deleted")

    def _disable(self, change: Change, found: ObservedBatchResource) -> None:
        """Disable a queue or environment and wait until that has settled: only then it can be deleted."""
        if isinstance(found, SchedulingPolicy):
            return
        if found.state != "DISABLED":
            self._call(change, "update", self._reference(change) | {"state": "DISABLED"})

        def lacking(now: ObservedBatchResource | None) -> str | None:
            if now is None or isinstance(now, SchedulingPolicy):
                raise NotFoundError(f"{change.label} is gone")
            is_settled = now.state == "DISABLED" and now.status in ("VALID", "INVALID")
            return None if is_settled else "is still being disabled"

        self._wait(change, lacking)

    def _refuse_jobs(self, change: Change) -> None:
        """Look for jobs in a disabled queue: from here on none can come, so what is counted is what would be ended."""
        kind = change.resource_type
        if kind not in (ResourceType.JOB_QUEUE, ResourceType.QUOTA_SHARE) or change.end_jobs:
            return
        queue, _, share = change.name.partition("/")
        jobs = BatchJobs(self._session).list(queue, WAITING_STATUSES | IN_USE_STATUSES)
        if kind is ResourceType.QUOTA_SHARE:
            if number := sum(job.quota_share == share for job in jobs):
                raise InfeasibleError(
                    jobs_problem(change.label, number),
                    hint="The quota share is DISABLED now and takes no new jobs. Wait for the jobs, or end them with "
                    "`fairshare cancel`; `fairshare setup` deletes it then.",
                )
        elif jobs:
            raise InfeasibleError(
                f"{jobs_problem(change.label, len(jobs))}: they came after this plan was made",
                hint="The queue is DISABLED now and takes no new jobs; `fairshare setup` enables it again. Wait for "
                "the jobs, end them with `fairshare cancel`, or say `--end-jobs`.",
            )

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call(self, change: Change, verb: str, request: dict[str, Any]) -> None:
        """Make one call that changes something; while AWS says that an earlier change still settles, try again."""
        method = getattr(self._session.client("batch"), f"{verb}_{change.resource_type.value}")
        deadline = self._clock.now() + self._timeout_ms
        while True:
            try:
                with translated(f"{verb} {change.label}", self._session.caller):
                    method(**request)
                return
            except ServiceError as error:
                if not any(text in error.message.lower() for text in _SETTLING):
                    raise
                if self._clock.now() >= deadline:
                    raise WaitTimeoutError(
                        f"{error.message}, still after {self._timeout_ms // 1000} s; {change.label} "
                        f"{_condition(self._find(change))}",
                        hint=_STUCK_HINT,
                    ) from error
            self._clock.sleep_until(self._clock.now() + self._poll_ms)

    def _find(self, change: Change) -> ObservedBatchResource | None:
        """Describe the resource of a change; None when there is none of that name."""
        kind = KINDS[change.resource_type]
        with translated(f"describe {change.label}", self._session.caller):
            found = [kind.read(entry) for entry in self._describe(kind, change.name)]
        return next((resource for resource in found if _status(resource) != "DELETED"), None)

    def _describe(self, kind: Kind, name: str) -> list[Any]:
        if kind.resource_type is ResourceType.QUOTA_SHARE:
            return self._quota_share(self._arn_of(kind.resource_type, name))
        if kind.resource_type is ResourceType.SCHEDULING_POLICY:
            return self._policies([arn for arn in self._policy_arns() if name_of(arn) == name])
        describe = getattr(self._session.client("batch"), f"describe_{kind.plural}")
        return list(describe(**{kind.lookup_field: [name]})[kind.answer_field])

    def _policy_arns(self) -> list[str]:
        listing = pages(self._session.client("batch").list_scheduling_policies, maxResults=_PAGE)
        return [entry["arn"] for page in listing for entry in page["schedulingPolicies"]]

    def _policies(self, arns: list[str]) -> list[Any]:
        """Describe policies, at most 100 in a call."""
        describe = self._session.client("batch").describe_scheduling_policies
        chunks = (arns[start : start + _PAGE] for start in range(0, len(arns), _PAGE))
        return [entry for chunk in chunks for entry in describe(arns=chunk)["schedulingPolicies"]]

    def _arn_of(self, resource_type: ResourceType, name: str) -> str:
        kind = resource_type.value.replace("_", "-")
        if resource_type is ResourceType.QUOTA_SHARE:
            kind, name = "job-queue", name.replace("/", "/quota-share/")
        return f"arn:{self._session.partition}:batch:{self._session.region}:{self._session.account_id}:{kind}/{name}"

    def _reference(self, change: Change) -> dict[str, Any]:
        is_by_arn = change.resource_type in (ResourceType.SCHEDULING_POLICY, ResourceType.QUOTA_SHARE)
        reference = self._arn_of(change.resource_type, change.name) if is_by_arn else change.name
        return {KINDS[change.resource_type].reference_field: reference}

    # -- waiting -------------------------------------------------------------------------------------------------

    def _wait_until_as_wanted(self, change: Change) -> None:
        """Wait until a resource is VALID and shows what was asked for."""
        desired = _desired(change)

        def unusable(found: ObservedBatchResource | None) -> str | None:
            if found is None:
                return "cannot be seen yet"
            if _status(found) == "INVALID":
                reason = found.status_reason if isinstance(found, JobQueue) else None
                raise ServiceError(
                    f"{change.label} became INVALID" + (f": {reason}" if reason else ""),
                    aws_code="INVALID",
                    http_status=200,
                    hint="The AWS Batch console shows details.",
                )
            return None if _status(found) == "VALID" else "is not VALID yet"

        def different(found: ObservedBatchResource | None) -> str | None:
            fields = changed_fields(desired, found)
            values = ", ".join(f"{field.field} {shown(field.observed)}, not {shown(field.wanted)}" for field in fields)
            return f"shows {values}" if fields else None

        found = self._wait(change, unusable)
        if different(found) is not None:
            self._wait(change, different, timeout_ms=_AGREE_MS)

    def _wait(self, change: Change, lacking: _Lacking, timeout_ms: int | None = None) -> ObservedBatchResource | None:
        """Look at a resource until nothing is lacking, and return it.

        Args:
            change: whose resource.
            lacking: says what is not done yet; None = it is done.
            timeout_ms: longest wait; None = that of the provisioner.

        Raises:
            WaitTimeoutError: names the resource, what is lacking, and the resource's status.
        """
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._clock.now() + timeout_ms
        while (problem := lacking(found := self._find(change))) is not None:
            if self._clock.now() >= deadline:
                raise WaitTimeoutError(
                    f"{change.label} {problem} after {timeout_ms // 1000} s: it {_condition(found)}", hint=_STUCK_HINT
                )
            self._clock.sleep_until(self._clock.now() + self._poll_ms)
        return found


def _desired(change: Change) -> DesiredBatchResource:
    """Return what a change creates or updates."""
    assert isinstance(change.desired, DesiredBatchResource)
    return change.desired


def _status(resource: ObservedBatchResource) -> str:
    """Status of a resource; a policy has none and is always usable."""
    return "VALID" if isinstance(resource, SchedulingPolicy) else resource.status


def _condition(found: ObservedBatchResource | None) -> str:
    """``is UPDATING and ENABLED``."""
    if found is None:
        return "does not exist"
    return "exists" if isinstance(found, SchedulingPolicy) else f"is {found.status} and {found.state}"


def _used_by(queue: JobQueue) -> tuple[str | None, ...]:
    """ARNs of what a queue cannot do without."""
    return (*queue.service_environments, queue.scheduling_policy_arn)


def _is_tag(field: FieldChange) -> bool:
    return field.field.startswith(TAG_FIELD)
