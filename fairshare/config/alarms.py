"""The alarms of a queue: the default ones as data, and ``alarms:`` of ``fairshare.yaml``, which changes them.

`DEFAULT_ALARMS` is the one table of them: setup, the exported documents and ``docs/alarms.md`` read it. The gauges they
watch are those of `fairshare.metrics.gauges`; one watches what AWS Batch publishes itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from fairshare.config.durations import format_duration
from fairshare.config.errors import WrongValue, WrongValues
from fairshare.config.fields import Flag, Name, Seconds, Target, Text, Whole, kind_of, one_of
from fairshare.config.sections import Section
from fairshare.config.yaml_source import Scalar

MISSING_DATA: Final = ("missing", "notBreaching", "breaching", "ignore")
"""What CloudWatch can take missing data for
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html)."""

_DAY: Final = 86_400
_LONG_PERIOD: Final = 3_600
Kind = Literal["fair-share", "fifo", "quota shares"]
"""What a queue is: see `fairshare.config.project.QueueConfig.kind`."""

_KINDS: Final = frozenset[Kind](("fair-share", "fifo", "quota shares"))
_WHEN_SILENT: Final = "no value means that the collector is silent, which collector_silent tells"


@dataclass(frozen=True)
class AlarmDefault:
    """One alarm of each queue, or of each of its shares.

    ``threshold`` is in the unit of the gauge; ``period`` is in seconds. With an ``expression`` the gauges are its m1,
    m2 and so on.
    """

    id: str
    gauges: tuple[str, ...]
    statistic: str
    comparison_operator: str
    threshold: float
    period: int
    evaluation_periods: int
    datapoints_to_alarm: int
    treat_missing_data: str
    missing_because: str
    """Why missing data is taken for that."""
    description: str
    """What has happened and what to do next; CloudWatch sends it with the alarm."""
    scope: Literal["queue", "share"] = "queue"
    also_of_queue: bool = False
    """With scope share: whether the queue as a whole publishes the gauge, too."""
    expression: str | None = None
    kinds: frozenset[Kind] = _KINDS
    """Which queues have it."""
    is_of_batch: bool = False
    """Whether the gauges are metrics of AWS Batch (namespace AWS/Batch, by queue) and not the collector's."""


DEFAULT_ALARMS: Final = (
    AlarmDefault(
        id="blocked",
        gauges=("Blocked",),
        statistic="Maximum",
        comparison_operator="GreaterThanOrEqualToThreshold",
        threshold=1,
        period=300,
        evaluation_periods=3,
        datapoints_to_alarm=3,
        treat_missing_data="missing",
        missing_because=_WHEN_SILENT,
        description="A job at the head of the queue cannot start, and may hold up all that are behind it. "
        "`fairshare queue` shows it, `fairshare job JOB` the reason that AWS gives; fix it, or end the job with "
        "`fairshare cancel JOB`.",
    ),
    AlarmDefault(
        id="oldest_wait",
        gauges=("OldestWaitSeconds",),
        statistic="Maximum",
        comparison_operator="GreaterThanThreshold",
        threshold=14_400,
        period=300,
        evaluation_periods=3,
        datapoints_to_alarm=3,
        treat_missing_data="missing",
        missing_because=_WHEN_SILENT,
        description="A job has waited for longer than is agreed. `fairshare queue` shows which; `fairshare shares` "
        "whether its share gets what it is due.",
        scope="share",
        also_of_queue=True,
    ),
    AlarmDefault(
        id="failure_rate",
        gauges=("FailedJobs", "SucceededJobs"),
        statistic="Sum",
        comparison_operator="GreaterThanThreshold",
        threshold=50,
        period=3_600,
        evaluation_periods=1,
        datapoints_to_alarm=1,
        treat_missing_data="missing",
        missing_because=_WHEN_SILENT,
        description="Of the jobs that ended in an hour (four or more) most failed. `fairshare queue --all` shows them, "
        "`fairshare logs JOB` what they said last.",
        expression="IF(m1 + m2 >= 4, 100 * m1 / (m1 + m2), 0)",
    ),
    AlarmDefault(
        id="capacity_idle",
        gauges=("IdleCapacityWhileWaiting",),
        statistic="Minimum",
        comparison_operator="GreaterThanOrEqualToThreshold",
        threshold=1,
        period=300,
        evaluation_periods=6,
        datapoints_to_alarm=6,
        treat_missing_data="missing",
        missing_because=_WHEN_SILENT,
        description="Instances are free although jobs wait: the job at the head may need more at once than are free, "
        "or SageMaker lacks capacity. `fairshare queue` shows the head, `fairshare job JOB` its reason.",
    ),
    AlarmDefault(
        id="utilization_low",
        gauges=("CapacityUtilization",),
        statistic="Average",
        comparison_operator="LessThanThreshold",
        threshold=20,
        period=3_600,
        evaluation_periods=24,
        datapoints_to_alarm=24,
        treat_missing_data="missing",
        missing_because=_WHEN_SILENT,
        description="The capacity has been nearly unused for long. Lower `capacity` in fairshare.yaml, or lend it to "
        "another queue.",
    ),
    AlarmDefault(
        id="share_starved",
        gauges=("StarvedShare",),
        statistic="Maximum",
        comparison_operator="GreaterThanOrEqualToThreshold",
        threshold=1,
        period=300,
        evaluation_periods=3,
        datapoints_to_alarm=3,
        treat_missing_data="missing",
        missing_because="no value means that the collector is silent, or has not watched for a whole window yet",
        description="A share has had a job waiting for the policy's whole window and got nothing. `fairshare shares` "
        "shows who holds the capacity; a job that needs more instances than ever become free has to shrink.",
        scope="share",
        kinds=frozenset(("fair-share",)),
    ),
    AlarmDefault(
        id="preemptions",
        gauges=("JobsPreempted",),
        statistic="Sum",
        comparison_operator="GreaterThanThreshold",
        threshold=10,
        period=3_600,
        evaluation_periods=1,
        datapoints_to_alarm=1,
        treat_missing_data="notBreaching",
        missing_because="AWS Batch publishes nothing while no job is preempted",
        description="More jobs than is agreed were preempted, and each begins again from its last checkpoint. "
        "`fairshare shares` shows who borrows from whom; lower `borrow_limit`, or give a share that often takes back "
        "what it lent more of its own.",
        kinds=frozenset(("quota shares",)),
        is_of_batch=True,
    ),
    AlarmDefault(
        id="collector_silent",
        gauges=("CollectorRuns",),
        statistic="Sum",
        comparison_operator="LessThanThreshold",
        threshold=1,
        period=300,
        evaluation_periods=3,
        datapoints_to_alarm=3,
        treat_missing_data="breaching",
        missing_because="no value is just what this alarm is about",
        description="No gauges arrive, so the other alarms of this queue see nothing. Deploy infra/collector, or let "
        "cron run `fairshare metrics publish`; `alarms: {collector_silent: off}` if neither is wanted.",
    ),
)
"""In the order in which people read them: what stops work comes first."""

