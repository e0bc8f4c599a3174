"""The gauges of a simulation, minute by minute as the collector would publish them, and alarms replayed over them.

A simulation is the document that ``fairshare simulate --starts -o json`` prints. Its time begins at 0. What it does not
tell (use of processors, prices, whatever SageMaker measures) has no values; an alarm on that is named with the reason.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any, Final

from fairshare.config.errors import did_you_mean
from fairshare.insight.queue_state import idle_while_waiting
from fairshare.metrics.backtest import Replay
from fairshare.metrics.gauges import NAMESPACE, dimensions
from fairshare.metrics.ports import (
    QUEUE_NAMESPACE,
    AlarmSource,
    AlarmState,
    AlarmStatus,
    Datum,
    MetricQuery,
    MetricSource,
    Point,
)
from fairshare.metrics.review import Backtest, Change, backtest_alarms
from fairshare.model import AlarmDefinition, UsageError

MINUTE: Final = 60_000
_BEFORE: Final = 1440 * MINUTE
"""The collector ran for a day before the simulation, so that nobody finds it silent at its begin."""
_BATCH_QUEUE: Final = "JobQueueName"
"""Dimension of what AWS Batch publishes of a queue."""

_STATISTICS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "Average": lambda values: sum(values) / len(values),
    "Maximum": max,
    "Minimum": min,
    "Sum": sum,
    "SampleCount": len,
}
_HINT: Final = "make it with `fairshare simulate ... --starts -o json`"


Where = tuple[tuple[str, str], ...]
"""Dimensions of a metric."""


@dataclass(frozen=True)
class _Queue:
    """Where a queue's jobs run: the key of its environment, its instances, and what its policy reserves (per cent)."""

    environment: str
    capacity: int
    compute_reservation: int


@dataclass(frozen=True)
class _Piece:
    """One attempt of a job, in ms; ``waits_from`` is when it began to wait for it, ``submit`` when the job came."""

    share: str
    instances: int
    submit: int
    waits_from: int
    start: int
    end: int
    is_preempted: bool


@dataclass(frozen=True)
class QueuePlace:
    """What a project says of a queue: its name in AWS, the key of its environment, and its shares by name."""

    name: str
    environment: str
    shares: tuple[str, ...] = ()
    """Those that have gauges although no job of theirs came."""


