"""Which tags of a resource are ours: the stack's name, the tags of ``fairshare.yaml``, and the list of their keys.

AWS keeps no record of who set a tag. So every resource carries, beside the tags of the file, a tag that lists their
keys. A key on that list which the file no longer has was set by us and is removed; any other tag is somebody else's
and is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairshare.model import OWNER_TAG

RECORD_TAG: Final = "fairshare:tags"
"""Tag whose value is the keys of the tags that `setup` set, separated by blanks."""

_LONGEST_VALUE: Final = 256
"""Characters in the value of a tag (https://docs.aws.amazon.com/batch/latest/userguide/using-tags.html)."""

_RESERVED: Final = "aws:"
"""Keys that begin so are AWS's own: nobody else can set or remove them."""


def own_tags(tags: Mapping[str, str], stack: str) -> dict[str, str]:
    """Return the tags that a resource of a stack carries when the file says ``tags``.

    A key that holds a blank, or for which the list has no room left, is not recorded: such a tag stays on the resource
    when it leaves the file.
    """
    record = ""
    for key in sorted(tags):
        longer = f"{record} {key}".lstrip()
        if " " not in key and len(longer) <= _LONGEST_VALUE:
            record = longer
    return {**tags, **({RECORD_TAG: record} if record else {}), OWNER_TAG: stack}


def keys_set_by_us(tags: Mapping[str, str]) -> frozenset[str]:
    """Return the keys that are ours among the tags of a resource that exists."""
    recorded = (key for key in tags.get(RECORD_TAG, "").split() if not key.startswith(_RESERVED))
    return frozenset({OWNER_TAG, RECORD_TAG, *recorded})