_BY_ID: Final[Mapping[str, AlarmDefault]] = {default.id: default for default in DEFAULT_ALARMS}


# ---------------------------------------------------------------------------------------------------------------------
# ``alarms:`` in fairshare.yaml


class AlarmSection(Section):
    """What is changed of one alarm, in AWS's words. Without datapoints_to_alarm, all evaluation_periods must breach."""

    example: ClassVar = "off, or {evaluation_periods: 6}"

    enabled: Flag = True
    period: Seconds | None = Field(default=None, ge=60)
    evaluation_periods: Whole | None = Field(default=None, ge=1)
    datapoints_to_alarm: Whole | None = Field(default=None, ge=1)
    treat_missing_data: Annotated[str, BeforeValidator(one_of(*MISSING_DATA))] | None = None

    def over(self, default: AlarmDefault) -> AlarmDefault:
        """Return an alarm with these changes."""
        given = {name: value for name, value in self if name != "enabled" and value is not None}
        if "evaluation_periods" in given:
            given.setdefault("datapoints_to_alarm", given["evaluation_periods"])
        if "threshold" in given:
            given["threshold"] = float(given["threshold"])
        if "treat_missing_data" in given:
            given["missing_because"] = "fairshare.yaml says so"
        return replace(default, **given)


class WaitAlarmSection(AlarmSection):
    """An alarm whose threshold is a duration."""

    example: ClassVar = "off, or {threshold: 2h}"

    threshold: Seconds | None = Field(default=None, ge=1)


class PercentAlarmSection(AlarmSection):
    """An alarm whose threshold is per cent."""

    example: ClassVar = "off, or {threshold: 50%}"

    threshold: Target | None = None


class CountAlarmSection(AlarmSection):
    """An alarm whose threshold is a number: of instances, or of jobs."""

    example: ClassVar = "off, or {threshold: 2}"

    threshold: Whole | None = Field(default=None, ge=1)


def _read_switch(value: object) -> Any:
    """Read ``off`` and ``on``, which YAML 1.2 takes for text, beside the settings of an alarm."""
    if isinstance(value, Scalar):
        switch = {"off": False, "false": False, "on": True, "true": True}.get(value.text)
        if switch is None or value.quoted:
            raise WrongValue(f"must be off, on or settings, not {kind_of(value)}", hint="as in {threshold: ...}")
        return {"enabled": switch}
    return value


