"""The package's docstring is a map: every module is on it."""

from __future__ import annotations

from pathlib import Path

import fairshare.submit


def test_every_module_is_on_the_map() -> None:
    text = fairshare.submit.__doc__ or ""
    modules = {path.stem for path in Path(fairshare.submit.__file__).parent.glob("*.py")} - {"__init__"}

    assert {name for name in modules if f"`{name}" not in text and f".{name}`" not in text} == set()
