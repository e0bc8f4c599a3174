"""Twelve and more alarms that fell into a trap, six good ones, and two weeks of what their metrics were."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from fairshare.local.alarms import key_of
from fairshare.local.metric_store import MetricStore, Sample
from fairshare.metrics.backtest import read_past
from fairshare.metrics.ports import AlarmState, AlarmStatus, Point, StateChange
from fairshare.metrics.review import backtest_alarms, review_alarms
from fairshare.metrics.traps import TRAPS
from fairshare.metrics.window import MAX_POINTS
from fairshare.model import AlarmDefinition, AlarmMetric

DAY = 86_400_000
NOW = 1_796_061_600_000
START = NOW - 14 * DAY
TOPIC = "arn:aws:sns:us-west-2:111122223333:ops"
HOST = (("Host", "AWSBatchbert0123/algo-1"),)
Values = Callable[[int], float | None]


def definition(name: str, **changes) -> AlarmDefinition:
    """An alarm that is fine: maximum above 100 in 3 of 3 periods of 5 minutes, and somebody is told."""
    metric = {"namespace": "fairshare", "name": name, "statistic": "Maximum", "period": 300}
    metric |= {key: changes.pop(key) for key in ("namespace", "statistic", "period", "unit") if key in changes}
    metric |= {"dimensions": changes.pop("dimensions", (("Queue", "ml-gpu"),))}
    fields = {
        "metrics": (AlarmMetric(**metric),),
        "comparison_operator": "GreaterThanThreshold",
        "threshold": 100,
        "evaluation_periods": 3,
        "datapoints_to_alarm": 3,
        "alarm_actions": (TOPIC,),
    }
    return AlarmDefinition(**(fields | changes))


@dataclass
class World:
    """Alarms and metrics behind the two ports."""

    statuses: dict[str, AlarmStatus] = field(default_factory=dict)
    history: dict[str, tuple[StateChange, ...]] = field(default_factory=dict)
    store: MetricStore = field(default_factory=MetricStore)
    asked: list[int] = field(default_factory=list)

    def add(self, name: str, alarm: AlarmDefinition, values: Values | None = None, every: int = 300, **status) -> None:
        """Add an alarm whose metric has ``values(n)`` in its n-th step of ``every`` seconds since the begin."""
        fields = {"state": AlarmState.OK, "since": START, "reason": "", "configured_at": START - 16 * DAY}
        self.statuses[name] = AlarmStatus(name, alarm, **(fields | status))
        for query in {key_of(query): query for query in queries_of(alarm)}.values() if values else ():
            for number in range(14 * DAY // 1000 // every):
                if (value := values(number)) is not None:
                    at = START + number * every * 1000
                    self.store.add(key_of(query), Sample(at, value, value, value, 1))

    def alarms(self, prefix: str = "", names=()) -> tuple[AlarmStatus, ...]:
        wanted = names or [name for name in self.statuses if name.startswith(prefix)]
        return tuple(self.statuses[name] for name in sorted(wanted) if name in self.statuses)

    def alarm_history(self, names, start) -> Mapping[str, tuple[StateChange, ...]]:
        return {name: changes for name, changes in self.history.items() if name in names}

    def series(self, queries, start, end):
        self.asked.append(len(queries))
        found = {}
        for query in queries:
            points = self.store.points(key_of(query), query.statistic, query.period * 1000, start, end)
            found[query] = tuple(Point(at, value) for at, value in points)
        return found

    def review(self, *names: str):
        chosen = self.alarms(names=names) if names else self.alarms()
        reviews = review_alarms(self, self, chosen, start=START, now=NOW)
        return {review.tested.alarm.name: review for review in reviews}


def queries_of(alarm: AlarmDefinition):
    from fairshare.metrics.backtest import queries_of as queries

    return queries(alarm).values()


def at_times(value: float, portion: float, seed: int = 1, other: float | None = 0.0) -> Values:
    """``value`` at random in this portion of the steps, else another."""
    rng = random.Random(seed)
    return lambda number: value if rng.random() < portion else other


def bursts(number: int) -> float:
    """Two real incidents of some hours, 40 otherwise."""
    return 160.0 if number in range(700, 760) or number in range(2500, 2530) else 40.0 + number % 7


HOUR_STEPS = 12
TRAPPED: dict[str, tuple[AlarmDefinition, Values | None, dict]] = {
    "impossible-datapoints": (definition("A", datapoints_to_alarm=5), bursts, {}),
    "threshold-never": (definition("CapacityUtilization", statistic="Average"), lambda n: 50.0 + n % 40, {}),
    "threshold-always": (
        definition("UsageShare", threshold=0, comparison_operator="GreaterThanOrEqualToThreshold"),
        lambda n: 50.0,
        {"state": AlarmState.ALARM},
    ),
    "high-resolution-period": (definition("B", period=10), bursts, {"every": 60}),
    "period-too-short": (definition("C", period=60), bursts, {}),
    "never-evaluated": (definition("Misspelt"), None, {"state": AlarmState.INSUFFICIENT_DATA}),
    "dimension-gone": (
        definition("GPUUtilization", namespace="/aws/sagemaker/TrainingJobs", dimensions=HOST, threshold=20),
        lambda n: 95.0 if n < 5 * 288 else None,
        {"state": AlarmState.INSUFFICIENT_DATA},
    ),
    "missing-hides-silence": (
        definition("CollectorRuns", statistic="Sum", comparison_operator="LessThanThreshold", threshold=1),
        lambda n: 1.0,
        {},
    ),
    "missing-fires": (
        definition("JobsFailed", statistic="Sum", threshold=5, treat_missing_data="breaching"),
        at_times(1.0, 0.05, other=None),
        {"state": AlarmState.ALARM},
    ),
    "missing-means-ok": (
        definition("D", treat_missing_data="notBreaching"),
        lambda n: 50.0 + n % 5 if n < 4032 - 4 * HOUR_STEPS else None,
        {},
    ),
    "flapping": (
        definition("E", evaluation_periods=1, datapoints_to_alarm=1),
        lambda n: 60.0 + 50 * math.sin(n / 2),
        {},
    ),
    "always-firing": (definition("F"), lambda n: 300.0 + n % 10, {"state": AlarmState.ALARM}),
    "never-fired": (definition("G", threshold=14_400), lambda n: 60.0 + n % 60, {}),
    "actions-disabled": (definition("H", actions_enabled=False), bursts, {}),
    "no-action": (definition("I", alarm_actions=()), bursts, {}),
}
GOOD: dict[str, tuple[AlarmDefinition, Values]] = {
    "good-wait": (definition("OldestWaitSeconds"), bursts),
    "good-blocked": (
        definition("Blocked", threshold=1, comparison_operator="GreaterThanOrEqualToThreshold"),
        lambda n: 0.0,
    ),
    "good-use": (
        definition("CapacityUtilization", comparison_operator="LessThanThreshold", threshold=20, statistic="Average"),
        lambda n: 60.0 + n % 30,
    ),
    "good-heartbeat": (
        definition(
            "Beat",
            statistic="Sum",
            comparison_operator="LessThanThreshold",
            threshold=1,
            treat_missing_data="breaching",
        ),
        lambda n: None if n in range(1000, 1010) else 1.0,
    ),
    "good-sparse": (
        definition(
            "JobsMovedToFailed",
            namespace="AWS/Batch",
            statistic="Sum",
            threshold=3,
            treat_missing_data="notBreaching",
        ),
        at_times(1.0, 0.01, seed=3, other=None),
    ),
    "good-minutes": (definition("Minutes", period=60, evaluation_periods=5, datapoints_to_alarm=4), bursts),
}


@pytest.fixture(scope="module")
def world() -> World:
    built = World()
    for name, (alarm, values, more) in TRAPPED.items():
        built.add(name, alarm, values, **more)
    for name, (alarm, values) in GOOD.items():
        built.add(name, alarm, values, every=60 if name == "good-minutes" else 300)
    built.add("lost-alarm", AlarmDefinition(rule='ALARM("good-wait") AND ALARM("gone")', alarm_actions=(TOPIC,)))
    built.add("good-both", AlarmDefinition(rule="ALARM(good-wait) OR ALARM(good-blocked)", alarm_actions=(TOPIC,)))
    return built


@pytest.fixture(scope="module")
def reviews(world):
    return world.review()


def ids(review) -> list[str]:
    return [finding.id for finding in review.findings]


def test_every_trap_of_the_table_has_an_alarm_in_it():
    assert {rule.id for rule in TRAPS} == {*TRAPPED, "lost-alarm"}


def test_every_trap_is_on_the_page_about_alarms():
    page = (Path(__file__).parents[3] / "docs" / "alarms.md").read_text(encoding="utf-8")

    assert [rule.id for rule in TRAPS if f"`{rule.id}`" not in page] == []


@pytest.mark.parametrize("name", [*TRAPPED, "lost-alarm"])
def test_a_trap_is_found_and_nothing_else(reviews, name):
    assert ids(reviews[name]) == [name]


@pytest.mark.parametrize("name", [*GOOD, "good-both"])
def test_a_good_alarm_is_left_alone(reviews, name):
    assert ids(reviews[name]) == []


@pytest.mark.parametrize(
    ("name", "evidence", "advice"),
    [
        ("period-too-short", "Values come every 5 min, so most periods of 60 s hold none.", "Set period to 300."),
        ("high-resolution-period", "The period is 10 s, and values come every 60 s", "Set period to 60 (or publish"),
        ("missing-hides-silence", "when nothing comes that counts as missing.", "Set treat_missing_data to breaching."),
        ("never-evaluated", "set up 30 d ago there has been no value of Misspelt with Queue=ml-gpu.", "Correct namesp"),
        (
            "dimension-gone",
            "no value of GPUUtilization with Host=AWSBatchbert0123/algo-1 any more, for 9 d",
            "Host AWSB",
        ),
        ("missing-means-ok", "No value has come for 4 h,", "Set treat_missing_data to missing, and find out what has"),
        ("threshold-never", "CapacityUtilization never goes beyond 100.", "Set threshold to a value that"),
        ("never-fired", "In 14 d, G never came nearer to 14400 than 119.", "Set threshold to 130 to hear"),
        ("actions-disabled", "nothing is sent", "`aws cloudwatch enable-alarm-actions --alarm-names actions-disabled`"),
        ("lost-alarm", "Its rule names gone:", "Correct the alarm_rule, or create gone again."),
        ("impossible-datapoints", "5 of 3 datapoints can never breach.", "Set datapoints_to_alarm to 3, or"),
    ],
)
def test_a_finding_says_what_happens_and_which_setting_to_change(reviews, name, evidence, advice):
    (finding,) = reviews[name].findings

    assert evidence in finding.evidence
    assert advice in finding.advice


def test_the_advice_against_flapping_was_tried_on_the_past(world, reviews):
    (finding,) = reviews["flapping"].findings
    assert "Set evaluation_periods to" in finding.advice
    calmer = [int(word.strip(":")) for word in finding.advice.split() if word.strip(":").isdigit()]

    def change(alarm):
        return replace(alarm, evaluation_periods=calmer[0], datapoints_to_alarm=calmer[1])

    (tested,) = backtest_alarms(world, world, world.alarms(names=["flapping"]), start=START, now=NOW, change=change)
    assert len(tested.replayed.firings) == int(finding.advice.split("fired ")[1].split(" ")[0])
    assert len(tested.before.firings) > 4 * len(tested.replayed.firings)


def test_advice_for_alarms_that_always_fire_names_a_threshold_that_was_tried(world, reviews):
    (finding,) = reviews["always-firing"].findings

    assert finding.advice.startswith("If that is normal, set threshold to 309: it would have fired 0 times")


def test_it_says_when_good_alarms_would_have_fired(reviews):
    firings = reviews["good-wait"].tested.replayed.firings

    begins = [(span.begin - START) // 300_000 for span in firings]
    assert begins == [703, 2503]
    assert [(span.end - span.begin) // 300_000 for span in firings] == [58, 28]
    assert reviews["good-both"].tested.replayed.firings == firings


def test_metrics_of_all_alarms_are_read_in_two_rounds(world):
    world.asked.clear()
    world.review()

    assert len(world.asked) == 2  # all of the two weeks, and the three hours that seconds are kept
    assert sum(world.asked) == len({q for status in world.statuses.values() for q in queries_of(status.definition)})


def test_two_weeks_of_minutes_of_twenty_alarms_fit_into_few_pages():
    """GetMetricData answers with at most 100,800 values a page; the longest history is one of every minute."""
    pages = []

    class Full(World):
        def series(self, queries, start, end):
            values = sum((end - start) // (query.period * 1000) for query in queries)
            pages.append(-(-values // MAX_POINTS))
            return super().series(queries, start, end)

    alarms = [definition("Blocked", period=60, dimensions=(("Queue", f"q{number}"),)) for number in range(20)]
    for _ in ("review", "backtest"):
        read_past(Full(), alarms, START, NOW)

    assert 8 <= sum(pages) < 20


def test_the_history_tells_of_flapping_that_cannot_be_replayed():
    world = World()
    band = definition("X", threshold=None, comparison_operator="GreaterThanUpperThreshold")
    world.add("band", band, bursts)
    changes = [StateChange(NOW - 3_600_000 * n, AlarmState.ALARM if n % 2 else AlarmState.OK) for n in range(20, 0, -1)]
    world.history["band"] = tuple(changes)

    review = world.review()["band"]

    assert ids(review) == ["flapping"]
    assert review.findings[0].evidence == "It fires up to 10 times in 24 hours."
    assert review.findings[0].advice.startswith("Raise evaluation_periods and datapoints_to_alarm;")
    assert (review.tested.replayed, review.tested.note) == (
        None,
        "it compares with a band that CloudWatch learns, not with a threshold",
    )


def test_alarms_that_a_composite_one_names_are_looked_up(world):
    reviews = world.review("good-both")

    assert set(reviews) == {"good-both"}
    assert len(reviews["good-both"].tested.replayed.firings) == 2


def test_an_alarm_without_action_that_a_composite_one_depends_on_is_fine():
    world = World()
    world.add("quiet", definition("A", alarm_actions=()), bursts)
    world.add("both", AlarmDefinition(rule="ALARM(quiet)", alarm_actions=(TOPIC,)))

    assert {name: ids(review) for name, review in world.review().items()} == {"quiet": [], "both": []}


def test_a_composite_alarm_flaps_with_what_it_depends_on(world):
    world = World(store=world.store, statuses={"flapping": world.statuses["flapping"]})
    world.add("both", AlarmDefinition(rule="ALARM(flapping)", alarm_actions=(TOPIC,)))

    (finding,) = world.review()["both"].findings

    assert finding.id == "flapping"
    assert finding.advice.endswith("of a composite alarm, those of what it depends on.")


def test_a_lower_threshold_that_is_out_of_reach_is_told_with_one_below_all_values():
    world = World()
    low = definition("Used", comparison_operator="LessThanThreshold", threshold=1, statistic="Minimum")
    world.add("low", low, lambda n: 100.0 + n % 10)

    (finding,) = world.review()["low"].findings

    assert (finding.id, finding.advice[:20]) == ("never-fired", "Set threshold to 90 ")


def test_alarms_that_depend_on_each_other_are_not_replayed_for_ever():
    world = World()
    world.add("a", AlarmDefinition(rule="ALARM(b)", alarm_actions=(TOPIC,)))
    world.add("b", AlarmDefinition(rule="ALARM(a)", alarm_actions=(TOPIC,)))

    assert world.review()["a"].tested.note == "it depends on b, which cannot be replayed"


def test_a_change_reaches_composite_alarms_through_those_they_depend_on(world):
    def change(alarm):
        return alarm if alarm.rule else replace(alarm, threshold=1000)

    chosen = world.alarms(names=["good-both", "good-wait"])
    both, wait = backtest_alarms(world, world, chosen, start=START, now=NOW, change=change)

    assert [len(tested.before.firings) for tested in (both, wait)] == [2, 2]
    assert [len(tested.replayed.firings) for tested in (both, wait)] == [0, 0]
