"""fairshare local start: what it refuses, and what it hands to the server in the background."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairshare.local import daemon
from fairshare.local.daemon import RunningServer


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The arguments of the servers that were started."""
    arguments: list[Sequence[str]] = []

    def start(words: Sequence[str], **_: Any) -> RunningServer:
        arguments.append(words)
        return RunningServer("http://127.0.0.1:5000", 1, "process", Path("ready.json"))

    monkeypatch.setattr(daemon, "start_server", start)
    return arguments


@pytest.mark.parametrize(("words", "seconds"), [((), "60"), (("--metrics-period", "5m"), "300")])
def test_the_period_of_metrics_reaches_the_server(cli: Any, started, words, seconds):
    assert cli("local", "start", *words) == 0
    (arguments,) = started
    assert arguments[arguments.index("--metrics-period") + 1] == seconds


@pytest.mark.parametrize(
    ("period", "message"),
    [
        ("90s", "the period of metrics is 90 s"),
        ("0", "the period of metrics is 0 s"),
        ("soon", '--metrics-period: "soon" is not a duration'),
    ],
)
def test_c39_a_period_that_cloudwatch_does_not_have_starts_nothing(cli: Any, started, period: str, message: str):
    assert cli("local", "start", "--metrics-period", period) == 2
    assert message in cli.err
    assert started == []


def test_what_a_job_is_given_reaches_the_server_only_when_it_is_said(cli: Any, started):
    assert cli("local", "start", "--cores", "0.5", "--memory", "512MiB") == 0
    assert cli("local", "start") == 0
    said, silent = started
    assert said[said.index("--cores") + 1] == "0.5"
    assert said[said.index("--memory") + 1] == str(512 << 20)
    assert {"--cores", "--memory"}.isdisjoint(silent)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cores", "0"), "--cores 0 is not more than 0"),
        (("--memory", "0"), "--memory 0 leaves jobs nothing"),
        (("--memory", "4G"), '--memory: "4G" is not a size: write 4GiB (in 1024s) or 4GB (in 1000s)'),
    ],
)
def test_a_job_that_is_given_nothing_starts_nothing(cli: Any, started, words: tuple[str, ...], message: str):
    assert cli("local", "start", *words) == 2
    assert message in cli.err
    assert started == []
