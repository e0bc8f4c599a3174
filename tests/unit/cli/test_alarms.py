"""``fairshare alarms``, ``review`` and ``backtest`` as commands: exit codes, screens, documents."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fairshare.cli.alarms_view import list_text
from fairshare.cli.render import display_width
from fairshare.metrics.ports import AlarmState, AlarmStatus, Point, StateChange
from fairshare.model import AlarmDefinition, AlarmMetric

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
TOPIC = "arn:aws:sns:eu-west-1:111122223333:ops"
WAIT = AlarmDefinition(
    metrics=(AlarmMetric("m1", "fairshare", "OldestWaitSeconds", (("Queue", "search-gpu"),), "Maximum", 300),),
    comparison_operator="GreaterThanThreshold",
    threshold=100,
    evaluation_periods=3,
    datapoints_to_alarm=3,
    alarm_actions=(TOPIC,),
)
STATES = {"OK": AlarmState.OK, "LACKING": AlarmState.INSUFFICIENT_DATA, "FIRING": AlarmState.ALARM}


@dataclass
class FakeAlarms:
    """Alarms, and the values of the one metric that they watch; a value each five minutes, the last one just now."""

    statuses: list[AlarmStatus] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

    def alarms(self, prefix: str = "", names: Any = ()) -> tuple[AlarmStatus, ...]:
        self.asked.append(prefix if not names else sorted(names))
        wanted = [s for s in self.statuses if (s.name in names if names else s.name.startswith(prefix))]
        return tuple(sorted(wanted, key=lambda status: status.name))

    def alarm_history(self, names: Any, start: int) -> dict[str, tuple[StateChange, ...]]:
        return {}

    def series(self, queries: Any, start: int, end: int) -> dict[Any, tuple[Point, ...]]:
        begin = end - len(self.values) * 300_000
        points = tuple(Point(begin + n * 300_000, value) for n, value in enumerate(self.values))
        return dict.fromkeys(queries, points)


@pytest.fixture
def fakes(cli, monkeypatch, project):
    monkeypatch.chdir(project)
    found = FakeAlarms()
    cli.more |= {"alarms": found, "metrics": found}
    return found


@pytest.fixture
def status(now):
    def make(name: str, state: str = "OK", **changes: Any) -> AlarmStatus:
        definition = changes.pop("definition", WAIT)
        fields = {"since": now - 90 * MINUTE, "reason": "because", "configured_at": now - 30 * DAY}
        return AlarmStatus(f"search-{name}", definition, STATES[state], **(fields | changes))

    return make


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (("OK", "LACKING", "OK"), 11),
        (("OK", "LACKING", "FIRING"), 10),
        (("OK", "FIRING"), 10),
        (("OK", "OK"), 0),
        ((), 0),
    ],
)
@pytest.mark.parametrize("flags", [(), ("-o", "json")])
def test_c40_the_exit_code_tells_firing_before_lacking_data(cli, fakes, status, states, code, flags):
    fakes.statuses = [status(f"gpu-{number}", state) for number, state in enumerate(states)]

    assert cli("alarms", *flags) == code


def test_c40_state_reason_and_disabled_actions_are_in_the_table(cli, fakes, status):
    silent = replace(WAIT, actions_enabled=False)
    fakes.statuses = [
        status("gpu-blocked"),
        status("gpu-oldest-wait", "LACKING", reason="Insufficient Data: 3 datapoints were unknown."),
        status("gpu-failure-rate", "FIRING", definition=silent),
        status("gpu-both", definition=AlarmDefinition(rule="ALARM(a)")),
    ]

    assert cli("alarms") == 10

    assert cli.out.splitlines() == [
        "ALARM                    STATE              SINCE           TELLS     REASON",
        "search-gpu-failure-rate  ALARM              1 h 30 min ago  disabled  because",
        "search-gpu-oldest-wait   INSUFFICIENT_DATA  1 h 30 min ago  yes       Insufficient Data: 3 datapoints were "
        "unknown.",
        "search-gpu-blocked       OK                 1 h 30 min ago  yes       because",
        "search-gpu-both          OK                 1 h 30 min ago  nobody    because",
        "1 firing, 1 without enough data, 2 ok.",
        "The actions of 1 alarm are disabled: nobody is told.",
    ]
    assert cli.err == "Next: fairshare alarms review\n"


def test_c40_a_narrow_terminal_cuts_no_name_and_no_reason(status, now):
    reason = "Threshold Crossed: 3 out of the last 3 datapoints were greater than the threshold (14400)."
    names = ["gpu-oldest-wait-HIGHPRI", "gpu-share-starved-HIGHPRI"]
    alarms = [status(name, state, reason=reason) for name, state in zip(names, ("OK", "FIRING"), strict=True)]

    assert list_text(alarms, now, 80).splitlines() == [
        "ALARM                             STATE  SINCE           TELLS",
        "search-gpu-share-starved-HIGHPRI  ALARM  1 h 30 min ago  yes",
        "search-gpu-oldest-wait-HIGHPRI    OK     1 h 30 min ago  yes",
        "1 firing, 0 without enough data, 1 ok.",
        "search-gpu-share-starved-HIGHPRI",
        "  Threshold Crossed: 3 out of the last 3 datapoints were greater than the",
        "  threshold (14400).",
    ]


def test_c40_the_document(cli, fakes, status):
    fakes.statuses = [status("gpu-blocked", "LACKING", definition=replace(WAIT, actions_enabled=False))]

    assert cli("alarms", "-o", "json") == 11

    assert json.loads(cli.out) == {
        "api_version": "fairshare/v1",
        "kind": "AlarmList",
        "alarms": [
            {
                "name": "search-gpu-blocked",
                "type": "metric",
                "state": "INSUFFICIENT_DATA",
                "since": "2026-11-30T16:30:00.000Z",
                "reason": "because",
                "actions_enabled": False,
                "alarm_actions": [TOPIC],
            }
        ],
    }


def test_only_the_stack_is_looked_at_unless_all_are_wanted(cli, fakes):
    cli("alarms")
    cli("alarms", "--all")

    assert fakes.asked == ["search-", ""]
    assert cli.out == "No alarms.\n"


def test_without_a_stack_all_have_to_be_asked_for(cli, fakes, project):
    (project / "fairshare.yaml").unlink()

    assert cli("alarms") == 2
    assert "no fairshare.yaml says which stack's alarms" in cli.err
    assert cli("alarms", "--all") == 0


def test_c47_names_and_reasons_cannot_move_the_cursor(cli, fakes, status):
    fakes.statuses = [status("gpu-\x1b[2J", "FIRING", reason="ok\r\nFAKE\u202e")]
    cli("alarms")
    cli("alarms", "review")

    assert "\\x1b[2J" in cli.out
    assert not {"\x1b", "\r", "\u202e"} & set(cli.out)


def test_a_review_says_what_to_change_and_groups_what_is_the_same(cli, fakes, status):
    quiet = replace(WAIT, alarm_actions=())
    fakes.statuses = [status("gpu-a", definition=quiet), status("gpu-b", definition=quiet), status("gpu-good")]
    fakes.values = [10.0] * 280 + [200.0] * 20 + [10.0] * 20

    assert cli("alarms", "review") == 0

    assert cli.out == (
        "ALARM            STATE  IN THE LAST 14 D\n"
        "search-gpu-a     OK     would have fired 1 time, 1 h 30 min in all\n"
        "search-gpu-b     OK     would have fired 1 time, 1 h 30 min in all\n"
        "search-gpu-good  OK     would have fired 1 time, 1 h 30 min in all\n"
        "\n"
        "no-action: it has no action, so it tells nobody\n"
        "  search-gpu-a, search-gpu-b\n"
        "    When it fires, nothing is sent.\n"
        "    Set alarm_actions to an SNS topic (alarms: {sns_topic: ARN} in fairshare.yaml).\n"
        "\n"
        "3 alarms looked at, 1 without a finding.\n"
    )


def test_a_review_fits_a_narrow_terminal(cli, fakes, status):
    fakes.statuses = [status(f"gpu-{number}", definition=replace(WAIT, alarm_actions=())) for number in range(9)]
    cli.width = 60

    cli("alarms", "review")

    findings = cli.out.split("\n\n", 1)[1]
    assert max(map(display_width, findings.splitlines())) <= 60


def test_the_document_of_a_review(cli, fakes, status):
    fakes.statuses = [status("gpu-a", definition=replace(WAIT, alarm_actions=()))]
    fakes.values = [200.0] * 12

    assert cli("alarms", "review", "--since", "1d", "-o", "json") == 0

    (alarm,) = json.loads(cli.out)["alarms"]
    assert (alarm["name"], alarm["state"], alarm["note"]) == ("search-gpu-a", "OK", None)
    assert alarm["would_have_fired"] == [{"from": "2026-11-30T17:15:00.000Z", "until": None}]
    assert [(found["id"], found["advice"][:22]) for found in alarm["findings"]] == [
        ("no-action", "Set alarm_actions to a")
    ]


def test_a_backtest_compares_with_other_settings(cli, fakes, status):
    fakes.statuses = [status("gpu-oldest-wait")]
    fakes.values = [10.0] * 100 + [200.0] * 12 + [10.0] * 100 + [90.0] * 24 + [10.0] * 76

    assert cli("alarms", "backtest", "--set", "threshold=80", "--set", "evaluation_periods=2") == 0

    title, row, _, name, *periods = [re.split(r"  +", line.strip()) for line in cli.out.splitlines()]
    assert title == ["ALARM", "WITH threshold=80, evaluation_periods=2", "AS DEFINED"]
    assert row[1:] == ["would have fired 2 times, 2 h 50 min in all", "would have fired 1 time, 50 min in all"]
    assert name == ["search-gpu-oldest-wait"]
    assert [lasts for _, lasts in periods] == ["for 55 min", "for 1 h 55 min"]


def test_the_document_of_a_backtest(cli, fakes, status):
    fakes.statuses = [status("gpu-oldest-wait")]
    fakes.values = [10.0] * 100 + [200.0] * 12 + [10.0] * 100

    cli("alarms", "backtest", "-o", "json")
    (alone,) = json.loads(cli.out)["alarms"]
    cli("alarms", "backtest", "--set", "threshold=1000", "-o", "json")
    document = json.loads(cli.out)
    (compared,) = document["alarms"]

    assert document["kind"] == "AlarmReview"
    assert alone["would_have_fired"] == [{"from": "2026-11-30T08:55:00.000Z", "until": "2026-11-30T09:45:00.000Z"}]
    assert "as_defined" not in alone
    assert (compared["would_have_fired"], compared["as_defined"]) == ([], alone["would_have_fired"])


def test_c38_no_data_is_not_told_as_an_alarm_that_stayed_quiet(cli, fakes, status):
    fakes.statuses = [status("gpu-oldest-wait")]

    cli("alarms", "backtest")
    assert cli.out.splitlines()[1].split("  ")[-1] == "no data"
    fakes.values = [0.0] * 10
    cli("alarms", "backtest")
    assert cli.out.splitlines()[1].split("  ")[-1] == "would not have fired"


def test_of_many_periods_the_latest_are_shown(cli, fakes, status):
    fakes.statuses = [status("gpu-oldest-wait")]
    fakes.values = ([200.0] * 3 + [0.0] * 3) * 15

    cli("alarms", "backtest")

    assert "  5 earlier ones, and then\n" in cli.out
    assert cli.out.count("  for 5 min") == 10


def test_what_cannot_be_replayed_says_why(cli, fakes, status):
    band = replace(WAIT, threshold=None)
    fakes.statuses = [status("gpu-band", definition=band)]

    assert cli("alarms", "backtest") == 0
    assert "cannot be replayed: it compares with a band that CloudWatch learns" in cli.out


def test_an_alarm_is_named_with_or_without_its_stack(cli, fakes, status):
    fakes.statuses = [status("gpu-oldest-wait"), status("gpu-blocked")]

    assert (
        cli("alarms", "backtest", "--alarm", "gpu-oldest-wait", "--alarm", "search-gpu-oldest-wait", "-o", "name") == 0
    )
    assert cli.out == "search-gpu-oldest-wait\n"


def test_an_alarm_that_does_not_exist_is_an_error_with_a_guess(cli, fakes, status):
    fakes.statuses = [status("gpu-oldest-wait")]

    assert cli("alarms", "review", "--alarm", "gpu-oldest-wiat") == 4
    assert "there is no alarm gpu-oldest-wiat" in cli.err
    assert "did you mean search-gpu-oldest-wait?" in cli.err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("backtest", "--set", "treshold=1"), 'unknown setting "treshold"'),
        (("backtest", "--since", "soon"), "--since:"),
        (("review", "--since", "0"), "--since: 0 leaves no time"),
    ],
)
def test_wrong_flags_are_refused(cli, fakes, argv, text):
    assert cli("alarms", *argv) == 2
    assert text in cli.err
