"""What a log says about an object store that spilled to disk.

Ray's raylet prints a running total for each node, ``Spilled 2280 MiB, 12 objects, write throughput 332 MiB/s.``, so the
largest of a host counts, and hosts add up. Source:
https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_SPILLED: Final = re.compile(r"\bSpilled ([0-9]+) MiB, [0-9]+ objects")


def spilled_mib(lines: Iterable[tuple[str, str]]) -> int:
    """Return the MiB spilled on all hosts together; 0 when no line speaks of it.

    Args:
        lines: host (any text that tells one from another) and message.
    """
    totals: dict[str, int] = {}
    for host, message in lines:
        if found := _SPILLED.search(message):
            totals[host] = max(totals.get(host, 0), int(found[1]))
    return sum(totals.values())
