"""The whole local AWS at run time: its regions, one launcher, one clock, one lock.

Time passes when somebody looks: `Runtime.pump` takes what the launcher reported and moves every region to the present.
Every API call pumps before and after; a server has one thread more (`fairshare.local.driver`) that pumps when the next
event is due. So the same code serves a virtual clock, where nothing happens between calls, and the machine's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from fairshare.local.batch_metrics import BatchMetrics, MetricPoint
from fairshare.local.events import EventBus, Feed
from fairshare.local.execution import Execution, Publish
from fairshare.local.faults import Faults
from fairshare.local.job_events import JobEvents
from fairshare.local.launcher import Launcher
from fairshare.local.region import NewId, Region
from fairshare.local.settling import AT_ONCE, Settling
from fairshare.scheduler.clock import Clock


class Follower(Protocol):
    """Something outside of the regions that moves with time, too."""

    def advance(self, now: int) -> None:
        """Do everything that is due at ``now`` ms."""

    def next_event_at(self) -> int | None:
        """Return the instant, in milliseconds, at which something will happen by itself; None = nothing will."""


@dataclass(frozen=True)
class _Open:
    region: Region
    execution: Execution


class Runtime:
    """Everything that moves.

    Args:
        launcher: runs attempts of all regions; whoever made it closes it.
        clock: the present.
        publish: makes a training job known to SageMaker's API.
        lock: an RLock that is held by everything that reads or changes state.
        new_id: for jobs and training jobs.
        ids_of: gives every account and region a source of its own, in place of ``new_id``.
        on_change: called after an API call may have changed when the next event is due; must not block.
        settling: how long changes of environments and queues take.
        faults: how repeated tokens are answered.

    Attributes:
        events: the bus that carries the events of every region.
        metrics: the data points of ``AWS/Batch`` of every region.
        followers: what moves after the regions, at the same instants.
    """

    def __init__(  # noqa: PLR0913 - named once, by each of the two ways to start a local AWS
        self,
        launcher: Launcher,
        clock: Clock,
        publish: Publish,
        *,
        lock: AbstractContextManager[Any],
        new_id: NewId = uuid4,
        ids_of: Callable[[str, str], NewId] | None = None,
        on_change: Callable[[], None] = lambda: None,
        settling: Settling = AT_ONCE,
        faults: Faults | None = None,
    ) -> None:
        self.events = EventBus()
        self.metrics: Feed[MetricPoint] = Feed()
        self.followers: list[Follower] = []
        self._lock = lock
        self._launcher = launcher
        self._clock = clock
        self._publish = publish
        self._ids_of = ids_of or (lambda account_id, name: new_id)
        self._on_change = on_change
        self._settling = settling
        self._faults = faults or Faults()
        self._open: dict[tuple[str, str], _Open] = {}
        self._is_closed = False

    def open_region(self, account_id: str, name: str) -> None:
        """Begin with an empty account and region; what was there is stopped and forgotten (moto's reset)."""
        with self._lock:
            if (before := self._open.pop((account_id, name), None)) is not None:
                before.execution.abandon()
            region = Region(account_id, name, self._ids_of(account_id, name), self._settling, self._faults)
            execution = Execution(
                region,
                self._launcher,
                self._collect,
                self._publish,
                JobEvents(region, self.events),
                BatchMetrics(region, self.metrics.publish),
            )
            self._open[account_id, name] = _Open(region, execution)

    def settle_in(self, settling: Settling) -> None:
        """Let changes take another time from now on, in every region."""
        with self._lock:
            self._settling = settling
            for entry in self._open.values():
                entry.region.settling = settling

    @contextmanager
    def operation(self, account_id: str, name: str) -> Iterator[Region]:
        """Hold the lock for one API operation on a region that is up to date before, and after."""
        with self._lock:
            self.pump()
            yield self._open[account_id, name].region
            self.pump()
        self._on_change()

    def pump(self) -> None:
        """Do everything that is due at the present instant."""
        with self._lock:
            if self._is_closed:
                return
            now = self._clock.now()
            self._collect(now)
            for entry in list(self._open.values()):
                entry.execution.advance(now)
            for follower in self.followers:
                follower.advance(now)

    def next_event_at(self) -> int | None:
        """Return the instant, in milliseconds, at which something will happen by itself; None = nothing will."""
        with self._lock:
            instants = [entry.region.engine.next_event_at() for entry in self._open.values()]
            instants += [follower.next_event_at() for follower in self.followers]
            return min((at for at in instants if at is not None), default=None)

    def now(self) -> int:
        """Return the present instant, in milliseconds."""
        return self._clock.now()

    def close(self) -> None:
        """Stand still for ever: no attempt is started any more. The launcher may be closed after this."""
        with self._lock:
            self._is_closed = True
        self.events.close()

    def _collect(self, now: int) -> None:
        for report in self._launcher.poll(now):
            for entry in self._open.values():
                if report.job_id in entry.region.jobs:
                    entry.execution.receive(report)
