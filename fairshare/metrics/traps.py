"""The traps that alarms fall into: a table of rules over the facts of `fairshare.metrics.alarm_facts`.

Rules are those of `fairshare.metrics.rules`: what must hold, what is shown as evidence, and the setting to change, in
AWS's words. Thresholds are ours; each rule has an alarm that falls into it and some that do not among the tests.
"""

from __future__ import annotations

from typing import Final

from fairshare.metrics.rules import Rule, Test

_ENOUGH: Final = Test("points", ">=", 10)
_STEADY: Final = Test("coverage", ">=", 0.8)
_GONE: Final = ("dimension-gone",)

TRAPS: Final = (
    Rule(
        id="lost-alarm",
        title="it depends on an alarm that does not exist",
        when=((Test("lost_alarms", ">=", 1),),),
        evidence="Its rule names {lost}: what it says of that never holds.",
        advice=("Correct the alarm_rule, or create {lost} again.",),
    ),
    Rule(
        id="impossible-datapoints",
        title="it can never fire",
        when=((Test("impossible", "==", 1),),),
        evidence="{datapoints_to_alarm} of {evaluation_periods} datapoints can never breach.",
        advice=("Set datapoints_to_alarm to {evaluation_periods}, or evaluation_periods to {datapoints_to_alarm}.",),
    ),
    Rule(
        id="threshold-never",
        title="no possible value breaches its threshold",
        when=((Test("never", "==", 1),),),
        evidence="{metric} never goes beyond {threshold:g}.",
        advice=("Set threshold to a value that {metric} can cross.",),
    ),
    Rule(
        id="threshold-always",
        title="every possible value breaches its threshold",
        when=((Test("always", "==", 1),),),
        evidence="{metric} is always beyond {threshold:g}.",
        advice=("Set threshold to a value that {metric} can cross.",),
    ),
    Rule(
        id="high-resolution-period",
        title="its period is shorter than the resolution of the metric",
        when=((_ENOUGH, Test("period", "<", 60), Test("spacing", ">=", 60)),),
        evidence="The period is {period} s, and values come every {spacing} s: most periods hold none.",
        advice=("Set period to 60 (or publish with StorageResolution 1).",),
    ),
    Rule(
        id="period-too-short",
        title="its period is shorter than the time between two values",
        when=((_ENOUGH, Test("spacing_periods", ">=", 2), Test("is_regular", "==", 1)),),
        evidence="Values come every {spacing_text}, so most periods of {period} s hold none.",
        advice=("Set period to {spacing}.",),
        unless=("high-resolution-period",),
    ),
    Rule(
        id="never-evaluated",
        title="it has never seen a value",
        when=(
            (
                Test("points", "==", 0),
                Test("is_lacking", "==", 1),
                Test("changes", "==", 0),
                Test("age_periods", ">=", 10),
            ),
        ),
        evidence="Since it was set up {age} ago there has been no value of {metric} with {where}.",
        advice=("Correct namespace, metric name and dimensions: they have to match whole and exactly.",),
        unless=_GONE,
    ),
    Rule(
        id="dimension-gone",
        title="what it watches is no longer published",
        when=(
            (Test("points", "==", 0), Test("is_of_host", "==", 1)),
            (Test("silent_periods", ">=", 1), Test("is_of_host", "==", 1)),
            (_ENOUGH, _STEADY, Test("silent_days", ">=", 1), Test("silent_periods", ">=", 1)),
        ),
        evidence="There is no value of {metric} with {where} any more{since}.",
        advice=(
            "Host {host} ended with its attempt, and the next one has another name: watch the queue instead "
            "(namespace fairshare, metric CapacityUtilization, dimensions Stack and Queue).",
            "Set the dimensions to what is published now, or delete the alarm.",
        ),
    ),
    Rule(
        id="missing-hides-silence",
        title="it stays quiet when nothing at all arrives",
        when=((Test("is_heartbeat", "==", 1), Test("treats_as_breaching", "==", 0)),),
        evidence="It fires when too little comes, but when nothing comes that counts as {treat_missing_data}.",
        advice=("Set treat_missing_data to breaching.",),
    ),
    Rule(
        id="missing-fires",
        title="it fires because nothing happened",
        when=(
            (
                _ENOUGH,
                Test("is_heartbeat", "==", 0),
                Test("treats_as_breaching", "==", 1),
                Test("coverage", "<", 0.8),
            ),
        ),
        evidence="{missing_percent:.0f} % of the periods have no value, and each of them counts as breaching.",
        advice=("Set treat_missing_data to notBreaching: it would have fired {quiet_fires} times, not {would_fire}.",),
        unless=("period-too-short", "high-resolution-period"),
    ),
    Rule(
        id="missing-means-ok",
        title="its OK means nothing",
        when=((_ENOUGH, _STEADY, Test("treats_as_fine", "==", 1), Test("silent_periods", ">=", 1)),),
        evidence="No value has come for {silent}, and none counts as within the threshold.",
        advice=("Set treat_missing_data to missing, and find out what has stopped publishing {metric}.",),
        unless=_GONE,
    ),
    Rule(
        id="flapping",
        title="it fires too often to be believed",
        when=((Test("would_fire_a_day", ">=", 6),), (Test("fired_a_day", ">=", 6),)),
        evidence="It fires up to {most_a_day} times in 24 hours.",
        advice=(
            "Set evaluation_periods to {calmer_periods} and datapoints_to_alarm to {calmer_count}: it would have fired "
            "{calmer_fires} times, not {would_fire}.",
            "Move the threshold away from where {metric} usually is (a hundredth of its values lies beyond {usual:g}).",
            "Raise evaluation_periods and datapoints_to_alarm; of a composite alarm, those of what it depends on.",
        ),
        unless=("missing-fires", "period-too-short", "high-resolution-period"),
    ),
    Rule(
        id="always-firing",
        title="it fires all the time, so it tells nothing",
        when=((Test("is_firing", "==", 1), Test("firing_part", ">=", 0.9), Test("days", ">=", 3)),),
        evidence="It has been in ALARM for {firing_percent:.0f} % of {time}.",
        advice=(
            "If that is normal, set threshold to {usual:g}: it would have fired {usual_fires} times; if not, mend what "
            "it tells of.",
            "Mend what it tells of, or delete it.",
        ),
        unless=("missing-fires", "threshold-always", "dimension-gone"),
    ),
    Rule(
        id="never-fired",
        title="its threshold is out of reach",
        when=(
            (
                Test("points", ">=", 100),
                Test("would_fire", "==", 0),
                Test("fired", "==", 0),
                Test("watched_days", ">=", 7),
                Test("reach", ">=", 20),
            ),
        ),
        evidence="In {time}, {metric} never came nearer to {threshold:g} than {farthest:g}.",
        advice=("Set threshold to {near:g} to hear of what is new, or leave it if it is a last resort.",),
        unless=("threshold-never",),
    ),
    Rule(
        id="actions-disabled",
        title="its actions are disabled, so it tells nobody",
        when=((Test("actions_enabled", "==", 0),),),
        evidence="It changes its state, and nothing is sent.",
        advice=("Set actions_enabled to true: `aws cloudwatch enable-alarm-actions --alarm-names {name}`.",),
    ),
    Rule(
        id="no-action",
        title="it has no action, so it tells nobody",
        when=((Test("has_actions", "==", 0), Test("referenced", "==", 0)),),
        evidence="When it fires, nothing is sent.",
        advice=("Set alarm_actions to an SNS topic (alarms: {{sns_topic: ARN}} in fairshare.yaml).",),
        unless=("actions-disabled",),
    ),
)
"""What makes an alarm useless comes before what makes it a nuisance."""
