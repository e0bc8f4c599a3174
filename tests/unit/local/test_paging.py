"""Pages and their tokens."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fairshare.local.errors import ClientException
from fairshare.local.paging import page


def numbers(limit: int, max_results: int | None = None, token: str | None = None) -> tuple[list[int], str | None]:
    return page(
        lambda last: range(0 if last is None else last + 1, limit),
        lambda number: number,
        kind=int,
        operation="ListNumbers",
        max_results=max_results,
        next_token=token,
    )


@pytest.mark.parametrize(
    ("limit", "sizes"), [(0, [0]), (99, [99]), (100, [100]), (101, [100, 1]), (250, [100, 100, 50])]
)
def test_pages_of_100_hold_everything_once(limit, sizes):
    found: list[int] = []
    seen = []
    token = None
    while True:
        items, token = numbers(limit, token=token)
        found += items
        seen.append(len(items))
        if token is None:
            break
    assert found == list(range(limit))
    assert seen == sizes


def test_a_token_does_not_tell_what_it_holds_but_is_plain_text():
    _, token = numbers(10, max_results=1)
    assert token is not None
    assert token.isascii()
    assert "ListNumbers" not in token


def forged(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


@pytest.mark.parametrize(
    "token",
    [
        *("", "x", "not base64!", "é", forged(5), forged([1]), forged(None), forged(["ListOthers", 1])),
        *(forged(["ListNumbers", "x"]), forged(["ListNumbers", None]), base64.b64encode(b"[" * 50_000).decode()),
    ],
)
def test_what_is_no_token_of_ours_is_refused(token):
    with pytest.raises(ClientException) as refused:
        numbers(10, token=token)
    assert str(refused.value) == "nextToken: not a token of ListNumbers (send back the one of the answer before)"
