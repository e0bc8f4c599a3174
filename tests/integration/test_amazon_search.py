"""The headline example: what its page shows is what its runs say, and the runs come out the same again."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fairshare.simulate.trace import TraceFormat, load_trace

EXAMPLE = Path(__file__).parents[2] / "examples" / "amazon_search"
TRACES = Path(os.environ.get("FAIRSHARE_TRACES", "../shared/traces"))
UNKNOWN_USER = "1"
"""Where the data of the example have the 33 jobs of Atlas whose user the log does not know."""


@pytest.fixture(scope="module")
def example() -> ModuleType:
    specification = importlib.util.spec_from_file_location("amazon_search_run", EXAMPLE / "run.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kept() -> list[dict[str, Any]]:
    """The runs that the page shows."""
    document = json.loads((EXAMPLE / "results.json").read_text())
    assert document["seeds"] == 20
    return list(document["runs"])


def test_the_page_shows_what_the_runs_say(example: ModuleType, kept: list[dict[str, Any]]) -> None:
    page = (EXAMPLE / "README.md").read_text()
    for part in example.table(kept).strip().split("\n\n"):
        assert part in page, f"README.md lacks, or has otherwise:\n{part}"


@pytest.mark.parametrize("policy", ["one-fifo", "fair-queue", "fair-share"])
def test_a_run_comes_out_the_same_again(example: ModuleType, kept: list[dict[str, Any]], policy: str) -> None:
    (before,) = [
        row
        for row in kept
        if (row["trace"], row["compression"], row["policy"], row["first_family_percent"], row["seed"])
        == ("kth", 4, policy, 50, 7)
    ]
    assert example.cell(("kth", 4, policy, 50, 7)) == before


def test_every_cell_was_run(example: ModuleType, kept: list[dict[str, Any]]) -> None:
    wanted = list(example.tasks(sorted(example.CAPACITY, reverse=True), 20))
    keys = ("trace", "compression", "policy", "first_family_percent", "seed")
    assert [tuple(row[key] for key in keys) for row in kept] == wanted


@pytest.mark.skipif(not TRACES.is_dir(), reason=f"no traces at {TRACES}")
@pytest.mark.parametrize(
    ("name", "file", "unit"), [("kth", "KTH-SP2-1996.swf.gz", 1), ("atlas", "LLNL-Atlas-2006-2.1-cln.swf.gz", 8)]
)
def test_the_reduced_traces_are_those_of_the_archive(name: str, file: str, unit: int) -> None:
    jobs = load_trace(TRACES / file, TraceFormat(unit=unit)).jobs
    lines = gzip.decompress((EXAMPLE / "data" / f"{name}.csv.gz").read_bytes()).decode().splitlines()

    assert lines[0] == "submit,run,size,user"
    users = [job.share.removeprefix("user").replace("none", UNKNOWN_USER) for job in jobs]
    assert lines[1:] == [
        f"{job.submit_at // 1000},{job.run_time // 1000},{job.demand},{user}"
        for job, user in zip(jobs, users, strict=True)
    ]
