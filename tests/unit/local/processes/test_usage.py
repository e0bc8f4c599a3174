"""What is read of processes, disks, GPUs and the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest

from fairshare.local.processes import allotment, usage
from fairshare.local.processes.allotment import Allotment, cores
from fairshare.local.processes.disk import DiskMeter
from fairshare.local.processes.gpus import Gpus, GpuUse
from fairshare.local.processes.usage import children_of_all, read_tree
from fairshare.model import UsageError

# -- processes --------------------------------------------------------------------------------------------------------

_PARENT = """
import subprocess, sys, time
subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.3: pass"])
child = subprocess.Popen([sys.executable, "-c", "x = bytearray(60_000_000); print('ready', flush=True); input()"])
child.wait()
"""


def test_a_tree_has_the_time_of_those_that_have_ended_and_the_memory_of_those_that_live():
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        use = read_tree(process.pid, children_of_all())
        process.stdin.close()
    assert use is not None
    assert len(use.pids) == 2
    assert process.pid in use.pids
    assert 0.3 <= use.cpu_seconds < 3
    assert 60_000_000 < use.memory_bytes < 160_000_000


def test_a_process_that_has_ended_has_no_use():
    assert read_tree(2**22 + 1, {}) is None


def test_a_process_that_cannot_be_looked_at_counts_its_time_only(monkeypatch: pytest.MonkeyPatch):
    def refuse(process: psutil.Process) -> Any:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", refuse)
    use = read_tree(os.getpid(), {})
    assert use is not None
    assert (use.memory_bytes, use.cpu_seconds > 0) == (0, True)


def test_what_a_thread_waits_for_a_core_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for thread, text in (("7", "5000000000 250000000 12\n"), ("8", "0 4000000000 3\n")):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(text)
    (tmp_path / "9").mkdir()  # a thread that has just ended
    monkeypatch.setattr(usage, "Path", lambda path: tmp_path)
    found = read_tree(os.getpid(), {})
    assert found is not None
    assert found.waited_seconds == {7: 0.25, 8: 4.0}


# -- disk -------------------------------------------------------------------------------------------------------------


def test_files_of_all_directories_count_and_links_do_not(tmp_path: Path):
    for name in ("a", "b/deep", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a/1").write_bytes(b"x" * 40_000)
    (tmp_path / "b/deep/2").write_bytes(b"x" * 80_000)
    (tmp_path / "elsewhere/3").write_bytes(b"x" * 1_000_000)
    (tmp_path / "a/link").symlink_to(tmp_path / "elsewhere")
    meter = DiskMeter((tmp_path / "a", tmp_path / "b", tmp_path / "not-there"))
    assert 120_000 <= meter.used_bytes() < 160_000


def test_adding_up_takes_a_hundredth_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ticks = iter([10.0, 11.0, 110.9, 111.1, 111.2])
    monkeypatch.setattr("fairshare.local.processes.disk.time.monotonic", lambda: next(ticks))
    meter = DiskMeter((tmp_path,))
    assert meter.used_bytes() == 0
    (tmp_path / "new").write_bytes(b"x" * 4_096)
    assert meter.used_bytes() == 0
    assert meter.used_bytes() == 4_096


# -- GPUs -------------------------------------------------------------------------------------------------------------


class NvmlError(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Three GPUs; the processes 7 and 8 work on the first two."""
    pids = [[7], [7, 8], [9]]
    fields: dict[str, Callable[..., Any] | type] = {
        "NVMLError": NvmlError,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 3,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetComputeRunningProcesses": lambda device: [SimpleNamespace(pid=pid) for pid in pids[device]],
        "nvmlDeviceGetUtilizationRates": lambda device: SimpleNamespace(gpu=(90, 30, 50)[device]),
        "nvmlDeviceGetMemoryInfo": lambda device: SimpleNamespace(used=(8, 4, 1)[device], total=16),
    }
    module = ModuleType("pynvml")
    module.__dict__.update(fields)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def test_c35_a_job_has_the_sum_over_the_gpus_it_works_on(nvml: ModuleType):
    gpus = Gpus.find()
    assert gpus is not None
    assert gpus.count == 3
    assert gpus.use_of({7, 100}) == GpuUse(120, 75)
    assert gpus.use_of({100}) == GpuUse(0, 0)


def test_gpus_that_cannot_be_read_have_no_use(nvml: ModuleType, monkeypatch: pytest.MonkeyPatch):
    gpus = Gpus.find()

    def fail(device: int) -> Any:
        raise NvmlError("GPU is lost")

    monkeypatch.setattr(nvml, "nvmlDeviceGetUtilizationRates", fail)
    assert gpus is not None
    assert gpus.use_of({7}) is None


def test_a_machine_without_gpus_or_without_the_library_has_none(nvml: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", lambda: 0)
    assert Gpus.find() is None

    def fail() -> None:
        raise NvmlError("driver not loaded")

    monkeypatch.setattr(nvml, "nvmlInit", fail)
    assert Gpus.find() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Gpus.find() is None


# -- the machine ------------------------------------------------------------------------------------------------------


def test_a_container_has_what_its_limits_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.limit_in_bytes").write_text("268435456\n")
    (tmp_path / "memory.max").write_text("max\n")
    monkeypatch.setattr(allotment, "Path", lambda path: tmp_path)
    assert Allotment.of_machine() == Allotment(cores(), 2**28)
    (tmp_path / "memory/memory.limit_in_bytes").unlink()
    assert Allotment.of_machine() == Allotment(cores(), psutil.virtual_memory().total)


def test_jobs_need_something():
    with pytest.raises(UsageError, match="jobs are given 0 cores and 5 bytes"):
        Allotment(0, 5)
