"""What every test gets: an environment without anybody's AWS account, and state in a directory of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("FAIRSHARE_HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither credentials nor configuration of the person who runs the tests can be seen, nor their state touched."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "FAIRSHARE_", "SAGEMAKER_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-aws-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("FAIRSHARE_STATE_DIR", str(tmp_path / "state"))
