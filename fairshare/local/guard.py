"""Who may talk to the local AWS: whoever read this start's access key, and nobody through a web browser.

The process launcher runs code, so a web page and another user of this machine must not reach it. A request is refused
with 403 when it is not signed, when any credential in it names another access key, when its ``Host`` is not the
loopback address (a name that resolves to it could be anybody's: DNS rebinding), or when it has an ``Origin`` (a browser
sent it). The signature itself is not computed again: the key is random, new at each start, and as secret as the secret
that goes with it. Form uploads to S3 carry their credential in the body and are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any, Final
from xml.sax.saxutils import escape

from fairshare.local.signature import credentials_of

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

_JSON: Final = "application/json"
_XML: Final = "text/xml"


@dataclass(frozen=True)
class Refusal:
    """Why a request is refused. ``code`` is AWS's, ``message`` for people, ``status`` HTTP's."""

    code: str
    message: str
    status: str = "403 Forbidden"


_NOT_SIGNED: Final = Refusal(
    "MissingAuthenticationToken",
    "The local AWS answers signed requests only. Use `--local`, or the access key in its ready file.",
)
_OTHER_KEY: Final = Refusal(
    "InvalidClientTokenId",
    "This is not the access key of the local AWS, which makes a new one at each start. Use `--local`, or the key in "
    "its ready file.",
)
_OTHER_HOST: Final = Refusal(
    "AccessDenied", "The local AWS answers to 127.0.0.1 and localhost only, not to another name in the Host header."
)
_BROWSER: Final = Refusal("AccessDenied", "The local AWS does not answer web pages (the request has an Origin header).")


class Guard:
    """WSGI middleware in front of everything the local AWS serves.

    Args:
        app: what is guarded.
        access_key_id: the one key that is let in.
        port: where we listen; part of ``Host``.
    """

    def __init__(self, app: Application, *, access_key_id: str, port: int) -> None:
        self._app = app
        self._access_key_id = access_key_id
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        refusal = self._refusal(environ)
        if refusal is None:
            return self._app(environ, start_response)
        return error_answer(refusal, environ, start_response)

    def _refusal(self, environ: Environ) -> Refusal | None:
        if environ.get("HTTP_HOST", "").lower() not in self._hosts:
            return _OTHER_HOST
        if "HTTP_ORIGIN" in environ:
            return _BROWSER
        credentials = credentials_of(environ.get("HTTP_AUTHORIZATION", ""), environ.get("QUERY_STRING", ""))
        if not credentials:
            return _NOT_SIGNED
        if not all(
            compare_digest(credential.access_key_id.encode(), self._access_key_id.encode())
            for credential in credentials
        ):
            return _OTHER_KEY
        return None


def error_answer(refusal: Refusal, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with an error in the form that the caller's AWS client reads: JSON, or one of two kinds of XML."""
    code, message = refusal.code, refusal.message
    credentials = credentials_of(environ.get("HTTP_AUTHORIZATION", ""), environ.get("QUERY_STRING", ""))
    service = credentials[0].service if credentials else ""
    text = escape(message)
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{text}</Message></Error>"
        content_type, body = _XML, f"<ErrorResponse>{error}</ErrorResponse>"
    elif service == "s3":
        content_type, body = _XML, f"<Error><Code>{code}</Code><Message>{text}</Message></Error>"
    else:
        content_type, body = _JSON, json.dumps({"__type": code, "message": message})
    content = b"" if environ.get("REQUEST_METHOD") == "HEAD" else body.encode()
    headers = [("Content-Type", content_type), ("Content-Length", str(len(content))), ("x-amzn-ErrorType", code)]
    start_response(refusal.status, headers)
    return [content]
