r"""What stands in front of the services: our own pages, the faults, and the one place where requests are read whole.

Pages are guarded like everything else, and answered before anything else: neither faults nor the lock concern them.

==============================  ======  ===============================================================================
/moto-api/fairshare/calls       GET     ``{"calls": [...]}``, oldest first
/moto-api/fairshare/events      GET     see `fairshare.local.events.page_of_events`
/moto-api/fairshare/faults      GET     ``{"rules": ["lost_reply=0.2"]}``: the rules in force (`fairshare.local.faults`)
\                               PUT     the same JSON: replaces them; 400 with ``message`` and ``hint`` for a wrong one
\                               DELETE  ends them
==============================  ======  ===============================================================================

Imports moto at the top: loaded by `fairshare.local.server` only.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from moto.core.request import Request
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from fairshare.local.call_log import CALL_KEY, CallLog
from fairshare.local.events import EVENTS_PATH, EventBus, page_of_events
from fairshare.local.faults import Faults
from fairshare.local.faulty import LostReplyError, answer_with_fate
from fairshare.local.guard import Application, Environ, Refusal, StartResponse, error_answer
from fairshare.local.history import History
from fairshare.local.moto_extension import identify
from fairshare.local.wsgi_call import read_whole
from fairshare.model import UsageError
from fairshare.scheduler.clock import Clock

CALLS_PATH: Final = "/moto-api/fairshare/calls"
FAULTS_PATH: Final = "/moto-api/fairshare/faults"
_OURS_AND_MOTO_S: Final = "/moto-api/"

_KEPT_HOSTS: Final = 1_000

_logger = logging.getLogger(__name__)


def services() -> Application:
    """Return all of moto's services, ours among them."""
    dispatcher = DomainDispatcherApplication(create_backend_app)
    # moto looks at the file system for each of its services, at every request
    dispatcher.get_backend_for_host = lru_cache(_KEPT_HOSTS)(dispatcher.get_backend_for_host)
    application: Application = dispatcher
    return application


class Front:
    """The WSGI application behind the guard.

    Args:
        history: answers what is for the services.
        call_log: behind the page of calls.
        events: behind the page of events.
        faults: what befalls calls.
        clock: on which calls are late.
    """

    def __init__(self, history: History, call_log: CallLog, events: EventBus, faults: Faults, clock: Clock) -> None:
        self._history = history
        self._call_log = call_log
        self._events = events
        self._faults = faults
        self._clock = clock
        self._pages: dict[str, Callable[[Environ, bytes], bytes]] = {
            CALLS_PATH: self._calls_page,
            EVENTS_PATH: self._events_page,
            FAULTS_PATH: self._faults_page,
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request. What goes wrong inside is logged and answered with 500.

        Raises:
            LostReplyError: a fault wants the connection closed without an answer.
        """
        body = read_whole(environ)
        if (page := self._pages.get(environ["PATH_INFO"])) is not None:
            return _show(page, environ, body, start_response)
        try:
            return self._answer(environ, body, start_response)
        except LostReplyError:
            raise
        except Exception as error:
            _logger.exception("the local AWS failed at %s %s", environ["REQUEST_METHOD"], environ["PATH_INFO"])
            text = f"The local AWS failed: {type(error).__name__}: {error}. This is a fault of it, not of the request."
            return error_answer(Refusal("InternalFailure", text, "500 Internal Server Error"), environ, start_response)

    def _answer(self, environ: Environ, body: bytes, start_response: StartResponse) -> Iterable[bytes]:
        call = environ[CALL_KEY] = identify(Request(environ, populate_request=False))
        environ["wsgi.input"].seek(0)

        def remember(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            return self._history.answer(call, environ, body, start_response)

        if environ["PATH_INFO"].startswith(_OURS_AND_MOTO_S):
            return remember(environ, start_response)
        fate = self._faults.fate_of_call(call.operation, self._clock.now())
        return answer_with_fate(fate, self._clock, remember, environ, start_response)

    def _calls_page(self, environ: Environ, body: bytes) -> bytes:
        return json.dumps({"calls": [call.to_json() for call in self._call_log.calls()]}).encode()

    def _events_page(self, environ: Environ, body: bytes) -> bytes:
        return page_of_events(self._events, environ.get("QUERY_STRING", ""))

    def _faults_page(self, environ: Environ, body: bytes) -> bytes:
        match environ["REQUEST_METHOD"]:
            case "PUT":
                self._history.set_faults(_rules_in(body))
            case "DELETE":
                self._history.set_faults(())
        return json.dumps({"rules": self._faults.rules}).encode()


def _rules_in(body: bytes) -> tuple[str, ...]:
    try:
        rules = json.loads(body)["rules"]
        if isinstance(rules, list) and all(isinstance(rule, str) for rule in rules):
            return tuple(rules)
    except (ValueError, KeyError, TypeError):
        pass
    raise UsageError("the body is not JSON with rules", hint='send {"rules": ["lost_reply=0.2,seed=7"]}')


def _show(
    page: Callable[[Environ, bytes], bytes], environ: Environ, body: bytes, start_response: StartResponse
) -> Iterable[bytes]:
    status, content = "200 OK", b""
    try:
        content = page(environ, body)
    except UsageError as error:
        problem: dict[str, Any] = {"message": error.message, "hint": error.hint}
        status, content = "400 Bad Request", json.dumps(problem).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
    return [content]
