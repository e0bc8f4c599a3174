"""Requests and answers as data: read whole, written down, and made again from what was written."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairshare.local.guard import Application, Environ

PRESERVED_NAMES: Final = "moto.preserved_header_names"
"""Where moto keeps the spelling of S3's metadata headers."""

_KEPT: Final = frozenset({"REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "RAW_URI", "CONTENT_TYPE", PRESERVED_NAMES})
_DROPPED: Final = frozenset(
    {
        "HTTP_ACCEPT",
        "HTTP_ACCEPT_ENCODING",
        "HTTP_AMZ_SDK_INVOCATION_ID",
        "HTTP_AMZ_SDK_REQUEST",
        "HTTP_CONNECTION",
        "HTTP_EXPECT",
        "HTTP_TRANSFER_ENCODING",
        "HTTP_USER_AGENT",
        "HTTP_X_AMZ_CONTENT_SHA256",
        "HTTP_X_AMZ_DATE",
        "HTTP_X_AMZ_SECURITY_TOKEN",
        "HTTP_X_AMZN_TRACE_ID",
    }
)
_SIGNATURE: Final = re.compile(r",\s*Signature=[^,]*")


class Answer:
    """What an application answered, before anybody was told."""

    def __init__(self, app: Application, environ: Environ) -> None:
        self.status_line = ""
        self.headers: list[tuple[str, str]] = []
        chunks = app(environ, self._start)
        try:
            self.body = b"".join(chunks)
        finally:
            _close(chunks)

    @property
    def status(self) -> int:
        """The HTTP status, e.g. 200."""
        return int(self.status_line.split(" ", 1)[0])

    def _start(self, status: str, headers: list[tuple[str, str]], *_: Any) -> None:
        self.status_line, self.headers = status, headers


def read_whole(environ: Environ) -> bytes:
    """Read a request's body, and let ``environ`` give it again: a slow client must not keep others waiting."""
    stream, length = environ["wsgi.input"], environ.get("CONTENT_LENGTH")
    if environ.get("wsgi.input_terminated"):
        body = bytes(stream.read())
    else:
        body = bytes(stream.read(int(length))) if length else b""
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "wsgi.input_terminated": True}
    return body


def describe_request(environ: Environ) -> dict[str, Any]:
    """Return what of a request, but for its body, decides about its effect: JSON, without its signature."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _KEPT or (name.startswith("HTTP_") and name not in _DROPPED)
    }
    if "HTTP_AUTHORIZATION" in kept:
        kept["HTTP_AUTHORIZATION"] = _SIGNATURE.sub("", kept["HTTP_AUTHORIZATION"])
    return kept


def make_request(described: Mapping[str, Any], body: bytes) -> Environ:
    """Make a request again."""
    host, _, port = str(described.get("HTTP_HOST", "127.0.0.1:80")).partition(":")
    return {
        "SCRIPT_NAME": "",
        "SERVER_NAME": host,
        "SERVER_PORT": port or "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.input_terminated": True,
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        **described,
    }


def _close(chunks: Iterable[bytes]) -> None:
    if (close := getattr(chunks, "close", None)) is not None:
        close()
