"""Closes connections that send no request in time, on a server without access control. Shell.

A client of any kind connects because it has a request, so a peer that sends none only occupies a place: its connection
is closed. On a server with access control the gate does that: it asks for a key and waits for a shorter time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice

from model.errors import ServiceNotAvailable
from model.limits import FIRST_REQUEST_S
from remoting.command import Command
from remoting.connection import Connection

logger = logging.getLogger(__name__)

Serve = Callable[[Connection, Command], object]


class NewConnections:
    """See the module header. After its first request a connection costs nothing here."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[Connection, float] = {}  # the oldest first
        self._timer: asyncio.TimerHandle | None = None

    def opened(self, connection: Connection, serve: Serve) -> None:
        """Wait for the first request of a connection; it and all later ones go to `serve`."""

        def serve_first(connection: Connection, request: Command) -> object:
            self._due.pop(connection, None)
            connection.serve_by(serve)
            return serve(connection, request)

        due = self._due[connection] = self._loop.time() + FIRST_REQUEST_S
        connection.serve_by(serve_first)
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._expire)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._due.pop(connection, None)

    def stop(self) -> None:
        """Stop the timer. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time() + 1e-6  # a loop may call a timer early, by the resolution of its clock
        for connection in [each for each, due in self._due.items() if due <= now]:
            del self._due[connection]
            if connection.has_frame_under_way:  # the frame has its own deadline, and may wait for memory
                continue
            logger.info("closing the connection of %s, which has sent no request", connection.peer)
            error = ServiceNotAvailable(f"no request arrived within {FIRST_REQUEST_S:g} s")
            connection.respond_error(Command(0, 0, 0, {}, None), error)
            connection.close()
        for due in islice(self._due.values(), 1):
            self._timer = self._loop.call_at(due, self._expire)
