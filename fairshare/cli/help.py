"""``fairshare help``: the help of a command, or a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.exit_codes import EXIT_CODES
from fairshare.cli.render import Column, table
from fairshare.model import UsageError

app = new_app()

_TOPIC = "exit-codes"


@command(app, name="help", examples=("fairshare help exit-codes", "fairshare help wait"))
def show_help(
    context: AppContext,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND|TOPIC", help=f"A command, or {_TOPIC}.", show_default=False)
    ] = None,
) -> None:
    """Show the help of a command, or what the exit codes mean."""
    from fairshare.cli.main import COMMANDS, run

    topic = " ".join(words or ())
    if topic == _TOPIC:
        rows = [[str(code), meaning] for code, meaning in EXIT_CODES.items()]
        context.out.show(
            "ExitCodes",
            {"exit_codes": [{"code": code, "meaning": meaning} for code, meaning in EXIT_CODES.items()]},
            text=lambda width: table((Column("CODE", right=True), Column("MEANING")), rows, width),
            rows="exit_codes",
            name="code",
        )
    elif topic in ("", *COMMANDS):
        run([*([topic] if topic else []), "--help"])
    else:
        from fairshare.config.errors import did_you_mean

        raise UsageError(f"there is no help on {topic!r}", hint=did_you_mean(topic, [*COMMANDS, _TOPIC], "topics"))
