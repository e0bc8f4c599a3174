"""What docs/simulate.md shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairshare.cli.main import run

PAGE = (Path(__file__).parents[3] / "docs" / "simulate.md").read_text(encoding="utf-8")
FILES = {name: text for name, text in re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_the_first_comparison_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.search(r"\$ fairshare simulate monday\.yaml\n(.*?)```", PAGE, re.DOTALL)
    assert shown

    assert run(["simulate", "monday.yaml"]) == 0
    assert capsys.readouterr().out == shown[1]


@pytest.mark.usefixtures("project")
def test_the_ranges_of_the_page_hold() -> None:
    assert run(["simulate", "monday.yaml", "--expect", "ranges.yaml"]) == 0


def test_numbered_columns_as_on_the_page(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "ali.csv").write_text("1,team,5,10,40,3,50\n2,team,9,20,80,1,100\n")
    command = re.search(r"--trace ali\.csv --map '(\S+)'", PAGE)
    assert command

    assert run(["simulate", "--trace", "ali.csv", "--map", command[1], "--policy", "fifo"]) == 0
    assert capsys.readouterr().out.startswith("ali.csv: 2 jobs, 1 share, on 16 instances of gpu\n")
