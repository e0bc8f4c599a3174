"""``fairshare local start | status | stop`` as commands: faults, state that stays, and a fresh start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

Fairshare = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def fairshare(tmp_path: Path) -> Iterator[Fairshare]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fairshare", *words]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    yield run
    run("local", "stop")


def client(service: str) -> Any:
    ready = json.loads((Path(os.environ["FAIRSHARE_STATE_DIR"]) / "local" / "ready.json").read_text())
    return boto3.client(
        service,
        region_name="us-east-1",
        endpoint_url=ready["endpoint_url"],
        aws_access_key_id=ready["access_key_id"],
        aws_secret_access_key=ready["secret_access_key"],
    )


def test_state_stays_until_a_fresh_start(fairshare: Fairshare) -> None:
    start = ("local", "start", "--launcher", "simulated")
    assert fairshare(*start).returncode == 0
    client("s3").create_bucket(Bucket="mine")
    assert fairshare("local", "stop").returncode == 0
    assert fairshare(*start, "--faults", "error=1,ops=CreateBucket").returncode == 0
    assert [bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]] == ["mine"]
    with pytest.raises(client("s3").exceptions.ClientError, match="ServerException"):
        client("s3").create_bucket(Bucket="other")
    assert fairshare("local", "stop").returncode == 0
    assert fairshare(*start, "--fresh").returncode == 0
    assert client("s3").list_buckets()["Buckets"] == []
    folder = Path(os.environ["FAIRSHARE_STATE_DIR"]) / "local"
    assert len(list(folder.glob("old-*/calls.jsonl"))) == 1


@pytest.mark.parametrize("extra", [(), ("--foreground",)])
def test_a_wrong_fault_starts_nothing_and_is_explained(fairshare: Fairshare, extra: tuple[str, ...]) -> None:
    ran = fairshare("local", "start", "--launcher", "simulated", "--faults", "lostreply=1", *extra)
    assert ran.returncode == 2
    assert 'faults "lostreply=1": there is no fault "lostreply"' in ran.stderr
    assert "did you mean lost_reply?" in ran.stderr
    assert fairshare("local", "status").returncode == 4


def test_damaged_state_is_named_and_not_begun_with(fairshare: Fairshare) -> None:
    start = ("local", "start", "--launcher", "simulated")
    assert fairshare(*start).returncode == 0
    client("s3").create_bucket(Bucket="mine")
    assert fairshare("local", "stop").returncode == 0
    log = Path(os.environ["FAIRSHARE_STATE_DIR"]) / "local" / "calls.jsonl"
    log.write_bytes(log.read_bytes().replace(b"mine", b"yours"))
    ran = fairshare(*start, "--foreground")
    assert ran.returncode == 2
    assert f"{log}:3:1" in ran.stderr
    assert "its checksum is wrong" in ran.stderr
    assert "fairshare local start --fresh" in ran.stderr
    background = fairshare(*start)
    assert background.returncode == 1
    assert "its checksum is wrong" in background.stderr
    assert "Traceback" not in ran.stderr + background.stderr


def test_env_brings_any_other_client_here(fairshare: Fairshare, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fairshare("local", "env").returncode == 4
    assert fairshare("local", "start", "--launcher", "simulated").returncode == 0
    shell = fairshare("local", "env").stdout
    assert shell.startswith("export AWS_ENDPOINT_URL=http://127.0.0.1:")
    for name, value in json.loads(fairshare("local", "env", "-o", "json").stdout)["environment"].items():
        assert f"export {name}={value}" in shell
        monkeypatch.setenv(name, value)
    assert boto3.client("sts").get_caller_identity()["Account"] == "123456789012"
