from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from fairshare.local.processes.job_python import Interpreter
from fairshare.model import FairshareError

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


@pytest.fixture
def interpreter() -> Interpreter:
    return Interpreter.inspect(Path(sys.executable), ENVIRON)


def ask(python: Path, code: str, **environ: str) -> str:
    command = [str(python), "-c", code]
    return subprocess.run(command, env=ENVIRON | environ, capture_output=True, text=True, check=True).stdout.strip()


def test_an_interpreter_is_inspected(interpreter: Interpreter) -> None:
    assert interpreter.executable == Path(sys.executable)
    assert sysconfig.get_path("purelib") in interpreter.site_packages


def test_a_wrapper_leads_to_the_interpreter_itself(tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    assert Interpreter.inspect(wrapper, ENVIRON).executable == Path(sys.executable)


def test_a_derived_environment_sees_the_packages_and_has_its_own_place(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    site_packages = interpreter.derive(tmp_path / "venv", ENVIRON)
    assert site_packages.parts[-4:-2] == ("venv", "lib")
    python = tmp_path / "venv" / "bin" / "python3"
    assert ask(python, "import sys; print(sys.prefix)") == str(tmp_path / "venv")
    assert ask(python, "import psutil; print(psutil.__file__)").startswith(sysconfig.get_path("purelib"))
    (site_packages / "psutil.py").write_text("mine = True")
    assert ask(python, "import psutil; print(psutil.mine)") == "True", "the job's own packages come first"


@pytest.mark.parametrize("name", ["pip", "pip3"])
def test_pip_installs_into_the_derived_environment(interpreter: Interpreter, tmp_path: Path, name: str) -> None:
    interpreter.derive(tmp_path / "venv", ENVIRON)
    pip = tmp_path / "venv" / "bin" / name
    shown = subprocess.run([str(pip), "--version"], env=ENVIRON, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("pip ")
    assert os.access(pip, os.X_OK)


def test_an_interpreter_that_fails_is_said_with_what_it_printed(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such library >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(FairshareError) as caught:
        Interpreter.inspect(broken, ENVIRON)
    assert str(caught.value) == f"the Python for training jobs, {broken}, does not work: no such library"
