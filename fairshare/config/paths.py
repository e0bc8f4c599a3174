"""Where fairshare keeps what it must remember on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def state_dir(environ: Mapping[str, str]) -> Path:
    """Return the state directory, absolute; it may not exist yet.

    ``FAIRSHARE_STATE_DIR``, else ``$XDG_STATE_HOME/fairshare``, else ``~/.local/state/fairshare``. An empty variable
    counts as unset, and so does a relative ``XDG_STATE_HOME``
    (https://specifications.freedesktop.org/basedir-spec/latest/).
    """
    home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    if own := environ.get("FAIRSHARE_STATE_DIR"):
        path = home / own[2:] if own.startswith("~/") else Path(own)
        return path.absolute()
    shared = Path(environ.get("XDG_STATE_HOME", ""))
    return (shared if shared.is_absolute() else home / ".local" / "state") / "fairshare"


def runtime_dir(environ: Mapping[str, str]) -> Path:
    """Return the directory of what may go at the next boot; it may not exist yet.

    ``$XDG_RUNTIME_DIR/fairshare``, else ``run`` in the state directory.
    """
    shared = Path(environ.get("XDG_RUNTIME_DIR", ""))
    return shared / "fairshare" if shared.is_absolute() else state_dir(environ) / "run"


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Return the directory of what can be asked again; it may not exist yet.

    ``cache`` in ``FAIRSHARE_STATE_DIR`` when that is set, else ``$XDG_CACHE_HOME/fairshare``, else
    ``~/.cache/fairshare``.
    """
    if environ.get("FAIRSHARE_STATE_DIR"):
        return state_dir(environ) / "cache"
    home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    shared = Path(environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else home / ".cache") / "fairshare"


def runs_dir(environ: Mapping[str, str]) -> Path:
    """Return the directory of the journals of runs, one file per run."""
    return state_dir(environ) / "runs"


def local_ready_file(environ: Mapping[str, str]) -> Path:
    """Return the file in which the running local AWS says its address and access key."""
    return state_dir(environ) / "local" / "ready.json"
