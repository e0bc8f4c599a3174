"""The CloudWatch dashboard of a stack: alarms, then each queue, then the hosts of training jobs.

A dashboard is one text of JSON (https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/
CloudWatch-Dashboard-Body-Structure.html). What it shows is data: `QUEUE_GRAPHS`, `SHARE_GRAPHS`,
`QUOTA_SHARE_GRAPHS` and `TRAINING_GRAPHS`. Shares and hosts are found by search, so a share that nobody named
(``TEAM*``) is there, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fairshare.model import OWNER_TAG, ResourceType
from fairshare.provision.place import Place

if TYPE_CHECKING:
    from fairshare.config.project import Project

_GAUGES: Final = "fairshare"
_TRANSITIONS: Final = "AWS/Batch"
_TRAINING: Final = "/aws/sagemaker/TrainingJobs"

_COLUMNS: Final = 24
"""Of a dashboard's grid."""
_WIDTH: Final = 8
_HEIGHT: Final = 6
_ALARMS_AT_ONCE: Final = 100
"""ARNs that one alarm widget takes."""

_OWNER: Final = "Stack **{}**, made by fairshare: `fairshare setup` overwrites what is changed here."
_OWNED: Final = re.compile(_OWNER.replace("*", r"\*").replace("{}", "([A-Za-z0-9_-]+)"))


@dataclass(frozen=True)
class Graph:
    """One graph: metrics of one namespace over time. ``stacked`` metrics add up; ``highest`` is the end of the axis."""

    title: str
    namespace: str
    metrics: tuple[str, ...]
    statistic: str
    period: int = 60
    """Seconds."""
    stacked: bool = False
    highest: int | None = None


QUEUE_GRAPHS: Final = (
    Graph("jobs", _GAUGES, ("RunningJobs", "LaunchingJobs", "RunnableJobs"), "Average", stacked=True),
    Graph("instances", _GAUGES, ("CapacityUsed", "CapacityLimit", "IdleCapacityWhileWaiting"), "Average"),
    Graph("use of capacity, %", _GAUGES, ("CapacityUtilization",), "Average", highest=100),
    Graph("oldest wait (s), blocked", _GAUGES, ("OldestWaitSeconds", "Blocked"), "Maximum"),
    Graph(
        "jobs that moved",
        _TRANSITIONS,
        ("JobsSubmitted", "JobsMovedToSucceeded", "JobsMovedToFailed", "JobsRetried", "JobsPreempted"),
        "Sum",
        period=300,
    ),
    Graph(
        "time in each phase (ms)",
        _TRANSITIONS,
        (
            "JobAttemptRunnableToScheduledDuration",
            "JobAttemptScheduledToStartingDuration",
            "JobAttemptStartingToRunningDuration",
            "JobAttemptExecutionDuration",
        ),
        "Average",
        period=300,
    ),
)
"""What each queue shows."""

SHARE_GRAPHS: Final = (
    Graph("share of use and target, %", _GAUGES, ("UsageShare", "TargetShare"), "Average", highest=100),
    Graph("weighted usage, lowest goes first", _GAUGES, ("WeightedUsage",), "Average"),
    Graph("oldest wait (s), starved", _GAUGES, ("OldestWaitSeconds", "StarvedShare"), "Maximum"),
)
"""What a fair-share queue also shows, for each of its shares."""

QUOTA_SHARE_GRAPHS: Final = (
    Graph("instances by quota share", _GAUGES, ("CapacityUsed",), "Average", stacked=True),
    Graph("waiting jobs by quota share", _GAUGES, ("RunnableJobs",), "Average", stacked=True),
    Graph("oldest wait (s), blocked", _GAUGES, ("OldestWaitSeconds", "Blocked"), "Maximum"),
)
"""What a queue with quota shares also shows, for each of them. Preemptions are known of the whole queue only."""

TRAINING_GRAPHS: Final = tuple(
    Graph(f"{name}, {what}", _TRAINING, (name,), "Average", period=300)
    for name, what in (
        ("CPUUtilization", "% of one core"),
        ("MemoryUtilization", "%"),
        ("DiskUtilization", "%"),
        ("GPUUtilization", "% of one GPU"),
        ("GPUMemoryUtilization", "% of one GPU"),
    )
)
"""What the hosts of all training jobs of the account show: SageMaker names hosts, not stacks."""


@dataclass(frozen=True)
class DesiredDashboard:
    """A dashboard that should exist. ``body`` is canonical; ``tags`` is for its owner, which the body names."""

    resource_type: ClassVar = ResourceType.DASHBOARD
    name: str
    key: str
    body: str
    tags: Mapping[str, str] = field(default_factory=dict)


def dashboard_name(stack: str, region: str) -> str:
    """Return the name of a stack's dashboard. An account has one set of dashboards for all its regions."""
    return f"{stack}-{region}"


