"""The ready file of the local AWS: address and key, for every command that looks for a server by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairshare.cli.context import AppContext

ReadyFile = Annotated[
    Path | None,
    typer.Option("--ready-file", metavar="FILE", help="Where address and key go (default: where --local looks)."),
]


def default_ready_file(context: AppContext) -> Path:
    """Return where ``--local`` looks for address and key."""
    from fairshare.config.paths import local_ready_file

    return local_ready_file(context.environ)
