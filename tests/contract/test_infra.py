"""The documents in ``infra/`` are those that ``fairshare export`` makes of the example, and its page names each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairshare.cli.main import run
from fairshare.provision.export.iam import PERMISSION_ONLY

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
COMMANDS = [
    ["export", kind, "-f", str(ROOT / "examples" / example / "fairshare.yaml"), "--region", "us-east-1", "--out", out]
    for example, out, kinds in (
        ("digits", "infra", ("cloudformation", "iam", "dashboard")),
        ("quota", "infra/quota", ("cloudformation", "iam")),
    )
    for kind in kinds
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Text of each file that export writes, by its path."""
    root = tmp_path_factory.mktemp("root")
    for *command, out in COMMANDS:
        assert run([*command, str(root / out)]) == 0
    made = root / "infra"
    return {str(path.relative_to(made)): path.read_text() for path in made.rglob("*") if path.is_file()}


def documents() -> set[str]:
    found = (path.relative_to(INFRA) for path in INFRA.rglob("*") if path.suffix in {".json", ".yaml"})
    return {str(path) for path in found if path.parts[0] != "collector"}


def test_infra_holds_what_export_makes_of_the_example(made: dict[str, str]) -> None:
    again = "\n".join("fairshare " + " ".join(command).replace(f"{ROOT}/", "") for command in COMMANDS)

    assert documents() == made.keys(), f"run again:\n{again}"
    for name, text in made.items():
        assert (INFRA / name).read_text() == text, f"{name} is out of date; run again:\n{again}"


def test_the_page_names_every_document(made: dict[str, str]) -> None:
    page = (INFRA / "README.md").read_text()
    named = set(re.findall(r"^\| `([^`]+\.(?:json|yaml))` \|", page, re.MULTILINE))

    of_digits = {name for name in made if not name.startswith("quota/")}
    assert named == {re.sub(r"submitter-.*\.json", "submitter-<queue>.<SHARE>.json", name) for name in of_digits}


def test_the_page_shows_how_they_are_made() -> None:
    page = (INFRA / "README.md").read_text()

    for command in COMMANDS:
        assert "fairshare " + " ".join(command).replace(f"{ROOT}/", "") in page


def test_the_page_says_what_permission_only_actions_are_for() -> None:
    page = (INFRA / "README.md").read_text()
    rows = re.findall(r"^\| (`[a-z]+:.*`) \| (.+) \|$", page, re.MULTILINE)
    named = {action for actions, _ in rows for action in re.findall(r"`([^`]+)`", actions)}

    assert named == PERMISSION_ONLY.keys()
    assert all(reason in PERMISSION_ONLY.values() or "kms" in actions for actions, reason in rows)