def desired_dashboard(project: Project, alarms: Sequence[str], place: Place) -> tuple[DesiredDashboard, ...]:
    """Return the dashboard of a project; () when it is switched off.

    Args:
        project: what the file says.
        alarms: names of its alarms.
        place: where they are. Without a known account the alarms, which go by ARN, are left out.
    """
    if not project.alarms.has_dashboard:
        return ()
    rows = [[_text(_OWNER.format(project.stack))]]
    if place.account != "*":
        arns = [place.arn("cloudwatch", f"alarm:{name}") for name in alarms]
        rows += [[_alarms(arns[start : start + _ALARMS_AT_ONCE])] for start in range(0, len(arns), _ALARMS_AT_ONCE)]
    for key, queue in project.queues.items():
        name = project.resource_name(key)
        graphs = [_queue_graph(graph, project.stack, key, name, place.region) for graph in QUEUE_GRAPHS]
        of_shares = QUOTA_SHARE_GRAPHS if queue.has_quota_shares else () if queue.is_fifo else SHARE_GRAPHS
        graphs += [_share_graph(graph, key, name, place.region) for graph in of_shares]
        rows.append(graphs)
    rows.append([_training_graph(graph, place.region) for graph in TRAINING_GRAPHS])
    body = canonical(json.dumps({"widgets": list(_placed(rows))}))
    tags = {OWNER_TAG: project.stack}
    return (DesiredDashboard(dashboard_name(project.stack, place.region), "dashboard", body, tags),)


def body_text(body: str) -> dict[str, str]:
    """Return a body as the fields of a plan: how many widgets it has, and a checksum of all that matters."""
    text = canonical(body)
    try:
        widgets = str(len(json.loads(text)["widgets"]))
    except (ValueError, KeyError, TypeError):
        widgets = "0"
    return {"widgets": widgets, "body": f"sha256:{sha256(text.encode()).hexdigest()[:12]}"}


def canonical(body: str) -> str:
    """Return a body without what does not matter: equal dashboards have equal texts. One that is no JSON stays."""
    try:
        return json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return body


def owner_of(body: str) -> str | None:
    """Return the stack whose dashboard this is; None when fairshare did not make it."""
    found = _OWNED.search(body)
    return None if found is None else found[1]


def _placed(rows: Iterable[Iterable[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Give each widget its place: side by side in its row, on a new line when the row is full."""
    top = 0
    for row in rows:
        left, height = 0, 0
        for widget in row:
            if left + widget["width"] > _COLUMNS:
                left, top = 0, top + height
            yield {**widget, "x": left, "y": top}
            left, height = left + widget["width"], widget["height"]
        top += height


def _queue_graph(graph: Graph, stack: str, key: str, queue: str, region: str) -> dict[str, Any]:
    where = ["Stack", stack, "Queue", queue] if graph.namespace == _GAUGES else ["JobQueueName", queue]
    metrics: list[Any] = [[graph.namespace, name, *where] for name in graph.metrics]
    return _graph(graph, f"{key}: {graph.title}", metrics, region)


def _share_graph(graph: Graph, key: str, queue: str, region: str) -> dict[str, Any]:
    schema = f"{{{_GAUGES},Stack,Queue,Share}}"
    searches = [_search(graph, f'{schema} MetricName="{name}" Queue="{queue}"') for name in graph.metrics]
    return _graph(graph, f"{key}: {graph.title}", searches, region)


def _training_graph(graph: Graph, region: str) -> dict[str, Any]:
    searches = [_search(graph, f'{{{_TRAINING},Host}} MetricName="{name}"') for name in graph.metrics]
    return _graph(graph, graph.title, searches, region)


def _search(graph: Graph, terms: str) -> list[dict[str, str]]:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html"""
    return [{"expression": f"SEARCH('{terms}', '{graph.statistic}', {graph.period})"}]


def _graph(graph: Graph, title: str, metrics: list[Any], region: str) -> dict[str, Any]:
    properties = {
        "title": title,
        "region": region,
        "view": "timeSeries",
        "stacked": graph.stacked,
        "stat": graph.statistic,
        "period": graph.period,
        "metrics": metrics,
        "yAxis": {"left": {"min": 0} if graph.highest is None else {"min": 0, "max": graph.highest}},
    }
    return {"type": "metric", "width": _WIDTH, "height": _HEIGHT, "properties": properties}


def _alarms(arns: Sequence[str]) -> dict[str, Any]:
    properties = {"title": "Alarms", "alarms": list(arns), "sortBy": "stateUpdatedTimestamp"}
    return {"type": "alarm", "width": _COLUMNS, "height": 4, "properties": properties}


def _text(markdown: str) -> dict[str, Any]:
    return {"type": "text", "width": _COLUMNS, "height": 1, "properties": {"markdown": markdown}}
