"""The Python that a training job sees: the chosen interpreter's packages, in an environment of the job's own.

A job installs its ``requirements.txt`` (or anything else) with plain pip. In a virtual environment derived from the
chosen interpreter that reaches the job only: packages that are there already satisfy a requirement, new ones land in
the job's directory, and pip leaves what is "outside environment" alone.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fairshare.model import FairshareError

_TIMEOUT_SECONDS = 60
_QUESTION = """
import json, site, sys
folders = site.getsitepackages() + ([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])
print(json.dumps([sys.executable, folders]))
"""
_PIP = '#!/bin/sh\nexec "{python}" -m pip "$@"\n'


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter and the directories of its packages."""

    executable: Path
    site_packages: tuple[str, ...]

    @classmethod
    def inspect(cls, python: Path, environ: Mapping[str, str]) -> Interpreter:
        """Ask an interpreter about itself (about 30 ms).

        Args:
            python: path of the interpreter, or of a wrapper of it.
            environ: environment to ask in.

        Raises:
            FairshareError: it cannot be run.
        """
        answer = _run([str(python), "-c", _QUESTION], environ)
        executable, folders = json.loads(answer)
        return cls(Path(executable), tuple(folders))

    def derive(self, directory: Path, environ: Mapping[str, str]) -> Path:
        """Make a virtual environment of the job's own in ``directory`` (about 50 ms); return its site-packages.

        Its ``bin`` has ``python``, ``python3``, ``pip`` and ``pip3``, which SageMaker's start script looks for.

        Raises:
            FairshareError: the interpreter cannot make one.
        """
        _run([str(self.executable), "-m", "venv", "--without-pip", "--symlinks", str(directory)], environ)
        (site_packages,) = directory.glob("lib/python*/site-packages")
        lines = [f"import site; site.addsitedir({folder!r})" for folder in self.site_packages]
        (site_packages / "fairshare-base.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for name in ("pip", "pip3"):
            script = directory / "bin" / name
            script.write_text(_PIP.format(python=directory / "bin" / "python3"), encoding="utf-8")
            script.chmod(0o755)
        return site_packages


def _run(command: list[str], environ: Mapping[str, str]) -> str:
    """Run a helper in a session of its own (Ctrl-C is not for it) and return what it printed."""
    try:
        result = subprocess.run(
            command,
            env=environ,
            cwd=os.sep,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = (getattr(error, "stderr", None) or str(error)).strip()
        raise FairshareError(
            f"the Python for training jobs, {command[0]}, does not work: {detail}",
            hint="Give the path of a Python 3 that has the packages your jobs import.",
        ) from error
    return result.stdout
