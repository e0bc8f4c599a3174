"""When alarms of the local AWS are evaluated, and what they become."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fairshare.local.alarms import AlarmWatch, Move
from fairshare.local.metric_store import MetricStore, Sample, SeriesKey
from fairshare.metrics.ports import AlarmState
from fairshare.model import AlarmDefinition, AlarmMetric

OK, ALARM, LACKING = AlarmState.OK, AlarmState.ALARM, AlarmState.INSUFFICIENT_DATA
MINUTE = 60_000
START = 1_796_061_600_000
KEY = SeriesKey("fairshare", "Blocked", frozenset({("Queue", "ml-gpu")}))


def alarm(**changes) -> AlarmDefinition:
    period = changes.pop("period", 60)
    metric = AlarmMetric("m1", "fairshare", "Blocked", (("Queue", "ml-gpu"),), "Maximum", period)
    fields = {
        "metrics": (metric,),
        "comparison_operator": "GreaterThanOrEqualToThreshold",
        "threshold": 1,
        "evaluation_periods": 2,
        "datapoints_to_alarm": 2,
    }
    return AlarmDefinition(**(fields | changes))


@dataclass
class World:
    """A watch, its store, and what moved, in minutes since the begin."""

    now: int = START
    store: MetricStore = field(default_factory=MetricStore)
    moves: list[Move] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = AlarmWatch(self.store, self.moves.append, self.now)

    def put(self, value: float, key: SeriesKey = KEY, at: int | None = None) -> None:
        self.store.add(key, Sample(self.now if at is None else at, value, value, value, 1))
        self.watch.arrived({key}, self.now)

    def advance(self, minutes: float) -> None:
        self.now += round(minutes * MINUTE)
        self.watch.advance(self.now)

    @property
    def told(self) -> list[tuple[str, float, AlarmState]]:
        return [(move.name, (move.at - START) / MINUTE, move.after.state) for move in self.moves]


@pytest.fixture
def world() -> World:
    return World()


def test_an_alarm_is_evaluated_when_a_value_arrives_and_each_minute(world):
    world.watch.put("a", alarm(), LACKING)
    for value in (1, 1, 0):
        world.put(value)
        world.advance(1)
    world.advance(10)

    assert world.told == [("a", 1, ALARM), ("a", 2, OK), ("a", 7, LACKING)]
    assert world.moves[0].after.reason.startswith(
        "Threshold Crossed: 2 out of the last 2 datapoints [1 (30/11/26 18:01"
    )


def test_minutes_that_passed_unseen_are_made_up_for_one_by_one(world):
    world.watch.put("a", alarm(), LACKING)
    world.put(0)
    world.advance(600)

    assert world.told == [("a", 0, OK), ("a", 5, LACKING)]


def test_an_alarm_without_data_sleeps_until_a_value_arrives(world):
    world.watch.put("a", alarm(), LACKING)
    assert world.watch.next_event_at() == START + MINUTE
    world.advance(1)
    assert world.watch.next_event_at() is None

    world.put(0)

    assert world.watch.next_event_at() == START + 2 * MINUTE
    assert world.told == [("a", 1, OK)]


def test_silence_fires_an_alarm_that_takes_missing_data_for_breaching(world):
    beat = alarm(comparison_operator="LessThanThreshold", treat_missing_data="breaching")
    world.watch.put("beat", beat, LACKING)
    world.put(1)
    world.advance(30)

    assert world.told == [("beat", 0, OK), ("beat", 5, ALARM)]
    assert world.watch.next_event_at() is None


def test_a_short_period_is_looked_at_every_ten_seconds(world):
    world.watch.put("fast", alarm(period=10), LACKING)
    world.watch.put("slow", alarm(), LACKING)
    world.put(1)
    world.advance(1 / 6)
    world.put(1)
    world.advance(2)

    fast = [(at, state) for name, at, state in world.told if name == "fast"]
    assert fast == [(pytest.approx(1 / 6), ALARM), (pytest.approx(1), LACKING)]
    slow = [(at, state) for name, at, state in world.told if name == "slow"]
    assert slow == [(2, ALARM)]  # by then the one value is two periods old, and nothing contradicts it


def test_only_alarms_that_watch_the_metric_look_at_a_value(world):
    world.watch.put("a", alarm(evaluation_periods=1, datapoints_to_alarm=1), LACKING)
    world.put(1, key=SeriesKey("other", "Blocked", KEY.dimensions))
    world.put(1, key=KEY._replace(dimensions=frozenset()))
    assert world.told == []

    world.put(1)
    assert world.told == [("a", 0, ALARM)]


def test_composite_alarms_follow_at_once_through_all_levels(world):
    world.watch.put("top", AlarmDefinition(rule="NOT ALARM(middle)"), LACKING)
    world.watch.put("middle", AlarmDefinition(rule="OK(a) OR INSUFFICIENT_DATA(a)"), LACKING)
    world.watch.put("a", alarm(evaluation_periods=1, datapoints_to_alarm=1), LACKING)
    world.advance(1)
    world.moves.clear()

    world.put(1)

    assert [(name, state) for name, _, state in world.told] == [("a", ALARM), ("middle", OK), ("top", ALARM)]


def test_composite_alarms_in_a_circle_do_not_turn_for_ever(world):
    world.watch.put("a", AlarmDefinition(rule="NOT ALARM(b)"), LACKING)
    world.watch.put("b", AlarmDefinition(rule="NOT ALARM(a)"), LACKING)

    world.advance(3)

    assert world.watch.next_event_at() is None


@pytest.mark.parametrize("definition", [alarm(threshold=None), AlarmDefinition(rule="AT_LEAST(1, ALARM, (a))")])
def test_what_cannot_be_evaluated_here_keeps_its_state(world, definition):
    world.watch.put("a", definition, LACKING)
    world.put(1)
    world.advance(5)

    assert world.told == []
    assert world.watch.next_event_at() is None


def test_a_dropped_alarm_is_forgotten(world):
    world.watch.put("a", alarm(), LACKING)
    world.watch.drop("a")
    world.watch.drop("never there")
    world.put(1)

    assert world.told == []
    assert world.watch.next_event_at() is None


def test_a_changed_alarm_wakes(world):
    world.watch.put("a", alarm(), LACKING)
    world.put(1)
    world.advance(60)
    world.moves.clear()

    world.watch.put("a", alarm(treat_missing_data="breaching"), LACKING)
    world.advance(1)

    assert world.told == [("a", 61, ALARM)]
