"""The duration of requests: a connection that reads the clock when a request arrives and when it is answered.

A server without metrics uses the plain `Connection`, so this costs it nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry

from metrics.exposition import histogram
from metrics.families import REQUESTS
from model.limits import MAX_IN_FLIGHT_REQUESTS
from model.response_code import ResponseCode
from remoting.command import REQUEST, Command
from remoting.connection import Connection
from remoting.request_code import RequestCode

_KNOWN_CODES = {code.value: code.name for code in RequestCode}
_RESULTS = {code.value: code.name for code in ResponseCode}


def timed_connections(registry: CollectorRegistry) -> type[Connection]:
    """Create a class of connections that observe the time of each request in a histogram of this registry."""
    times = histogram(registry, REQUESTS)
    observers: dict[tuple[int, int], Callable[[float], None]] = {}

    def observer_of(code: int, result: int) -> Callable[[float], None]:
        # A peer chooses the code, so only known codes become series.
        name = _KNOWN_CODES.get(code, "unknown")
        child = times.labels(code=name, result=_RESULTS.get(result, "unknown"))
        return observers.setdefault((code, result) if code in _KNOWN_CODES else (-1, result), child.observe)

    class TimedConnection(Connection):
        """See the module header."""

        def __init__(self, *args: Any, on_request: Callable[[Connection, Command], object], **options: Any) -> None:
            super().__init__(*args, on_request=self._begin, **options)
            self._serve = on_request
            self._began: dict[int, float] = {}  # opaque -> seconds

        def _begin(self, _connection: Connection, request: Command) -> object:
            if request.flags == REQUEST:
                if len(self._began) > 2 * MAX_IN_FLIGHT_REQUESTS:
                    self._began.clear()  # these requests never got an answer
                self._began[request.opaque] = perf_counter()
            return self._serve(self, request)

        def serve_by(self, on_request: Callable[[Connection, Command], object]) -> None:
            self._serve = on_request

        def respond(
            self, request: Command, header: Mapping[str, Any] = {}, body: bytes | None = None, code: int = 0
        ) -> None:
            super().respond(request, header, body, code)
            began = self._began.pop(request.opaque, None)
            if began is not None:
                observe = observers.get((request.code, code)) or observer_of(request.code, code)
                observe(perf_counter() - began)

    return TimedConnection
