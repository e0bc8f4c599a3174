"""What happened in a simulation: every attempt of every job, in the order they began. Compact: 25 bytes an attempt."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fairshare.simulate.settings import Setting
from fairshare.simulate.workload import Workload

NOT_YET: Final = -1
"""End of an attempt that has not ended, and first start of a job that never began."""


class AttemptView(NamedTuple):
    """One attempt, in ms since the workload began; ``job`` is the job's index in the workload."""

    job: int
    start: int
    end: int
    is_preempted: bool


@dataclass
class Pressure:
    """What a pool went through while jobs waited, in ms and instance-ms."""

    waiting_time: int = 0
    """How long at least one job waited."""
    used_while_waiting: int = 0
    """Instance-ms in use then."""
    longest_starvation: int = 0
    """Longest time in which one share had a job waiting and held nothing."""
    starved_share: str = ""


@dataclass
class Course:
    """The attempts of one workload under one setting.

    Attempt ``k`` is that of job ``jobs[k]``, from ``starts[k]`` to ``ends[k]``; ``preempted[k]`` is 1 when it was
    stopped before its end.
    """

    workload: Workload
    setting: Setting
    shares: Sequence[str]
    """Names, of shares or of ``queue/share`` where several queues get jobs."""
    share_of: array[int]
    """Index of each job's share."""
    jobs: array[int] = field(default_factory=lambda: array("q"))
    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    preempted: bytearray = field(default_factory=bytearray)
    first_starts: array[int] = field(default_factory=lambda: array("q"))
    """Of each job; `NOT_YET` = it never began."""
    last_ends: array[int] = field(default_factory=lambda: array("q"))
    """Of each job; `NOT_YET` = it has not ended."""
    pressure: Pressure = field(default_factory=Pressure)

    def attempts(self) -> Iterator[AttemptView]:
        """Iterate over the attempts in the order they began."""
        for job, start, end, preempted in zip(self.jobs, self.starts, self.ends, self.preempted, strict=True):
            yield AttemptView(job, start, end, bool(preempted))

    @property
    def begin(self) -> int:
        """When the first job came."""
        return self.workload.jobs[0].submit_at

    @property
    def end(self) -> int:
        """When the last attempt ended."""
        return max(self.ends, default=self.begin)
