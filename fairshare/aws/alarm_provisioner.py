"""Setting up the alarms of a stack in Amazon CloudWatch.

PutMetricAlarm both creates and replaces, and takes tags only when it creates; DescribeAlarms does not tell tags. So an
alarm is looked at right before it is put, and its tags are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from fairshare.aws.agreement import wait_until_shown
from fairshare.aws.alarms import definition_from, describe_alarms, put_request
from fairshare.aws.errors import translated
from fairshare.aws.session import AwsSession
from fairshare.model import OWNER_TAG, Alarm, NotFoundError
from fairshare.provision.alarms import DesiredAlarm
from fairshare.provision.compare import TAG_FIELD, changed_fields
from fairshare.provision.observed import Observed
from fairshare.provision.plan import Action, Change
from fairshare.provision.ports import Provisioner
from fairshare.provision.stale import SOMEBODY_ELSE, Move, StalePlanError, refuse_moved
from fairshare.scheduler.clock import Clock


class AlarmProvisioner(Provisioner):
    """Provisions the alarms of a stack.

    Args:
        session: account and region.
        clock: for polling.
    """

    def __init__(self, session: AwsSession, clock: Clock) -> None:
        self._session = session
        self._clock = clock

    def observe(self, names: Collection[str], stack: str) -> Observed:
        """Read the alarms whose name begins with the stack's and that are asked for or carry the stack's tag."""
        with translated("read alarms", self._session.caller):
            found = [self._with_tags(answer) for answer in describe_alarms(self._session, AlarmNamePrefix=f"{stack}-")]
        ours = {alarm.name: alarm for alarm in found if alarm.name in names or alarm.tags.get(OWNER_TAG) == stack}
        return Observed({}, {}, {}, alarms=ours)

    def execute(self, change: Change) -> None:
        """Make one change, and wait until CloudWatch shows it.

        Raises:
            StalePlanError: the alarm is no longer as it was when the change was planned.
            WaitTimeoutError: CloudWatch does not show the change.
            ServiceError: AWS refused.
        """
        match change.action:
            case Action.CREATE:
                if self._find(change) is not None:
                    raise StalePlanError(SOMEBODY_ELSE, [Move(change.label, now="there")])
                self._put(change, with_tags=True)
            case Action.UPDATE:
                refuse_moved(change, self._find(change))
                self._tag(change)
                self._put(change, with_tags=False)
            case Action.DELETE:
                self._delete(change)
            case Action.NOOP:
                return

    def _put(self, change: Change, *, with_tags: bool) -> None:
        desired = change.desired
        assert isinstance(desired, DesiredAlarm)
        request = put_request(desired.name, desired.definition)
        if with_tags:
            request["Tags"] = _tags(desired.tags)
        with translated(f"put {change.label}", self._session.caller):
            self._session.client("cloudwatch").put_metric_alarm(**request)
        self._wait(change, lambda found: found is not None and not changed_fields(desired, found))

    def _tag(self, change: Change) -> None:
        """Remove and set tags. In this order a tag that we set is on our list until it is gone."""
        tags = {
            field.field.removeprefix(TAG_FIELD): field.wanted
            for field in change.fields
            if field.field.startswith(TAG_FIELD)
        }
        removed = [key for key, value in tags.items() if value is None]
        added = {key: value for key, value in tags.items() if value is not None}
        client = self._session.client("cloudwatch")
        with translated(f"tag {change.label}", self._session.caller):
            if removed:
                client.untag_resource(ResourceARN=change.arn, TagKeys=removed)
            if added:
                client.tag_resource(ResourceARN=change.arn, Tags=_tags(added))

    def _delete(self, change: Change) -> None:
        found = self._find(change)
        if found is None:
            return
        refuse_moved(change, found)
        with translated(f"delete {change.label}", self._session.caller):
            self._session.client("cloudwatch").delete_alarms(AlarmNames=[change.name])
        self._wait(change, lambda found: found is None)

    def _wait(self, change: Change, is_done: Callable[[Alarm | None], bool]) -> None:
        hint = "Somebody else may change it, too: the CloudWatch console shows its history."
        wait_until_shown(change, lambda: is_done(self._find(change)), self._clock, hint=hint)

    def _find(self, change: Change) -> Alarm | None:
        with translated(f"describe {change.label}", self._session.caller):
            return next(
                (self._with_tags(answer) for answer in describe_alarms(self._session, AlarmNames=[change.name])), None
            )

    def _with_tags(self, answer: Mapping[str, Any]) -> Alarm:
        name, arn = answer["AlarmName"], answer["AlarmArn"]
        tags = {}
        try:
            with translated(f"read the tags of alarm {name}", self._session.caller):
                listed = self._session.client("cloudwatch").list_tags_for_resource(ResourceARN=arn)
                tags = {tag["Key"]: tag["Value"] for tag in listed.get("Tags", [])}
        except NotFoundError:
            pass  # it has just been deleted
        return Alarm(name, arn, definition_from(answer), tags)


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
