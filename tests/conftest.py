"""What every test gets: an environment without anybody's AWS account, state in a directory of its own, and every core.

With pytest-xdist, a run of more than a file or two is spread over the cores; ``-n 0`` keeps it in one process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import Loader
from hypothesis import HealthCheck, settings

MOST_WORKERS = 4
"""Tests of whole commands start processes of their own: more workers than this get in each other's way."""

settings.register_profile(
    "default", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("FAIRSHARE_HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Choose how many processes run the tests, unless the command line says it; before xdist looks at its options.

    Work stealing gives each worker one run of neighbours, so what a module or a session shares is made about once.
    """
    option = config.option
    if not config.pluginmanager.hasplugin("xdist") or hasattr(config, "workerinput"):
        return
    is_few = len(config.args) <= 2 and all(Path(arg.partition("::")[0]).is_file() for arg in config.args)
    is_watched = option.usepdb or option.trace or option.capture == "no"
    if option.numprocesses is None and not option.tx and not is_few and not is_watched:
        option.numprocesses = min(os.cpu_count() or 1, MOST_WORKERS)
    if option.dist == "no":
        option.dist = "worksteal"


def pytest_configure() -> None:
    """Let all sessions of botocore in this process share what was read of AWS's service descriptions.

    botocore keeps it for each session: reading it anew was a third of a test that makes sessions of its own.
    """
    begin = Loader.__init__
    caches: dict[tuple[str, ...], Any] = {}

    def begin_with_what_was_read(self: Loader, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self._cache = caches.setdefault(tuple(self.search_paths), {})

    Loader.__init__ = begin_with_what_was_read


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
