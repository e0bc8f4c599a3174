"""The HTTP side of the server: a loopback port whose threads all end when it stops.

Imports werkzeug and moto at the top: loaded by `fairshare.local.server` only.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import ThreadedWSGIServer

from fairshare.local.guard import Application, Environ
from fairshare.model import UsageError

HOST: Final = "127.0.0.1"
_POLL_SECONDS: Final = 0.05
_IDLE_SECONDS: Final = 60

_logger = logging.getLogger(__name__)


class HttpServer:
    """Listens on 127.0.0.1 from the start; answers while it is `serving`.

    Args:
        port: 0 = any free one.

    Raises:
        UsageError: the port is in use.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
            self._socket.listen(128)
        except OSError as error:
            self._socket.close()
            raise UsageError(
                f"Cannot listen on port {port} of {HOST}: {error.strerror}",
                hint="Choose another with `--port`; 0 takes any free one.",
            ) from None
        self.port: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.port}"

    @contextmanager
    def serving(self, app: Application) -> Iterator[None]:
        """Answer requests, each in a thread; at the end finish what is under way, then end connections and threads."""
        server = _WsgiServer(HOST, self.port, app, _RequestHandler, fd=self._socket.fileno())
        thread = threading.Thread(
            target=server.serve_forever, args=(_POLL_SECONDS,), name="fairshare-local-http", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.end_connections()
            thread.join()

    def close(self) -> None:
        """Free the port."""
        self._socket.close()


class _RequestHandler(MotoRequestHandler):  # type: ignore[misc]
    """moto's handler, without werkzeug's line on stderr for every request."""

    timeout = _IDLE_SECONDS

    def log(self, type: str, message: str, *args: Any) -> None:
        _logger.debug(message, *args)

    def connection_dropped(self, error: BaseException, environ: Environ | None = None) -> None:
        """Close the connection: its other end has, or the application wants no answer sent (`LostReplyError`)."""
        self.close_connection = True


class _WsgiServer(ThreadedWSGIServer):
    """Waits for its threads when it closes, and can end connections that nobody uses."""

    daemon_threads = False

    def __init__(self, *args: Any, **options: Any) -> None:
        self._connections: set[socket.socket] = set()
        super().__init__(*args, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """Let threads that wait for a request see its end. Answers under way are still sent."""
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)

    def log(self, type: str, message: str, *args: Any) -> None:
        _logger.warning(message, *args)

    def handle_error(self, request: Any, client_address: Any) -> None:
        _logger.exception("a connection to the local AWS failed")
