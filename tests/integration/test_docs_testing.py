"""The page about testing is true: its code is run as a reader would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
PLUGIN = "fairshare.pytest_plugin"


def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n# (test_\w+\.py)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert [name for name, _ in blocks] == ["test_night.py", "test_server.py", "test_faults.py"]
    assert PAGE.read_text().count("```python") == len(blocks)
    for name, code in blocks:
        (tmp_path / name).write_text(code)
    is_installed = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers"]
    command += [] if is_installed else ["-p", PLUGIN]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "6 passed" in ran.stdout


def test_the_page_names_every_fault() -> None:
    from dataclasses import fields

    from fairshare.local.faults import Rule

    assert set(re.findall(r"^\| `(\w+)=", PAGE.read_text(), re.MULTILINE)) == {field.name for field in fields(Rule)}
