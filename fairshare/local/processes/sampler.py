"""The thread that measures training jobs and publishes what they use, as SageMaker does: once a period for each host.

Imports botocore and psutil: loaded only where the process launcher runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from fairshare.local.processes.allotment import Allotment
from fairshare.local.processes.disk import DiskMeter
from fairshare.local.processes.gpus import Gpus
from fairshare.local.processes.meter import Meter, Reading, Scales, UsePoint
from fairshare.local.processes.period import check_period
from fairshare.local.processes.usage import TreeUse, children_of_all, read_tree
from fairshare.metrics.ports import TRAINING_NAMESPACE
from fairshare.scheduler.clock import Clock

_LONGEST_PAUSE_SECONDS: Final = 1.0
_LEAST_READINGS: Final = 4
"""In a period, unless that were too much work."""

_REST_FOR_WORK: Final = 100
"""Reading takes at most a hundredth of a core, however many processes there are."""

_MOST_DATA: Final = 1_000
"""Values that one PutMetricData takes."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MeasuredJob:
    """A job to measure. ``volume_bytes`` is the size of the volume it asked for."""

    training_job_name: str
    cloudwatch: Any
    """The boto3 client that its metrics are published with."""
    pid: int
    """The root of its processes."""
    instance_type: str
    volume_bytes: int
    directories: tuple[Path, ...]
    """Where its files are; none inside another one."""
    cpu_seconds: Callable[[], float | None]
    """Once it has ended: all the processor time that it used; None = unknown."""


@dataclass
class _Watch:
    job: MeasuredJob
    meter: Meter


class Sampler:
    """Measures jobs while they run. It never fails, and what it cannot publish is lost: a job does not suffer.

    Args:
        clock: gives the time stamps.
        period_seconds: one value of each metric for so long; below a minute the metrics are high-resolution ones.
        allotment: what a job may use.
        gpus: of this machine; None = none.

    Raises:
        UsageError: a period that CloudWatch does not have.
    """

    def __init__(
        self,
        clock: Clock,
        period_seconds: float,
        allotment: Allotment,
        gpus: Gpus | None,
    ) -> None:
        self._clock = clock
        self._period_ms = check_period(period_seconds) * 1000
        self._allotment = allotment
        self._gpus = gpus
        self._lock = threading.Lock()
        self._watches: list[_Watch] = []
        self._wake = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @contextmanager
    def measuring(self, job: MeasuredJob) -> Iterator[None]:
        """Measure a job while the block runs; leave it when the job has ended."""
        scales = Scales.of(job.instance_type, job.volume_bytes, self._allotment, self._gpus.count if self._gpus else 0)
        meter = Meter(
            scales, DiskMeter(job.directories).used_bytes, self._period_ms, self._clock.now(), time.monotonic()
        )
        watch = _Watch(job, meter)
        self._begin(watch)
        try:
            yield
        finally:
            self._end(watch)

    def close(self) -> None:
        """End the thread. Idempotent."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join()

    def _begin(self, watch: _Watch) -> None:
        with self._lock:
            is_idle = not self._watches
            self._watches.append(watch)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="usage-sampler", daemon=True)
                self._thread.start()
        if is_idle:
            self._wake.set()

    def _end(self, watch: _Watch) -> None:
        job = watch.job
        with self._lock:
            self._watches.remove(watch)
            points = watch.meter.finish(job.cpu_seconds(), time.monotonic())
        self._publish({job.cloudwatch: _data_of(job, points)})

    def _run(self) -> None:
        spent = 0.0
        while not self._is_closed:
            self._wake.clear()
            begin = time.thread_time()
            try:
                data = self._read()
                spent = time.thread_time() - begin
                self._publish(data)
            except Exception:
                _log.exception("the use of training jobs could not be measured")
            self._wake.wait(self._pause(spent))

    def _pause(self, spent: float) -> float | None:
        """Return the seconds until the next reading; there is one at the end of each period."""
        if not self._watches:
            return None
        to_end_of_period = (self._period_ms - self._clock.now() % self._period_ms) / 1000
        pause = min(_LONGEST_PAUSE_SECONDS, self._period_ms / 1000 / _LEAST_READINGS)
        return max(_REST_FOR_WORK * spent, min(pause, to_end_of_period))

    def _read(self) -> Mapping[Any, list[dict[str, Any]]]:
        """Look at every job; return, by client, the data of the periods that are over."""
        data: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        with self._lock:
            children = children_of_all() if self._watches else {}
            for watch in self._watches:
                at = self._clock.now()
                if (use := read_tree(watch.job.pid, children)) is not None:
                    points = watch.meter.take(self._reading_of(use), at, use.read_at)
                    data[watch.job.cloudwatch] += _data_of(watch.job, points)
        return data

    def _reading_of(self, use: TreeUse) -> Reading:
        gpu = self._gpus.use_of(use.pids) if self._gpus else None
        return Reading(use.cpu_seconds, use.memory_bytes, gpu, use.waited_seconds)

    def _publish(self, data: Mapping[Any, Sequence[dict[str, Any]]]) -> None:
        resolution = 1 if self._period_ms < 60_000 else 60
        for cloudwatch, points in data.items():
            for start in range(0, len(points), _MOST_DATA):
                chunk = [point | {"StorageResolution": resolution} for point in points[start : start + _MOST_DATA]]
                try:
                    cloudwatch.put_metric_data(Namespace=TRAINING_NAMESPACE, MetricData=chunk)
                except (BotoCoreError, ClientError) as error:
                    _log.warning("%d values of %s are lost: %s", len(chunk), TRAINING_NAMESPACE, error)


def _data_of(job: MeasuredJob, points: Sequence[UsePoint]) -> list[dict[str, Any]]:
    dimensions = [{"Name": "Host", "Value": f"{job.training_job_name}/algo-1"}]
    return [
        {
            "MetricName": point.name,
            "Dimensions": dimensions,
            "Timestamp": datetime.fromtimestamp(point.at / 1000, UTC),
            "Value": point.value,
            "Unit": "Percent",
        }
        for point in points
    ]
