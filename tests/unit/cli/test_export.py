"""``fairshare export``: one document on stdout, files with ``--out``; the same everywhere, and nothing is called."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ruamel.yaml import YAML


@pytest.fixture(autouse=True)
def _nothing_is_called(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a session nor the region of this machine is looked at."""
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    for name in ("session", "provisioner", "jobs"):
        cli.more[name] = None


def test_cloudformation_is_yaml_and_json(cli: Any) -> None:
    assert cli("export", "cloudformation") == 0
    template = YAML(typ="safe").load(cli.out)
    assert template["Resources"]["GpuJobQueue"]["Properties"]["JobQueueName"] == "search-gpu"

    assert cli("export", "cloudformation", "-o", "json") == 0
    assert json.loads(cli.out) == template
    assert "eu-west-1" not in cli.out


def test_iam_is_one_document_by_policy(cli: Any) -> None:
    assert cli("export", "iam", "--max-priority", "50", "--read-from", "s3://data/sets/") == 0
    policies = json.loads(cli.out)

    assert list(policies)[:3] == ["admin", "viewer", "submitter-gpu.HIGHPRI"]
    assert '"batch:SchedulingPriority": "50"' in cli.out
    assert "arn:aws:s3:::data/sets/*" in cli.out
    assert "arn:aws:batch:eu-west-1:*:job-queue/search-gpu" in cli.out
    assert cli.err == "warning: the ARNs match any account: write `account:` in fairshare.yaml\n"


def test_a_known_account_is_in_the_arns(cli: Any, project: Any) -> None:
    path = project / "fairshare.yaml"
    path.write_text(path.read_text() + 'account: "111122223333"\n')

    assert cli("export", "iam", "--region", "us-west-2") == 0
    assert "arn:aws:batch:us-west-2:111122223333:job-queue/search-gpu" in cli.out
    assert cli.err == ""


def test_out_writes_files_and_prints_their_paths(cli: Any, project: Any) -> None:
    infra = project / "infra"
    for document in ("cloudformation", "iam", "dashboard"):
        assert cli("export", document, "--out", str(infra)) == 0
        paths = cli.out.splitlines()
        assert paths
        assert all(path.startswith(str(infra)) for path in paths)

    written = sorted(str(path.relative_to(infra)) for path in infra.rglob("*.*"))
    assert written == [
        "cloudformation.yaml",
        "dashboard.json",
        "iam/admin.json",
        "iam/collector.json",
        "iam/execution-role-trust.json",
        "iam/execution-role.json",
        "iam/submitter-gpu.HIGHPRI.json",
        "iam/submitter-gpu.LOWPRI.json",
        "iam/submitter-gpu.MIDPRI.json",
        "iam/viewer.json",
    ]
    assert cli("export", "cloudformation", "--out", str(infra), "-o", "json") == 0
    assert json.loads(cli.out) == {
        "api_version": "fairshare/v1",
        "kind": "Export",
        "files": [{"path": str(infra / "cloudformation.json")}],
    }


def test_a_place_that_cannot_be_written_is_named(cli: Any, project: Any) -> None:
    (project / "infra").write_text("a file")

    assert cli("export", "iam", "--out", str(project / "infra")) == 1
    assert cli.err.splitlines()[-2:] == [
        f"error: cannot write {project}/infra/iam/admin.json: Not a directory",
        "  choose another place with --out",
    ]


def test_the_dashboard_is_what_put_dashboard_takes(cli: Any) -> None:
    assert cli("export", "dashboard") == 0
    assert {widget["type"] for widget in json.loads(cli.out)["widgets"]} == {"text", "metric"}
    assert cli.err == "warning: the alarms are left out: write `account:` in fairshare.yaml\n"


def test_a_dashboard_that_is_switched_off_is_not_there(cli: Any, project: Any) -> None:
    path = project / "fairshare.yaml"
    path.write_text(path.read_text() + "alarms: {dashboard: false}\n")

    assert cli("export", "dashboard") == 4
    assert cli.err == (
        "error: fairshare.yaml has no dashboard\n  it is switched off there: remove `dashboard` from `alarms`\n"
    )


@pytest.mark.parametrize("wanted", ["csv", "name"])
def test_a_document_is_no_list(cli: Any, wanted: str) -> None:
    assert cli("export", "cloudformation", "-o", wanted) == 2
    assert cli.err == f"error: a document cannot be printed as {wanted}\n  use -o json or -o yaml\n"


def test_without_a_project_there_is_nothing_to_export(cli: Any, project: Any) -> None:
    (project / "fairshare.yaml").unlink()

    assert cli("export", "iam") == 2
    assert "no fairshare.yaml" in cli.err


def test_c47_a_path_with_control_characters_is_shown_as_text(cli: Any, project: Any) -> None:
    assert cli("export", "dashboard", "--out", str(project / "in\x1b[31mfra")) == 0
    assert "\x1b" not in cli.out
    assert "in\\x1b[31mfra/dashboard.json" in cli.out
