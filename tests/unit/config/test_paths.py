from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.config.paths import cache_dir, local_ready_file, runs_dir, runtime_dir, state_dir


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/home/ml", "FAIRSHARE_STATE_DIR": "/var/fs", "XDG_STATE_HOME": "/xdg"}, "/var/fs"),
        ({"HOME": "/home/ml", "FAIRSHARE_STATE_DIR": "~/fs"}, "/home/ml/fs"),
        ({"HOME": "/home/ml", "FAIRSHARE_STATE_DIR": "", "XDG_STATE_HOME": "/xdg"}, "/xdg/fairshare"),
        ({"HOME": "/home/ml", "XDG_STATE_HOME": "relative"}, "/home/ml/.local/state/fairshare"),
        ({"HOME": "/home/ml", "XDG_STATE_HOME": ""}, "/home/ml/.local/state/fairshare"),
        ({"HOME": "/home/ml"}, "/home/ml/.local/state/fairshare"),
    ],
)
def test_state_directory(environ: dict[str, str], expected: str) -> None:
    assert state_dir(environ) == Path(expected)


def test_a_relative_state_directory_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert state_dir({"FAIRSHARE_STATE_DIR": "state"}) == tmp_path / "state"


def test_without_a_home_variable_the_account_s_home_is_used() -> None:
    assert state_dir({}) == Path.home() / ".local/state/fairshare"


def test_files_in_the_state_directory() -> None:
    environ = {"FAIRSHARE_STATE_DIR": "/fs"}
    assert runs_dir(environ) == Path("/fs/runs")
    assert local_ready_file(environ) == Path("/fs/local/ready.json")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7/fairshare"),
        ({"XDG_RUNTIME_DIR": "relative", "FAIRSHARE_STATE_DIR": "/state"}, "/state/run"),
        ({"FAIRSHARE_STATE_DIR": "/state"}, "/state/run"),
    ],
)
def test_the_runtime_directory(environ: dict[str, str], expected: str) -> None:
    assert runtime_dir(environ) == Path(expected)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"FAIRSHARE_STATE_DIR": "/state", "XDG_CACHE_HOME": "/cache"}, "/state/cache"),
        ({"XDG_CACHE_HOME": "/cache", "HOME": "/home/ann"}, "/cache/fairshare"),
        ({"XDG_CACHE_HOME": "cache", "HOME": "/home/ann"}, "/home/ann/.cache/fairshare"),
    ],
)
def test_the_cache_directory(environ: dict[str, str], expected: str) -> None:
    assert cache_dir(environ) == Path(expected)