_Switch: Final = BeforeValidator(_read_switch)
_ARN: Final = re.compile(r"arn:aws[a-z-]*:sns:([a-z0-9-]+):[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?")


def _check_topic(text: str) -> str:
    if not _ARN.fullmatch(text):
        hint = "as in arn:aws:sns:us-west-2:111122223333:ops"
        raise WrongValue(f'"{text}" is not the ARN of an SNS topic', hint=hint)
    return text


class QueueAlarmsSection(Section):
    """Alarms of a queue by id; what is not named is as it is for all queues."""

    example: ClassVar = "{oldest_wait: {threshold: 2h}, utilization_low: off}"

    blocked: Annotated[AlarmSection | None, _Switch] = None
    oldest_wait: Annotated[WaitAlarmSection | None, _Switch] = None
    failure_rate: Annotated[PercentAlarmSection | None, _Switch] = None
    capacity_idle: Annotated[CountAlarmSection | None, _Switch] = None
    utilization_low: Annotated[PercentAlarmSection | None, _Switch] = None
    share_starved: Annotated[AlarmSection | None, _Switch] = None
    preemptions: Annotated[CountAlarmSection | None, _Switch] = None
    collector_silent: Annotated[AlarmSection | None, _Switch] = None

    @property
    def by_id(self) -> dict[str, AlarmSection]:
        """The alarms that are named."""
        return {id: section for id in _BY_ID if (section := getattr(self, id)) is not None}


class AlarmsSection(QueueAlarmsSection):
    """``alarms:`` as a whole. ``queues`` are keys of ``fairshare.yaml``; what a queue says wins, key by key."""

    enabled: Flag = True
    sns_topic: Annotated[Text, AfterValidator(_check_topic)] | None = None
    """ARN of the topic that is told when an alarm fires, and when it is over."""
    dashboard: Flag = True
    """Whether the stack has a dashboard; without ``enabled`` it has none either."""
    queues: dict[Name, QueueAlarmsSection] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_settings(self) -> AlarmsSection:
        wrong = [
            WrongValue(str(problem), hint=problem.hint, at=(*place, id, *problem.at))
            for place, layers in self._places()
            for id in layers[-1].by_id
            for problem in _problems(_resolved(id, layers))
        ]
        if wrong:
            raise WrongValues(wrong)
        return self

    def of_queue(self, queue: str, kind: Kind) -> tuple[AlarmDefault, ...]:
        """Return the alarms of a queue, by its key, as they should be; without those that are off or of other kinds."""
        if not self.enabled:
            return ()
        layers = [self, self.queues.get(queue, QueueAlarmsSection())]
        return tuple(
            _resolved(id, layers) for id, default in _BY_ID.items() if kind in default.kinds and _is_on(id, layers)
        )

    @property
    def has_dashboard(self) -> bool:
        """Whether `setup` makes a dashboard."""
        return self.enabled and self.dashboard

    def _places(self) -> Iterator[tuple[tuple[str, ...], list[QueueAlarmsSection]]]:
        """Yield where settings are written, and the layers that count there."""
        yield (), [self]
        for queue, section in self.queues.items():
            yield ("queues", queue), [self, section]


def kinds_of_alarm(id: str) -> frozenset[Kind]:
    """Return which queues have an alarm; none for a word that names no alarm."""
    return _BY_ID[id].kinds if id in _BY_ID else frozenset()


def _resolved(id: str, layers: list[QueueAlarmsSection]) -> AlarmDefault:
    default = _BY_ID[id]
    for layer in layers:
        if (section := layer.by_id.get(id)) is not None:
            default = section.over(default)
    return default


def _is_on(id: str, layers: list[QueueAlarmsSection]) -> bool:
    sections = [layer.by_id[id] for layer in layers if id in layer.by_id]
    return sections[-1].enabled if sections else True


def _problems(alarm: AlarmDefault) -> Iterator[WrongValue]:
    """Yield what CloudWatch would refuse, or what could never fire (API_PutMetricAlarm)."""
    if alarm.period % 60:
        hint = "gauges are published once a minute at most"
        yield WrongValue(f"must be a multiple of 60 s, not {alarm.period} s", hint=hint, at=("period",))
    if alarm.datapoints_to_alarm > alarm.evaluation_periods:
        text = f"{alarm.datapoints_to_alarm} of {alarm.evaluation_periods} datapoints can never breach"
        yield WrongValue(text, hint="raise evaluation_periods", at=("datapoints_to_alarm",))
    longest = _DAY if alarm.period < _LONG_PERIOD else 7 * _DAY
    if alarm.period * alarm.evaluation_periods > longest:
        text = f"{alarm.evaluation_periods} x {format_duration(alarm.period)} is more than {format_duration(longest)}"
        yield WrongValue(text, hint="CloudWatch looks back no further", at=("evaluation_periods",))
