"""SageMaker's paths on a machine that has no ``/opt/ml``.

The drivers of SageMaker's SDK hard-code the container's paths. Each job has its own copy of them (its ``sm_drivers``
channel), and in that copy the paths are replaced by the job's directory. The user's code is never changed: scripts that
follow the contract read ``SM_MODEL_DIR`` and its sisters; where one names ``/opt/ml`` itself, a warning says so.

What is replaced was tried with SDK 1.27; a test holds it against the installed SDK.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONTAINER_ROOT: Final = "/opt/ml"

_ROOT = re.compile(r"(?<![\w.-])/opt/ml(?![\w.-])")
_MASTER_ADDRESS = re.compile(r'^SM_MASTER_ADDR = ".*"$', re.MULTILINE)
_MASTER_PORT = re.compile(r"^SM_MASTER_PORT = \d+$", re.MULTILINE)
_TEXT_SUFFIXES = frozenset({".py", ".sh", ".json"})
_SAFE_PATH = re.compile(r"[\w./+@=,-]+")
_NO_SSHD = shutil.which("true") or "/bin/true"
_START_SCRIPT = "sm_train.sh"
_MPI_DRIVER = "mpi_driver.py"


@dataclass(frozen=True)
class Localiser:
    """Replaces the container's paths by those of one job.

    Args:
        root: the job's directory in place of ``/opt/ml``; it must satisfy `is_safe_path`.
        environment_file: in place of ``/etc/environment``, to which the MPI driver appends all variables, secrets too.
        master_port: a free port in place of 7777, which two jobs at once would fight for.
    """

    root: Path
    environment_file: Path
    master_port: int

    def text(self, value: str) -> str:
        """Replace ``/opt/ml`` where it stands as a path of its own: not in ``s3://b/opt/ml`` or ``/opt/ml-data``."""
        return _ROOT.sub(lambda _: str(self.root), value)

    def path(self, container_path: str) -> Path:
        """Return the place on this machine of a path of the container."""
        return Path(self.text(container_path))

    def drivers(self, directory: Path) -> None:
        """Rewrite the job's copy of the SDK's drivers, in place.

        Compiled files are deleted: they would win over the rewritten sources, and cannot be rewritten themselves.
        """
        for cache in list(directory.rglob("__pycache__")):
            shutil.rmtree(cache)
        host = "localhost" if uses_mpi(directory) else "127.0.0.1"
        for file in directory.rglob("*"):
            if file.suffix in _TEXT_SUFFIXES and file.is_file():
                text = file.read_text(encoding="utf-8")
                rewritten = self._driver(text, host)
                if rewritten != text:
                    file.write_text(rewritten, encoding="utf-8")

    def _driver(self, text: str, host: str) -> str:
        text = _MASTER_ADDRESS.sub(f'SM_MASTER_ADDR = "{host}"', self.text(text))
        text = _MASTER_PORT.sub(f"SM_MASTER_PORT = {self.master_port}", text)
        # One host needs no SSH, and a training job must not open the machine's port 22.
        return text.replace("/usr/sbin/sshd", _NO_SSHD).replace("/etc/environment", str(self.environment_file))


def uses_mpi(drivers: Path) -> bool:
    """Whether the SDK's start script ends in its MPI driver, for which the only host must be called ``localhost``."""
    script = drivers / _START_SCRIPT
    return script.is_file() and _MPI_DRIVER in script.read_text(encoding="utf-8")


def is_safe_path(path: Path) -> bool:
    """Whether a path survives the SDK's start script, which does not quote it, and Python string literals."""
    return _SAFE_PATH.fullmatch(str(path)) is not None


def mentions_of_container_root(code: Path) -> Iterator[str]:
    """Yield ``train.py:12`` for each line of the user's Python files that names ``/opt/ml``.

    Comments do not count, nor lines that also name an ``SM_`` variable: there ``/opt/ml`` is the usual default of
    ``os.environ.get("SM_MODEL_DIR", "/opt/ml/model")``, and the variable is set.
    """
    for name, text in _python_files(code):
        for number, line in enumerate(text.splitlines(), start=1):
            if _ROOT.search(line) and "SM_" not in line and not line.lstrip().startswith("#"):
                yield f"{name}:{number}"


def _python_files(code: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of each Python file of a code channel, those in a packed source among them.

    The SDK's script unpacks a ``.tar.gz`` only when the job runs, after this look.
    """
    for file in sorted(code.rglob("*.py")):
        yield file.relative_to(code).as_posix(), file.read_text(encoding="utf-8", errors="replace")
    for archive in sorted(code.glob("*.tar.gz")):
        # A damaged archive is for the SDK's script to report.
        with contextlib.suppress(tarfile.TarError, OSError, EOFError), tarfile.open(archive) as tar:
            for member in tar:
                if member.name.endswith(".py") and (content := tar.extractfile(member)) is not None:
                    yield member.name.removeprefix("./"), content.read().decode("utf-8", errors="replace")
