"""``alarms:`` of a project file: what it changes, and what it refuses, with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.config.alarms import DEFAULT_ALARMS, AlarmsSection
from fairshare.config.durations import format_duration
from fairshare.metrics.gauges import GAUGES
from fairshare.metrics.queue import COUNTS

TOPIC = "arn:aws:sns:us-west-2:111122223333:ops"


@pytest.fixture
def alarms_of(read_project, vary):
    def read(alarms: str, queue: str = "gpu"):
        project = read_project(vary(("alarms: {}", f"alarms: {alarms}")))
        return {alarm.id: alarm for alarm in project.alarms.of_queue(queue, project.queues[queue].kind)}

    return read


FAIR = {alarm.id for alarm in DEFAULT_ALARMS} - {"preemptions"}
FIFO = FAIR - {"share_starved"}


def test_every_alarm_of_its_kind_of_queue_is_on_by_default(alarms_of, read_project):
    assert tuple(alarms_of("{}").values()) == tuple(alarm for alarm in DEFAULT_ALARMS if alarm.id in FAIR)
    assert alarms_of("{}", "batch").keys() == FIFO
    assert {alarm.id for alarm in AlarmsSection().of_queue("any", "quota shares")} == FIFO | {"preemptions"}


def test_preemptions_have_a_threshold_in_jobs(alarms_of):
    section = AlarmsSection.model_validate({"preemptions": {"threshold": 3}})
    (alarm,) = (alarm for alarm in section.of_queue("any", "quota shares") if alarm.id == "preemptions")

    assert (alarm.threshold, alarm.period) == (3, 3600)


def test_the_defaults_watch_gauges_that_are_published_and_say_what_to_do():
    gauges = {gauge.name: gauge for gauge in GAUGES}
    for default in DEFAULT_ALARMS:
        for name in () if default.is_of_batch else default.gauges:
            assert gauges[name].of_share if default.scope == "share" else gauges[name].of_queue, default.id
            assert gauges[name].of_queue or not default.also_of_queue, default.id
        assert not default.is_of_batch or (set(default.gauges) <= set(COUNTS) and default.scope == "queue"), default.id
        assert default.datapoints_to_alarm <= default.evaluation_periods
        assert default.missing_because
        assert len(default.description) <= 1024  # API_PutMetricAlarm
        assert "`" in default.description  # a command, or a key to change


def test_settings_replace_what_is_default_and_nothing_else(alarms_of):
    alarms = alarms_of(
        "{oldest_wait: {threshold: 2h}, failure_rate: {threshold: 20%}, capacity_idle: {threshold: 2, period: 10m}}"
    )

    assert alarms["oldest_wait"].threshold == 7200
    assert alarms["oldest_wait"].evaluation_periods == 3
    assert alarms["failure_rate"].threshold == 20
    assert (alarms["capacity_idle"].threshold, alarms["capacity_idle"].period) == (2, 600)
    assert alarms["blocked"] in DEFAULT_ALARMS


@pytest.mark.parametrize(
    ("settings", "count", "periods"),
    [("evaluation_periods: 5", 5, 5), ("evaluation_periods: 5, datapoints_to_alarm: 2", 2, 5), ("period: 1m", 3, 3)],
)
def test_without_datapoints_to_alarm_all_periods_must_breach(alarms_of, settings, count, periods):
    blocked = alarms_of(f"{{blocked: {{{settings}}}}}")["blocked"]

    assert (blocked.datapoints_to_alarm, blocked.evaluation_periods) == (count, periods)


@pytest.mark.parametrize("off", ["off", "false", "{enabled: false}"])
def test_an_alarm_can_be_off_and_a_queue_can_have_it_all_the_same(alarms_of, off):
    text = f"{{utilization_low: {off}, queues: {{batch: {{utilization_low: on, blocked: {off}}}}}}}"

    assert alarms_of(text).keys() == FAIR - {"utilization_low"}
    assert alarms_of(text, "batch").keys() == FIFO - {"blocked"}


def test_what_a_queue_says_wins_key_by_key(alarms_of):
    text = "{oldest_wait: {threshold: 2h, period: 10m}, queues: {gpu: {oldest_wait: {threshold: 30m}}}}"

    of_gpu, of_batch = (alarms_of(text, queue)["oldest_wait"] for queue in ("gpu", "batch"))
    assert (of_gpu.threshold, of_gpu.period) == (1800, 600)
    assert (of_batch.threshold, of_batch.period) == (7200, 600)


def test_all_of_them_can_be_off(alarms_of):
    assert alarms_of("{enabled: false, oldest_wait: {threshold: 2h}}") == {}


def test_a_treatment_of_missing_data_that_was_chosen_says_so(alarms_of):
    blocked = alarms_of("{blocked: {treat_missing_data: ignore}}")["blocked"]

    assert (blocked.treat_missing_data, blocked.missing_because) == ("ignore", "fairshare.yaml says so")


@pytest.mark.parametrize(
    ("alarms", "problem"),
    [
        (
            "{oldest_wait: 2h}",
            '20:23 alarms.oldest_wait: must be off, on or settings, not "2h" | as in {threshold: ...}',
        ),
        ('{blocked: "off"}', '20:19 alarms.blocked: must be off, on or settings, not "off" | as in {threshold: ...}'),
        ("{oldest_wait: {threshold: 50%}}", '20:35 alarms.oldest_wait.threshold: "50%" is not a duration'),
        ("{failure_rate: {threshold: 2h}}", "20:36 alarms.failure_rate.threshold: must be per cent, as in 60%, not"),
        ("{capacity_idle: {threshold: 0}}", "20:37 alarms.capacity_idle.threshold: must be at least 1, not 0"),
        ("{blocked: {threshold: 1}}", '20:20 unknown key "threshold" in alarms.blocked | keys here: enabled, period'),
        ("{oldest_wiat: off}", '20:10 unknown key "oldest_wiat" in alarms | did you mean oldest_wait?'),
        ("{blocked: {period: 90}}", "20:28 alarms.blocked.period: must be a multiple of 60 s, not 90 s | gauges are"),
        (
            "{blocked: {datapoints_to_alarm: 4}}",
            "20:41 alarms.blocked.datapoints_to_alarm: 4 of 3 datapoints can never breach | raise evaluation_periods",
        ),
        (
            "{blocked: {evaluation_periods: 300}}",
            "20:40 alarms.blocked.evaluation_periods: 300 x 5 min is more than 1 d | CloudWatch looks back no further",
        ),
        (
            "{utilization_low: {evaluation_periods: 169}}",
            "20:48 alarms.utilization_low.evaluation_periods: 169 x 1 h is more than 7 d",
        ),
        (
            "{blocked: {treat_missing_data: notbreaching}}",
            "20:40 alarms.blocked.treat_missing_data: must be missing, notBreaching, breaching or ignore, not "
            '"notbreaching" | did you mean notBreaching?',
        ),
        ("{sns_topic: ops}", '20:21 alarms.sns_topic: "ops" is not the ARN of an SNS topic | as in arn:aws:sns:'),
        (
            "{sns_topic: arn:aws:sns:eu-west-1:111122223333:ops}",
            "20:21 the topic is in eu-west-1, and alarms of us-west-2 cannot tell it",
        ),
        ("{queues: {gpuu: {blocked: off}}}", '20:19 unknown queue "gpuu" in alarms | did you mean gpu? (queues: gpu'),
        ("{queues: {gpu: {sns_topic: x}}}", '20:25 unknown key "sns_topic" in alarms.queues.gpu'),
        (
            "{blocked: {evaluation_periods: 9}, queues: {gpu: {blocked: {datapoints_to_alarm: 10}}}}",
            "20:90 alarms.queues.gpu.blocked.datapoints_to_alarm: 10 of 9 datapoints can never breach",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(project_problems, vary, alarms, problem):
    (found,) = project_problems(vary(("alarms: {}", f"alarms: {alarms}")))

    assert found.startswith(problem)


def test_an_alarm_that_a_kind_of_queue_does_not_have_is_warned_of(read_project, vary):
    alarms = "{queues: {gpu: {preemptions: {threshold: 3}}, batch: {share_starved: off, preemptions: {threshold: 3}}}}"
    warnings = read_project(vary(("alarms: {}", f"alarms: {alarms}"))).warnings
    only = "only queues with quota shares have the alarm preemptions, and"

    assert [(found.line, found.message) for found in warnings] == [
        (20, f"{only} gpu is of another kind: this changes nothing"),
        (20, f"{only} batch is of another kind: this changes nothing"),
    ]


def test_a_topic_is_taken_as_it_is(read_project, vary):
    project = read_project(vary(("alarms: {}", f"alarms: {{sns_topic: {TOPIC}}}")))

    assert project.alarms.sns_topic == TOPIC


SIGNS = {
    "GreaterThanOrEqualToThreshold": ">=",
    "GreaterThanThreshold": ">",
    "LessThanThreshold": "<",
}


@pytest.mark.parametrize("default", DEFAULT_ALARMS, ids=lambda default: default.id)
def test_the_page_about_alarms_tells_the_defaults_as_they_are(default):
    page = (Path(__file__).parents[3] / "docs" / "alarms.md").read_text(encoding="utf-8")
    watched = default.expression or default.gauges[0]
    often = f"{default.datapoints_to_alarm} of {default.evaluation_periods} x {format_duration(default.period)}"
    limit = f"{SIGNS[default.comparison_operator]} {default.threshold:g}"

    fires = f"{watched} ({default.statistic}) {limit}, {often}"
    assert f"| `{default.id}` | {fires} | {default.scope} | {default.treat_missing_data} |\n" in page
