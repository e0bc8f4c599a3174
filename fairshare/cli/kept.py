"""Small JSON files of what a later command need not ask again. One that is missing or damaged says nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def read_kept(path: Path) -> dict[str, Any]:
    """Return the object in a file; {} when there is none that can be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def keep(path: Path, document: Mapping[str, Any]) -> None:
    """Replace a file, for this user's eyes only. One that cannot be written is done without."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(document, file)
        aside.replace(path)
