"""Quotas are asked once a day, and nobody is troubled when they cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairshare.cli.quotas import training_quotas
from fairshare.model import CredentialsError, ServiceError

DAY = 86_400_000
NOW = 1_796_061_600_000


@pytest.fixture
def context(tmp_path: Path) -> SimpleNamespace:
    """What is needed of a context. ``answers`` are given one after the other; an error is raised."""
    answers: list[Any] = []

    def read() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(
        session=SimpleNamespace(is_loopback=False, account_id="111122223333", region="us-west-2"),
        cache_dir=tmp_path / "cache",
        clock=SimpleNamespace(now=lambda: NOW),
        training_quotas=SimpleNamespace(read=read),
        answers=answers,
    )


@pytest.fixture
def ask(context: Any) -> Callable[..., Any]:
    def at(now: int) -> Any:
        context.clock.now = lambda: now
        return training_quotas(context)

    return at


def test_quotas_are_asked_once_a_day(context: Any, ask: Callable[..., Any]) -> None:
    context.answers += [{"ml.p5.48xlarge": 2}, {"ml.p5.48xlarge": 4}]

    assert [ask(NOW), ask(NOW + DAY - 1), ask(NOW + DAY)] == [
        {"ml.p5.48xlarge": 2},
        {"ml.p5.48xlarge": 2},
        {"ml.p5.48xlarge": 4},
    ]


@pytest.mark.parametrize("error", [CredentialsError("denied"), ServiceError("no route")])
def test_what_cannot_be_read_is_not_asked_again_at_once(
    context: Any, ask: Callable[..., Any], error: Exception
) -> None:
    context.answers += [error]

    assert [ask(NOW), ask(NOW + 1)] == [{}, {}]


def test_a_damaged_file_is_asked_anew_and_the_machine_itself_never(context: Any, ask: Callable[..., Any]) -> None:
    context.answers += [{"ml.p5.48xlarge": 2}, {"ml.p5.48xlarge": 3}]
    ask(NOW)
    (file,) = context.cache_dir.iterdir()
    file.write_text('{"at": "now"}')
    assert ask(NOW) == {"ml.p5.48xlarge": 3}

    context.session.is_loopback = True
    assert ask(NOW + 9 * DAY) == {}
