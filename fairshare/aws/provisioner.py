"""Provisioning over AWS Batch: observe by describing and listing, make one change and wait until it has settled.

Batch has no waiters, answers before the work is done, and refuses a call while the previous one still settles. So every
change polls until the resource is VALID, or gone (case C04). The clock is injected; polling is the only waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, TypeVar

from fairshare.aws.errors import translated
from fairshare.aws.paging import pages
from fairshare.aws.resources import (
    KINDS,
    Kind,
    create_request,
    environment_from,
    policy_from,
    queue_from,
    update_request,
)
from fairshare.aws.session import AwsSession
from fairshare.model import (
    OWNER_TAG,
    JobQueue,
    NotFoundError,
    ResourceType,
    SchedulingPolicy,
    ServiceEnvironment,
    ServiceError,
    WaitTimeoutError,
)
from fairshare.provision.compare import TAG_FIELD, ObservedResource, name_of
from fairshare.provision.plan import Action, Change
from fairshare.provision.ports import Observed, Provisioner
from fairshare.scheduler.clock import Clock

_PAGE: Final = 100
_POLL_MS: Final = 2_000
_LOOPBACK_POLL_MS: Final = 50
_TIMEOUT_MS: Final = 600_000
_SETTLING: Final = ("being modified", "found existing jobqueue relationship")
"""Refusals that pass: a change still settles, or a deleted queue is not forgotten yet. Lower case."""
_EXISTS: Final = "already exists"

_Resource = TypeVar("_Resource", ServiceEnvironment, SchedulingPolicy, JobQueue)


class BatchProvisioner(Provisioner):
    """Provisions service environments, scheduling policies and job queues.

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
        """Read resources with these names and those tagged with the stack.

        Everything is listed and filtered here: an account holds at most 50 environments and 50 queues, and nothing but
        a listing finds what carries a tag.
        """
        client = self._session.client("batch")

        def wanted(resources: Iterator[_Resource]) -> dict[str, _Resource]:
            return {
                resource.name: resource
                for resource in resources
                if (resource.name in names or resource.tags.get(OWNER_TAG) == stack) and _status(resource) != "DELETED"
            }

        with translated("read service environments, scheduling policies and job queues", self._session.caller):
            return Observed(
                service_environments=wanted(
                    environment_from(entry)
                    for page in pages(client.describe_service_environments, maxResults=_PAGE)
                    for entry in page["serviceEnvironments"]
                ),
                scheduling_policies=wanted(policy_from(entry) for entry in self._policies(self._policy_arns())),
                job_queues=wanted(
                    queue_from(entry)
                    for page in pages(client.describe_job_queues, maxResults=_PAGE)
                    for entry in page["jobQueues"]
                ),
            )

    def execute(self, change: Change) -> None:
        """Make one change and wait until the resource is VALID, or gone.

        Raises:
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
        assert change.desired is not None
        if change.observed is not None:
            self._wait(change, "is still being deleted", lambda: self._find(change) is None)
        try:
            self._call(change, "create", create_request(change.desired, self._arn_of))
        except ServiceError as error:
            # The answer to an earlier try of this call may have been lost: then what exists is ours.
            if _EXISTS not in error.message or not self._is_ours(change):
                raise
        self._wait_until_usable(change)

    def _update(self, change: Change) -> None:
        assert change.desired is not None
        fields = frozenset(field.field for field in change.fields)
        request = update_request(change.desired, fields, self._arn_of)
        if request:
            self._call(change, "update", self._reference(change) | request)
        tags = {key: value for key, value in change.desired.tags.items() if TAG_FIELD + key in fields}
        if tags:
            with translated(f"tag {change.label}", self._session.caller):
                self._session.client("batch").tag_resource(
                    resourceArn=self._arn_of(change.resource_type, change.name), tags=tags
                )
        self._wait_until_usable(change)

    def _delete(self, change: Change) -> None:
        found = self._find(change)
        if found is None:
            return
        try:
            if _status(found) != "DELETING":
                self._disable(change, found)
                self._call(change, "delete", self._reference(change))
        except NotFoundError:
            return
        self._wait(change, "is still being deleted", lambda: self._find(change) is None)

    def _disable(self, change: Change, found: ObservedResource) -> None:
        """Disable a queue or environment and wait until that has settled: only then it can be deleted."""
        if isinstance(found, SchedulingPolicy):
            return
        if found.state != "DISABLED":
            self._call(change, "update", self._reference(change) | {"state": "DISABLED"})

        def is_disabled() -> bool:
            now = self._find(change)
            if now is None or isinstance(now, SchedulingPolicy):
                raise NotFoundError(f"{change.label} is gone")
            return now.state == "DISABLED" and now.status in ("VALID", "INVALID")

        self._wait(change, "is still being disabled", is_disabled)

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
                is_settling = any(text in error.message.lower() for text in _SETTLING)
                if not is_settling or self._clock.now() >= deadline:
                    raise
            self._clock.sleep_until(self._clock.now() + self._poll_ms)

    def _find(self, change: Change) -> ObservedResource | None:
        """Describe the resource of a change; None when there is none of that name."""
        kind = KINDS[change.resource_type]
        with translated(f"describe {change.label}", self._session.caller):
            found = [kind.read(entry) for entry in self._describe(kind, change.name)]
        return next((resource for resource in found if _status(resource) != "DELETED"), None)

    def _describe(self, kind: Kind, name: str) -> list[Any]:
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
        return f"arn:{self._session.partition}:batch:{self._session.region}:{self._session.account_id}:{kind}/{name}"

    def _reference(self, change: Change) -> dict[str, Any]:
        is_policy = change.resource_type is ResourceType.SCHEDULING_POLICY
        reference = self._arn_of(change.resource_type, change.name) if is_policy else change.name
        return {KINDS[change.resource_type].reference_field: reference}

    def _is_ours(self, change: Change) -> bool:
        found = self._find(change)
        owner = None if change.desired is None else change.desired.tags.get(OWNER_TAG)
        return found is not None and found.tags.get(OWNER_TAG) == owner

    # -- waiting -------------------------------------------------------------------------------------------------

    def _wait_until_usable(self, change: Change) -> None:
        def is_usable() -> bool:
            found = self._find(change)
            if found is None:
                return False
            if _status(found) == "INVALID":
                reason = found.status_reason if isinstance(found, JobQueue) else None
                raise ServiceError(
                    f"{change.label} became INVALID" + (f": {reason}" if reason else ""),
                    aws_code="INVALID",
                    http_status=200,
                    hint="The AWS Batch console shows details.",
                )
            return _status(found) == "VALID"

        self._wait(change, "is not VALID yet", is_usable)

    def _wait(self, change: Change, problem: str, is_done: Callable[[], bool]) -> None:
        deadline = self._clock.now() + self._timeout_ms
        while not is_done():
            if self._clock.now() >= deadline:
                raise WaitTimeoutError(
                    f"{change.label} {problem} after {self._timeout_ms // 1000} s",
                    hint="AWS is slow or the resource is stuck: the AWS Batch console shows its status.",
                )
            self._clock.sleep_until(self._clock.now() + self._poll_ms)


def _status(resource: ObservedResource) -> str:
    """Status of a resource; a policy has none and is always usable."""
    return "VALID" if isinstance(resource, SchedulingPolicy) else resource.status
