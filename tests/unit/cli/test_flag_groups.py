"""Flags that belong together: one parameter of a command, one section of its help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
import typer

from fairshare.cli.command import FlagGroup, Launch, command, new_app
from fairshare.cli.context import AppContext, Options


@dataclass(frozen=True)
class Colours(FlagGroup):
    heading: ClassVar = "How it looks"

    red: Annotated[bool, typer.Option("--red", help="Paint it red.")] = False
    shade: Annotated[int | None, typer.Option("--shade", metavar="N", help="How dark.")] = None


@pytest.fixture
def paint() -> tuple[Callable[..., object], list[object]]:
    """A command with a group and a flag of its own; what it was called with."""
    app, calls = new_app(), []

    @command(app, examples=("fairshare paint",))
    def paint(
        context: AppContext, colours: Colours, target: Annotated[str, typer.Argument()] = "wall", wet: bool = False
    ) -> None:
        """Paint something."""
        calls.append((colours, target, wet))

    launch = Launch(lambda options: AppContext(options, {}, Path.cwd()), Options())
    main = typer.main.get_command(app).main
    return lambda *argv: main(list(argv), prog_name="paint", standalone_mode=False, obj=launch), calls


def test_a_group_is_given_to_the_command_as_one_value(paint: tuple[Callable[..., object], list[object]]) -> None:
    call, calls = paint
    call("--shade", "0", "door")
    call("--red", "--wet", "--debug")

    assert calls == [(Colours(shade=0), "door", False), (Colours(red=True), "wall", True)]


def test_help_shows_a_group_under_its_heading_before_the_common_flags(
    paint: tuple[Callable[..., object], list[object]], capsys: pytest.CaptureFixture[str]
) -> None:
    paint[0]("--help")

    shown = capsys.readouterr().out
    places = [shown.index(text) for text in ("Arguments:", "How it looks:", "--shade N", "Options:", "--wet", "--file")]
    assert places == sorted(places)
    assert shown.count("--red") == 1
