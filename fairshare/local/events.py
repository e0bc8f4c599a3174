"""EventBridge events of AWS Batch, and the bus in this process that carries them.

Shapes: https://docs.aws.amazon.com/batch/latest/userguide/service-job-events.html and
batch-service-job-queue-blocked-events.html, batch-service-job-preemption-events.html. AWS delivers at least once; here
it is once.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qs

SOURCE: Final = "aws.batch"
STATE_CHANGE: Final = "Batch Service Job State Change"
QUEUE_BLOCKED: Final = "Batch Service Job Queue Blocked"
PREEMPTION_STARTED: Final = "Batch Service Job Preemption Started"
PREEMPTION_COMPLETED: Final = "Batch Service Job Preemption Completed"

EVENTS_PATH: Final = "/moto-api/fairshare/events"
"""Answers GET with `page_of_events`; guarded like everything else."""

KEPT_EVENTS: Final = 10_000
"""Older events are forgotten."""

LONGEST_WAIT_SECONDS: Final = 20.0

Item = TypeVar("Item")


@dataclass(frozen=True)
class BatchEvent:
    """One event. ``at`` is integer milliseconds; ``resources`` are ARNs; ``detail`` is what the event is about."""

    id: str
    detail_type: str
    account_id: str
    region: str
    at: int
    resources: tuple[str, ...]
    detail: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the event as EventBridge delivers it; its ``time`` has no parts of a second."""
        return {
            "version": "0",
            "id": self.id,
            "detail-type": self.detail_type,
            "source": SOURCE,
            "account": self.account_id,
            "time": datetime.fromtimestamp(self.at // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self.region,
            "resources": list(self.resources),
            "detail": dict(self.detail),
        }


@dataclass(frozen=True)
class EventPage:
    """Events in order, the number of the last one published, and how many before them were forgotten unseen."""

    events: tuple[BatchEvent, ...]
    last: int
    missed: int


class Feed(Generic[Item]):
    """Hands what is published to its subscribers, in the publisher's thread."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[Item], None]] = []

    def subscribe(self, subscriber: Callable[[Item], None]) -> Callable[[], None]:
        """Call ``subscriber`` with everything from now on; it must neither block nor raise. Returns how to end that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def publish(self, item: Item) -> None:
        """Hand an item out."""
        for subscriber in list(self._subscribers):
            subscriber(item)


class EventBus(Feed[BatchEvent]):
    """A feed that remembers its last events, numbered from 1, and lets readers in other threads wait for more."""

    def __init__(self, kept: int = KEPT_EVENTS) -> None:
        super().__init__()
        self._events: deque[BatchEvent] = deque(maxlen=kept)
        self._changed = threading.Condition()
        self._is_closed = False
        self.last = 0

    def publish(self, item: BatchEvent) -> None:
        """Remember an event, wake who waits for one, and hand it out."""
        with self._changed:
            self._events.append(item)
            self.last += 1
            self._changed.notify_all()
        super().publish(item)

    def after(self, number: int, wait_seconds: float = 0.0) -> EventPage:
        """Return the events after event ``number``.

        Args:
            number: of the last event that the reader has seen; 0 = from the start.
            wait_seconds: how long to wait when there is none.
        """
        with self._changed:
            number = min(number, self.last)  # a reader of an earlier server
            self._changed.wait_for(lambda: self.last > number or self._is_closed, timeout=wait_seconds)
            first_kept = self.last - len(self._events)
            events = tuple(self._events)[max(0, number - first_kept) :]
            return EventPage(events, self.last, max(0, first_kept - number))

    def close(self) -> None:
        """Let everybody who waits go; nothing will come."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def page_of_events(bus: EventBus, query: str) -> bytes:
    """Answer a GET of `EVENTS_PATH`: a JSON object with ``events``, ``last`` (number of the last one) and ``missed``.

    Args:
        bus: where they come from.
        query: ``after=N`` gives those behind event N only, ``wait=S`` waits up to S seconds for one. What is not a
            number counts as absent.
    """
    fields = parse_qs(query)
    after = int(_number(fields, "after"))
    page = bus.after(after, min(_number(fields, "wait"), LONGEST_WAIT_SECONDS))
    return json.dumps(
        {"events": [event.to_json() for event in page.events], "last": page.last, "missed": page.missed}
    ).encode()


def _number(fields: Mapping[str, list[str]], name: str) -> float:
    text = fields.get(name, ["0"])[-1]
    return float(text) if text.isascii() and text.replace(".", "", 1).isdigit() else 0.0
