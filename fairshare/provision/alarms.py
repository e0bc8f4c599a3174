"""The alarms of a stack as resources: which alarms of `fairshare.config.alarms` each queue and share gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Final

from fairshare.config.alarms import AlarmDefault
from fairshare.model import AlarmDefinition, AlarmMetric, ResourceType

if TYPE_CHECKING:
    from fairshare.config.project import Project, QueueConfig

GAUGE_NAMESPACE: Final = "fairshare"
"""CloudWatch namespace of the gauges; the same as in `fairshare.metrics.gauges`."""

_BATCH_NAMESPACE: Final = "AWS/Batch"
"""Of what AWS Batch publishes of its queues; the same as in `fairshare.metrics.ports`."""

_LONGEST_NAME: Final = 255
"""Characters in the name of an alarm
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html)."""


@dataclass(frozen=True)
class DesiredAlarm:
    """A CloudWatch alarm that should exist."""

    resource_type: ClassVar = ResourceType.ALARM
    name: str
    key: str
    definition: AlarmDefinition
    tags: Mapping[str, str] = field(default_factory=dict)


def desired_alarms(project: Project, tags: Mapping[str, str]) -> tuple[DesiredAlarm, ...]:
    """Return the alarms of a project, queue by queue.

    An alarm is named ``<stack>-<queue>-<alarm>``, and ``<stack>-<queue>-<alarm>-<share>`` for one of a share. A queue
    whose shares are not all known by name (first in, first out; ``PREFIX*`` entries) also gets, of what is watched for
    each share and published for the whole queue, an alarm of the queue.
    """
    topic = project.alarms.sns_topic
    return tuple(
        _desired(project, key, default, share, topic, tags)
        for key, queue in project.queues.items()
        for default in project.alarms.of_queue(key, queue.kind)
        for share in _watched(default, queue)
    )


def _watched(default: AlarmDefault, queue: QueueConfig) -> Iterator[str | None]:
    """Yield the shares that get an alarm of their own; None = the queue gets one."""
    if default.scope == "queue":
        yield None
        return
    yield from queue.share_names
    has_others = queue.fairshare is not None and len(queue.fairshare.shares) > len(queue.share_names)
    if default.also_of_queue and (has_others or not queue.share_names):
        yield None


def _desired(
    project: Project,
    queue: str,
    default: AlarmDefault,
    share: str | None,
    topic: str | None,
    tags: Mapping[str, str],
) -> DesiredAlarm:
    key = "-".join([queue, default.id.replace("_", "-"), *([] if share is None else [share])])
    definition = AlarmDefinition(
        metrics=_metrics(default, _dimensions(project, queue, share, default)),
        comparison_operator=default.comparison_operator,
        threshold=default.threshold,
        evaluation_periods=default.evaluation_periods,
        datapoints_to_alarm=default.datapoints_to_alarm,
        treat_missing_data=default.treat_missing_data,
        description=default.description,
        alarm_actions=() if topic is None else (topic,),
        ok_actions=() if topic is None else (topic,),
    )
    return DesiredAlarm(_fitting(project.resource_name(key)), key, definition, tags)


def _dimensions(project: Project, queue: str, share: str | None, default: AlarmDefault) -> tuple[tuple[str, str], ...]:
    name = project.resource_name(queue)
    if default.is_of_batch:
        return (("JobQueueName", name),)
    found = (("Stack", project.stack), ("Queue", name))
    return found if share is None else (*found, ("Share", share))


def _metrics(default: AlarmDefault, where: tuple[tuple[str, str], ...]) -> tuple[AlarmMetric, ...]:
    gauges = tuple(
        AlarmMetric(
            id=f"m{number}",
            namespace=_BATCH_NAMESPACE if default.is_of_batch else GAUGE_NAMESPACE,
            name=gauge,
            dimensions=where,
            statistic=default.statistic,
            period=default.period,
            returns_data=default.expression is None,
        )
        for number, gauge in enumerate(default.gauges, start=1)
    )
    return gauges if default.expression is None else (*gauges, AlarmMetric(id="e1", expression=default.expression))


def _fitting(name: str) -> str:
    """Return a name of at most 255 characters; of a longer one the end becomes its checksum."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}-{sha256(name.encode()).hexdigest()[:8]}"
