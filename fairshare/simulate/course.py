"""What happened in a simulation: every attempt of every job, in the order they began. Compact: 25 bytes an attempt."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fairshare.scheduler.engine import Preemption
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
    kind: Preemption | None = None
    """Why it was preempted; None when it was not, or was lost in another way."""


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


class GivenUp(NamedTuple):
    """A job that a time limit of its queue ended before it ever began: when, in ms, and the limit's reason code."""

    at: int
    reason: str


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
    kinds: dict[int, Preemption] = field(default_factory=dict)
    """Why an attempt was preempted, by its number ``k``."""
    first_starts: array[int] = field(default_factory=lambda: array("q"))
    """Of each job; `NOT_YET` = it never began."""
    last_ends: array[int] = field(default_factory=lambda: array("q"))
    """Of each job; `NOT_YET` = it has not ended by itself."""
    given_up: dict[int, GivenUp] = field(default_factory=dict)
    """Jobs that time limits ended, by index."""
    pressure: Pressure = field(default_factory=Pressure)

    def attempts(self) -> Iterator[AttemptView]:
        """Iterate over the attempts in the order they began."""
        rows = zip(self.jobs, self.starts, self.ends, self.preempted, strict=True)
        for number, (job, start, end, preempted) in enumerate(rows):
            yield AttemptView(job, start, end, bool(preempted), self.kinds.get(number) if preempted else None)

    @property
    def begin(self) -> int:
        """When the first job came."""
        return self.workload.jobs[0].submit_at

    @property
    def end(self) -> int:
        """When the last attempt ended. A job that only waited, and was given up later, makes a course no longer."""
        return max(self.ends, default=self.begin)
