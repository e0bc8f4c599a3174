"""The gauges of a simulation, minute by minute as the collector would publish them, and alarms replayed over them.

A simulation is the document that ``fairshare simulate --starts -o json`` prints. Its time begins at 0. What it does not
tell (use of processors, prices, whatever SageMaker measures) has no values; an alarm on that is named with the reason.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any, Final

from fairshare.config.errors import did_you_mean
from fairshare.metrics.backtest import Replay
from fairshare.metrics.gauges import NAMESPACE, dimensions
from fairshare.metrics.ports import AlarmSource, AlarmState, AlarmStatus, Datum, MetricQuery, MetricSource, Point
from fairshare.metrics.review import Backtest, Change, backtest_alarms
from fairshare.model import AlarmDefinition, UsageError

MINUTE: Final = 60_000
_BEFORE: Final = 1440 * MINUTE
"""The collector ran for a day before the simulation, so that nobody finds it silent at its begin."""
_STATISTICS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "Average": lambda values: sum(values) / len(values),
    "Maximum": max,
    "Minimum": min,
    "Sum": sum,
    "SampleCount": len,
}
_HINT: Final = "make it with `fairshare simulate ... --starts -o json`"


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


class SimulatedGauges(MetricSource):
    """Answers for CloudWatch with the gauges of one policy of a simulation.

    Args:
        policy: an entry of ``policies``, with its ``starts``.
        stack: of the alarms.
        queue_name: gives the name in AWS of a queue by its key.
        environment_of: gives the key of a queue's service environment.

    Raises:
        UsageError: the entry has no ``starts``.
    """

    def __init__(
        self,
        policy: Mapping[str, Any],
        stack: str,
        queue_name: Callable[[str], str],
        environment_of: Callable[[str], str],
    ) -> None:
        if "starts" not in policy:
            raise UsageError(f"the simulation of {policy.get('name')} does not tell when jobs started", hint=_HINT)
        self._pieces: dict[tuple[tuple[str, str], ...], list[_Piece]] = {}
        self._capacity: dict[tuple[tuple[str, str], ...], int] = {}
        for queue, piece in _pieces(policy):
            name = queue_name(queue)
            self._capacity[dimensions(stack, name)] = policy["capacity"][environment_of(queue)]
            self._pieces.setdefault(dimensions(stack, name), []).append(piece)
            self._pieces.setdefault(dimensions(stack, name, piece.share), []).append(piece)
        self.end = max((piece.end for pieces in self._pieces.values() for piece in pieces), default=0) + MINUTE
        self._minutes = range(-_BEFORE, self.end, MINUTE)

    def knows(self, query: MetricQuery) -> bool:
        """Whether a simulation tells this series."""
        is_share = len(query.dimensions) == 3
        gauges = _OF_SHARE if is_share else _OF_QUEUE
        return (
            query.namespace == NAMESPACE
            and query.name in gauges
            and tuple(query.dimensions) in self._pieces
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
            if start <= at < end and (at >= 0 or query.name == "CollectorRuns"):
                groups.setdefault(at // period * period, []).append(value)
        return tuple(Point(at, float(statistic(values))) for at, values in sorted(groups.items()))

    def _values(self, query: MetricQuery) -> Sequence[float]:
        pieces = self._pieces[tuple(query.dimensions)]
        gauges = _Sampled(pieces, self._minutes)
        if query.name == "CapacityLimit":
            return [self._capacity[tuple(query.dimensions)]] * len(self._minutes)
        if query.name in ("CapacityUtilization", "IdleCapacityWhileWaiting", "UsageShare"):
            return self._of_capacity(query, gauges)
        return gauges.read(query.name)

    def _of_capacity(self, query: MetricQuery, gauges: _Sampled) -> Sequence[float]:
        used = gauges.read("CapacityUsed")
        if query.name == "CapacityUtilization":
            return [100 * value / self._capacity[tuple(query.dimensions)] for value in used]
        if query.name == "IdleCapacityWhileWaiting":
            waiting, capacity = gauges.read("RunnableJobs"), self._capacity[tuple(query.dimensions)]
            return [capacity - held if jobs else 0 for held, jobs in zip(used, waiting, strict=True)]
        whole = _Sampled(self._pieces[tuple(query.dimensions)[:2]], self._minutes).read("CapacityUsed")
        return [100 * own / all_ if all_ else 0 for own, all_ in zip(used, whole, strict=True)]


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


class _Sampled:
    """Some attempts, looked at each minute."""

    def __init__(self, pieces: Sequence[_Piece], minutes: range) -> None:
        self._pieces, self._minutes = pieces, minutes

    def read(self, gauge: str) -> Sequence[float]:
        """Return the values of a gauge, one for each minute."""
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
                return self._ends()
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

    def _ends(self) -> list[float]:
        counts = [0] * len(self._minutes)
        for piece in self._pieces:
            if not piece.is_preempted:
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
