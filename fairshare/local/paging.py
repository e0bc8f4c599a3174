"""Pages of a listing, with a token that says where the next one begins.

The token is opaque to clients and holds the last item they got, so it stays right while items come and go, and after a
restart. 100 items are the largest page and the default (``maxResults`` of every list operation of AWS Batch).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, TypeVar

from fairshare.local.errors import ClientException

LARGEST_PAGE: Final = 100

Item = TypeVar("Item")
Position = TypeVar("Position", int, str)


def page(
    items_after: Callable[[Position | None], Iterable[Item]],
    position: Callable[[Item], Position],
    *,
    kind: type[Position],
    operation: str,
    max_results: int | None,
    next_token: str | None,
) -> tuple[list[Item], str | None]:
    """Return one page of items, and the token of the next page or None.

    Args:
        items_after: gives the items behind a position, in order; None = from the start.
        position: of an item, what `items_after` takes.
        kind: of positions; a forged token may hold anything.
        operation: a token serves the operation that made it only.
        max_results: 1 - 100; None = 100.
        next_token: of the page before.

    Raises:
        ClientException: a number out of range, or no token of ours.
    """
    if max_results is not None and not 1 <= max_results <= LARGEST_PAGE:
        raise ClientException(f"maxResults: {max_results} is out of range (1 - {LARGEST_PAGE})")
    size = LARGEST_PAGE if max_results is None else max_results
    start = None if next_token is None else _decode(operation, next_token, kind)
    found = list(islice(items_after(start), size + 1))
    if len(found) <= size:
        return found, None
    return found[:size], _encode(operation, position(found[size - 1]))


def _encode(operation: str, position: int | str) -> str:
    return base64.urlsafe_b64encode(json.dumps([operation, position]).encode()).decode()


def _decode(operation: str, token: str, kind: type[Position]) -> Position:
    try:
        made_by, position = json.loads(base64.urlsafe_b64decode(token))
    except (ValueError, TypeError, RecursionError):
        made_by, position = None, None
    if made_by != operation or not isinstance(position, kind):
        raise ClientException(f"nextToken: not a token of {operation} (send back the one of the answer before)")
    return position
