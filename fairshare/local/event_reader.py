"""Reads the events of a local AWS that runs as a process of its own, over its loopback port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fairshare.local.daemon import find_server
from fairshare.local.events import EVENTS_PATH
from fairshare.model import NotFoundError

_ANSWER_SECONDS: Final = 10.0
"""How long an answer may take once the server has stopped waiting for an event."""


@dataclass(frozen=True)
class EventsRead:
    """Events as EventBridge delivers them; ``missed`` of them were forgotten before they could be read."""

    events: tuple[Mapping[str, Any], ...]
    missed: int


class EventReader:
    """Reads events one page after the other, from the oldest that the server still knows.

    Args:
        ready_file: of the server.

    Raises:
        NotFoundError: no server runs that wrote this file.
    """

    def __init__(self, ready_file: Path) -> None:
        server = find_server(ready_file)
        if server is None:
            raise NotFoundError("no local AWS is running", hint="`fairshare local start` starts one")
        self._address = urlsplit(server.endpoint_url)
        self._endpoint_url = server.endpoint_url
        self._key = str(json.loads(ready_file.read_text(encoding="utf-8"))["access_key_id"])
        self._last = 0

    def read(self, wait_seconds: float = 0.0) -> EventsRead:
        """Return what came since the last page; wait that long for something when there is nothing.

        Raises:
            NotFoundError: the server has ended.
        """
        connection = HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=wait_seconds + _ANSWER_SECONDS
        )
        scope = f"{self._key}/20260101/us-east-1/events/aws4_request"  # the key lets in, signatures are not computed
        try:
            connection.request(
                "GET",
                f"{EVENTS_PATH}?after={self._last}&wait={wait_seconds:g}",
                headers={"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"},
            )
            page = json.loads(connection.getresponse().read())
            self._last = page["last"]
            return EventsRead(tuple(page["events"]), page["missed"])
        except (OSError, HTTPException, ValueError, KeyError):
            raise NotFoundError(
                f"the local AWS at {self._endpoint_url} has ended", hint="`fairshare local start` starts another"
            ) from None
        finally:
            connection.close()
