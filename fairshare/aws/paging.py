"""Walk through answers that come in pages: by a loop, to the last page, and never in circles (case C30)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fairshare.model import ServiceError


def pages(
    call: Callable[..., Mapping[str, Any]], *, token_name: str = "nextToken", **request: Any
) -> Iterator[Mapping[str, Any]]:
    """Yield the pages of a listing whose token has the same name in both directions, mostly ``nextToken``.

    A page without items is a page like any other: only a missing token is the end.

    Raises:
        ServiceError: the service answered with a token that it had given before; what was listed is not complete.
    """
    seen: set[str] = set()
    while True:
        page = call(**request)
        yield page
        token = page.get(token_name)
        if not token:
            return
        if token in seen:
            raise ServiceError(
                f"The service repeated a page token after {len(seen)} pages: the list is not complete",
                aws_code="RepeatedToken",
                http_status=200,
                hint="Run the same command again; if it stays, report it to AWS support.",
            )
        seen.add(token)
        request[token_name] = token
