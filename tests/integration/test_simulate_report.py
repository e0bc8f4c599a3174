"""The HTML report in a real browser: it asks nobody for anything, draws, complains of nothing and fits a telephone.

The browser starts once. Its own traffic goes nowhere: no name resolves.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pytest

from fairshare.config.project import parse_project
from fairshare.simulate.figures import figures_of
from fairshare.simulate.report import report_page
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import first_in_first_out, setting_of
from fairshare.simulate.workload import WorkJob, workload_of

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

PROJECT = """\
version: 1
stack: report
service_environments: {gpu: {capacity: 8, instance_types: [ml.g6.12xlarge]}}
queues: {gpu: {service_environment: gpu, fairshare: {shares: {A: {weight_factor: 1}, B: {weight_factor: 3}}}}}
"""

PHONE = 360

HARNESS = """\
<!doctype html><meta charset="utf-8"><body>
<iframe id="phone" style="width:{phone}px;height:3000px;border:0" srcdoc="{page}"></iframe>
<iframe id="desk" style="width:1200px;height:3000px;border:0" srcdoc="{page}"></iframe>
<script>
addEventListener("load", () => {{
  const seen = {{}};
  for (const id of ["phone", "desk"]) {{
    const page = document.getElementById(id).contentDocument;
    const plots = [...page.querySelectorAll(".plot svg")].map(each => each.getBoundingClientRect());
    const labels = [...page.querySelectorAll(".plot .y span")].map(each => each.getBoundingClientRect());
    const letters = [...page.querySelectorAll(".plot span")].map(each => parseFloat(getComputedStyle(each).fontSize));
    seen[id] = {{
      width: page.documentElement.scrollWidth,
      drawn: plots.filter(box => box.width > 150 && box.height > 60).length,
      plots: plots.length,
      leftmost: Math.min(...labels.map(box => box.left)),
      letters: Math.min(...letters),
    }};
  }}
  document.body.dataset.seen = JSON.stringify(seen);
}});
</script>
"""


@dataclass(frozen=True)
class Seen:
    """What the browser saw: measures of the page by width, what was asked for by it, and what it complained of."""

    pages: dict[str, dict[str, float]]
    requests: list[str]
    complaints: list[str]


@pytest.fixture(scope="module")
def page() -> str:
    setting = setting_of("fair", parse_project(PROJECT, Path("fairshare.yaml")))
    jobs = [
        WorkJob(f"job-{n}", n * 400_000, 1_800_000 + n % 7 * 900_000, 1 + n % 4, "AB"[n % 3 == 0]) for n in range(300)
    ]
    workload = workload_of("monday", jobs)
    courses = [simulate(workload, each) for each in (first_in_first_out(setting), setting)]
    return report_page(workload, [(course, figures_of(course)) for course in courses], ["Model 1.0."])


@pytest.fixture(scope="module")
def seen(page: str, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "harness.html").write_text(HARNESS.format(phone=PHONE, page=escape(page)), encoding="utf-8")
    dom, complaints, requests = browse(folder / "harness.html", folder)
    found = re.search(r'data-seen="([^"]*)"', dom)
    assert found, "the harness did not run"
    return Seen(json.loads(found[1].replace("&quot;", '"')), requests, complaints)


def browse(page: Path, folder: Path) -> tuple[str, list[str], list[str]]:
    """Return the page's DOM after loading, its console messages, and the addresses it asked for."""
    log = folder / "net.json"
    done = subprocess.run(
        [
            str(BROWSER),
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND"),
            *("--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}"),
            *("--virtual-time-budget=2000", "--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    events = json.loads(log.read_text())
    begins = events["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    by_the_page = [
        event["params"]["url"]
        for event in events["events"]
        if event["type"] == begins and event.get("params", {}).get("initiator", "not an origin") != "not an origin"
    ]
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line], by_the_page


def test_no_request_leaves_the_page(seen: Seen) -> None:
    assert seen.requests == []


def test_the_browser_has_nothing_to_complain_of(seen: Seen) -> None:
    assert seen.complaints == []


def test_every_chart_is_drawn(seen: Seen) -> None:
    for measures in seen.pages.values():
        assert measures["drawn"] == measures["plots"] == 1 + 1 + 2 * 2 + 2


def test_it_fits_a_telephone_and_can_be_read_there(seen: Seen) -> None:
    phone = seen.pages["phone"]

    assert phone["width"] <= PHONE
    assert phone["leftmost"] >= 0
    assert phone["letters"] >= 10


def test_these_tests_would_notice(tmp_path: Path) -> None:
    """A page that asks for something and throws is caught by the same means."""
    bad = tmp_path / "bad.html"
    bad.write_text('<!doctype html><img src="http://elsewhere.invalid/x.png"><script>throw new Error("oh")</script>')
    _, complaints, requests = browse(bad, tmp_path)

    assert requests == ["http://elsewhere.invalid/x.png"]
    assert any("oh" in line for line in complaints)
