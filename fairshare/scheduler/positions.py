"""Since when waiting jobs are at their positions in a queue, for GetJobQueueSnapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fairshare.scheduler.jobs import EngineJob


class Positions:
    """Remembers who was seen where at the last look."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}
        self._seen_at = 0

    def see(self, front: Iterable[EngineJob], changed_at: int, now: int) -> Iterator[tuple[str, int]]:
        """Yield (job id, since when it is at its position), as well as the calls of this method can tell.

        A position moves when the queue changes, last at ``changed_at``, and between two shares also as their use fades:
        a job that was seen at another position came to this one after it was seen there.
        """
        known, self._known = self._known, {}
        for position, job in enumerate(front):
            seen_position, since = known.get(job.id, (None, 0))
            if seen_position != position:
                seen_at = 0 if seen_position is None else self._seen_at
                since = max(changed_at, job.created_at, seen_at)
            self._known[job.id] = (position, since)
            yield job.id, since
        self._seen_at = now
