from __future__ import annotations

import sys
from typing import Any

import pytest

from fairshare.aws.paging import pages
from fairshare.model import ServiceError


def listing(tokens: list[str | None]) -> Any:
    """A listing whose n-th page holds the number n and gives the n-th token."""
    answers = iter(enumerate(tokens))

    def call(**request: Any) -> dict[str, Any]:
        number, token = next(answers)
        return {"items": [number], "request": request} | ({} if token is None else {"nextToken": token})

    return call


def test_c30_more_pages_than_python_can_recurse() -> None:
    count = max(1_500, sys.getrecursionlimit() + 500)
    tokens = [*(str(number) for number in range(1, count)), None]

    assert sum(len(page["items"]) for page in pages(listing(tokens))) == count


def test_the_token_of_a_page_asks_for_the_next_one() -> None:
    found = [page["request"] for page in pages(listing(["a", "b", None]), queue="gpu")]

    assert found == [{"queue": "gpu"}, {"queue": "gpu", "nextToken": "a"}, {"queue": "gpu", "nextToken": "b"}]


def test_an_empty_token_is_the_end() -> None:
    assert len(list(pages(listing([""])))) == 1


@pytest.mark.parametrize("tokens", [["a", "a"], ["a", "b", "a"]])
def test_c30_a_repeated_token_is_an_error_and_not_an_endless_loop(tokens: list[str | None]) -> None:
    with pytest.raises(ServiceError, match=r"repeated a page token after \d pages: the list is not complete") as caught:
        list(pages(listing(tokens)))

    assert caught.value.aws_code == "RepeatedToken"
    assert not caught.value.is_transient
