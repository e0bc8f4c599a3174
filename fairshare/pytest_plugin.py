"""pytest plugin: the fixture ``local_aws``, an AWS of each test's own. Loaded by pytest in every run, so it is light.

Found through the entry point ``pytest11``; ``docs/testing.md`` shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fairshare.local.testkit import LocalAWS


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        'local_aws(mode="in_process", ...): arguments of fairshare.LocalAWS for the fixture local_aws of a test',
    )


@pytest.fixture
def local_aws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalAWS]:
    """A `fairshare.LocalAWS` from empty; AWS's clients find it through the environment, also in child processes.

    ``@pytest.mark.local_aws("server", speed=60)`` passes arguments on.
    """
    from fairshare.local.testkit import LocalAWS

    marker = request.node.get_closest_marker("local_aws")
    arguments, options = (marker.args, marker.kwargs) if marker else ((), {})
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with LocalAWS(*arguments, **options) as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        yield aws