class SimulatedGauges(MetricSource):
    """Answers for CloudWatch with the gauges of one policy of a simulation.

    Args:
        policy: an entry of ``policies``, with its ``starts``.
        stack: of the alarms.
        place_of: gives what is known of a queue by its key.

    Raises:
        UsageError: the entry has no ``starts``.
    """

    def __init__(self, policy: Mapping[str, Any], stack: str, place_of: Callable[[str], QueuePlace]) -> None:
        if "starts" not in policy:
            raise UsageError(f"the simulation of {policy.get('name')} does not tell when jobs started", hint=_HINT)
        pieces: dict[Where, list[_Piece]] = {}
        self._queues: dict[Where, _Queue] = {}
        for queue, piece in _pieces(policy):
            place = place_of(queue)
            where = dimensions(stack, place.name)
            reservation = policy.get("compute_reservation", {}).get(queue, 0)
            self._queues[where] = _Queue(place.environment, policy["capacity"][place.environment], reservation)
            for share in place.shares:
                pieces.setdefault(dimensions(stack, place.name, share), [])
            for group in (where, dimensions(stack, place.name, piece.share), ((_BATCH_QUEUE, place.name),)):
                pieces.setdefault(group, []).append(piece)
        self.end = max((piece.end for found in pieces.values() for piece in found), default=0) + MINUTE
        self._minutes = range(-_BEFORE, self.end, MINUTE)
        self._sampled = {where: _Sampled(found, self._minutes) for where, found in pieces.items()}

    def knows(self, query: MetricQuery) -> bool:
        """Whether a simulation tells this series."""
        gauges = _OF_BATCH if query.namespace == QUEUE_NAMESPACE else _OF_SHARE if _is_of_share(query) else _OF_QUEUE
        return (
            query.namespace in (NAMESPACE, QUEUE_NAMESPACE)
            and query.name in gauges
            and tuple(query.dimensions) in self._sampled
            and query.statistic in _STATISTICS
        )

    def series(self, queries: Sequence[MetricQuery], start: int, end: int) -> Mapping[MetricQuery, tuple[Point, ...]]:
        """Return each series in its period; what a simulation does not know has no points."""
        return {query: self._points(query, start, end) if self.knows(query) else () for query in queries}

    def put(self, data: Sequence[Datum]) -> None:
        """A simulation takes no values."""
        raise UsageError("a simulation takes no values", hint="publish them to CloudWatch")

    def _points(self, query: MetricQuery, start: int, end: int) -> tuple[Point, ...]:
        period, statistic = query.period * 1000, _STATISTICS[query.statistic]
        groups: dict[int, list[float]] = {}
        for at, value in zip(self._minutes, self._values(query), strict=True):
            if query.namespace == QUEUE_NAMESPACE and not value:
                continue  # AWS Batch publishes nothing when nothing happens
            if start <= at < end and (at >= 0 or query.name == "CollectorRuns"):
                groups.setdefault(at // period * period, []).append(value)
        return tuple(Point(at, float(statistic(values))) for at, values in sorted(groups.items()))

    def _values(self, query: MetricQuery) -> Sequence[float]:
        where = tuple(query.dimensions)
        gauges = self._sampled[where]
        match query.name:
            case "CapacityLimit":
                return [self._queues[where].capacity] * len(self._minutes)
            case "CapacityUtilization":
                return [100 * used / self._queues[where].capacity for used in gauges.read("CapacityUsed")]
            case "IdleCapacityWhileWaiting":
                return self._idle(where)
            case "UsageShare":
                own, all_ = gauges.read("CapacityUsed"), self._sampled[where[:2]].read("CapacityUsed")
                return [100 * part / whole if whole else 0 for part, whole in zip(own, all_, strict=True)]
        return gauges.read(query.name)

    def _idle(self, where: Where) -> Sequence[float]:
        """The rule of the live gauge, minute by minute."""
        queue = self._queues[where]
        waiting = self._sampled[where].read("RunnableJobs")
        active = self._active_shares(where)
        users = [other for other, each in self._queues.items() if each.environment == queue.environment]
        used = map(sum, zip(*(self._sampled[user].read("CapacityUsed") for user in users), strict=True))
        rule = partial(idle_while_waiting, queue.capacity, queue.compute_reservation)
        return [
            rule(active=shares, used=int(held), waiting=int(jobs))
            for shares, held, jobs in zip(active, used, waiting, strict=True)
        ]

    def _active_shares(self, where: Where) -> Sequence[int]:
        """Return how many shares of a queue have a job that has not ended, at each look."""
        shares = [gauges for group, gauges in self._sampled.items() if len(group) > len(where) and group[:2] == where]
        return [sum(number > 0 for number in numbers) for numbers in zip(*map(_Sampled.unended, shares), strict=True)]


_OF_SHARE: Final = frozenset(
    {"RunnableJobs", "LaunchingJobs", "RunningJobs", "OldestWaitSeconds", "CapacityUsed", "UsageShare"}
    | {"SucceededJobs", "FailedJobs"}
)
_OF_QUEUE: Final = (_OF_SHARE - {"UsageShare"}) | {
    "CapacityLimit",
    "CapacityUtilization",
    "IdleCapacityWhileWaiting",
    "CollectorRuns",
}


_OF_BATCH: Final = frozenset({"JobsPreempted"})


def _is_of_share(query: MetricQuery) -> bool:
    return len(query.dimensions) == 3


class _Sampled:
    """Some attempts, looked at each minute; once for each gauge."""

    def __init__(self, pieces: Sequence[_Piece], minutes: range) -> None:
        self._pieces, self._minutes = pieces, minutes
        self._known: dict[str, Sequence[float]] = {}

    def read(self, gauge: str) -> Sequence[float]:
        """Return the values of a gauge, one for each minute."""
        if gauge not in self._known:
            self._known[gauge] = self._values(gauge)
        return self._known[gauge]

    def unended(self) -> list[float]:
        """Return how many jobs have come and not ended, at each look."""
        return self._level((piece.waits_from, piece.end, 1) for piece in self._pieces)

    def _values(self, gauge: str) -> Sequence[float]:
        match gauge:
            case "RunnableJobs":
                return self._level((piece.waits_from, piece.start, 1) for piece in self._pieces)
            case "RunningJobs":
                return self._level((piece.start, piece.end, 1) for piece in self._pieces)
            case "CapacityUsed":
                return self._level((piece.start, piece.end, piece.instances) for piece in self._pieces)
            case "OldestWaitSeconds":
                return self._oldest()
            case "SucceededJobs":
                return self._ends(preempted=False)
            case "JobsPreempted":
                return self._ends(preempted=True)
            case "CollectorRuns":
                return [1] * len(self._minutes)
        return [0] * len(self._minutes)  # LaunchingJobs, FailedJobs: a simulation has neither

    def _level(self, spans: Iterable[tuple[int, int, int]]) -> list[float]:
        """Add up (begin, end, amount): what is there at each look."""
        changes = [0] * (len(self._minutes) + 1)
        for begin, end, amount in spans:
            first, last = self._number(begin), self._number(end)
            changes[min(first, len(self._minutes))] += amount
            changes[min(last, len(self._minutes))] -= amount
        return list(accumulate(changes[:-1]))

    def _number(self, at: int) -> int:
        """Return which look is the first at or after an instant."""
        return -(-(at - self._minutes.start) // MINUTE)

    def _oldest(self) -> list[float]:
        coming = sorted(self._pieces, key=lambda piece: piece.waits_from)
        starts = [piece.waits_from for piece in coming]
        waiting: list[tuple[int, int]] = []
        values, known = [], 0
        for at in self._minutes:
            there = bisect_right(starts, at)
            for piece in coming[known:there]:
                heappush(waiting, (piece.submit, piece.start))
            known = there
            while waiting and waiting[0][1] <= at:
                heappop(waiting)
            values.append((at - waiting[0][0]) // 1000 if waiting else 0)
        return [float(value) for value in values]

    def _ends(self, *, preempted: bool) -> list[float]:
        counts = [0] * len(self._minutes)
        for piece in self._pieces:
            if piece.is_preempted is preempted:
                counts[min((piece.end - self._minutes.start) // MINUTE, len(self._minutes) - 1)] += 1
        return [float(count) for count in counts]


def policy_of(document: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """Return one policy of a ``Simulation`` document; ``name`` None = the only one.

    Raises:
        UsageError: it is no such document, or does not say which.
    """
    policies = document.get("policies") if document.get("kind") == "Simulation" else None
    if not policies:
        raise UsageError("this is no simulation", hint=_HINT)
    names = [str(policy["name"]) for policy in policies]
    if name is None and len(policies) > 1:
        raise UsageError(
            f"the simulation has several policies: {', '.join(names)}", hint="say which with --policy NAME"
        )
    for policy in policies:
        if name in (None, policy["name"]):
            return dict(policy)
    raise UsageError(f"the simulation has no policy {name}", hint=did_you_mean(str(name), names, "policies"))


def backtest_simulation(
    gauges: SimulatedGauges,
    alarms: Sequence[tuple[str, AlarmDefinition]],
    queries_of: Callable[[AlarmDefinition], Collection[MetricQuery]],
    change: Change,
) -> tuple[Backtest, ...]:
    """Replay alarms (name and definition) over a simulation. Those on what it does not tell have a note instead."""
    chosen = [AlarmStatus(name, definition, AlarmState.OK, 0, "", 0) for name, definition in alarms]
    found = []
    for alarm in chosen:
        if (why := _unknown(alarm.definition, gauges, queries_of)) is not None:
            found.append(Backtest(alarm, None, why))
        else:
            (tested,) = backtest_alarms(
                _NoAlarms(), gauges, [alarm], start=-_BEFORE, now=gauges.end, change=change, keeps_all=True
            )
            found.append(replace(tested, replayed=_from_begin(tested.replayed), before=_from_begin(tested.before)))
    return tuple(found)


def _from_begin(replayed: Replay | None) -> Replay | None:
    """Leave out the day before."""
    if replayed is None:
        return None
    spans = tuple(replace(span, begin=max(0, span.begin)) for span in replayed.spans if span.end > 0)
    points = {at: value for at, value in replayed.datapoints.items() if at >= 0}
    return replace(replayed, begin=0, spans=spans, datapoints=points)


def _unknown(
    alarm: AlarmDefinition, gauges: SimulatedGauges, queries_of: Callable[[AlarmDefinition], Collection[MetricQuery]]
) -> str | None:
    """Return why an alarm cannot be replayed over a simulation; None = it can."""
    if alarm.rule is not None:
        return "it depends on other alarms"
    unknown = sorted({query.name for query in queries_of(alarm) if not gauges.knows(query)})
    return f"a simulation does not tell {', '.join(unknown)}" if unknown else None


class _NoAlarms(AlarmSource):
    """There are no others."""

    def alarms(self, prefix: str = "", names: Collection[str] = ()) -> tuple[AlarmStatus, ...]:
        """None."""
        return ()

    def alarm_history(self, names: Collection[str], start: int) -> Mapping[str, Any]:
        """Nothing happened."""
        return {}


def _pieces(policy: Mapping[str, Any]) -> list[tuple[str, _Piece]]:
    """Return (queue, attempt) of each start that ended; a job that was preempted waits again from then on."""
    since: dict[str, int] = {}
    found = []
    for entry in policy["starts"]:
        if entry["end_seconds"] is None:
            continue
        queue, _, share = entry["share"].rpartition("/")
        submit, start, end = (round(entry[f"{name}_seconds"] * 1000) for name in ("submit", "start", "end"))
        piece = _Piece(
            share, entry["instances"], submit, since.get(entry["job"], submit), start, end, bool(entry["preempted"])
        )
        since[entry["job"]] = end
        found.append((queue or str(policy["queue"]), piece))
    return found
