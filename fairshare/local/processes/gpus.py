"""GPUs of this machine, as NVIDIA's management library tells, if it and its Python module are there."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GpuUse:
    """Sums over the GPUs that a job works on, each from 0 to 100: how busy they are, and how full."""

    busy_percent: float
    memory_percent: float


class Gpus:
    """The GPUs that NVML knows. They are read whole: jobs that share one are all told its use.

    Args:
        nvml: the module ``pynvml``, initialised.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._devices = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]

    @classmethod
    def find(cls) -> Gpus | None:
        """Return the GPUs of this machine; None without any, or without NVML."""
        try:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            found = cls(nvml)
        except Exception as error:  # NVML's errors are a family of its own, from a module that may be missing
            _log.debug("no GPUs are measured: %s", error)
            return None
        return found if found.count else None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._devices)

    def use_of(self, pids: Set[int]) -> GpuUse | None:
        """Return the use of those GPUs on which one of the processes works; None when they cannot be read."""
        busy, memory = 0.0, 0.0
        try:
            for device in self._devices:
                if any(process.pid in pids for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(device)):
                    busy += self._nvml.nvmlDeviceGetUtilizationRates(device).gpu
                    size = self._nvml.nvmlDeviceGetMemoryInfo(device)
                    memory += 100 * size.used / size.total
        except self._nvml.NVMLError as error:
            _log.debug("the GPUs cannot be read: %s", error)
            return None
        return GpuUse(busy, memory)
