"""A server that takes a time for each request, in virtual time: an event loop of its own, which is busy meanwhile.

The virtual loop stands for all machines, so it cannot be busy. The connections of a slow server get a loop that can:
what comes while it handles requests is read in its next iteration, and nothing of what it has called soon happens
before that. So answers leave, and admissions are measured, as in a real process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from anyio.abc import TaskGroup

import remoting.server
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler, RemotingServer

Callback = tuple[Callable[..., object], tuple[Any, ...]]


class BusyLoop:
    """The event loop of one process: the virtual one, but late by the service times of its requests."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._busy_until = 0.0
        self._soon: list[Callback] = []
        self._reads: list[Callback] = []
        self._iteration: deque[Callback] = deque()
        self._scheduled = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return max(self._loop.time(), self._busy_until)

    def work(self, seconds: float) -> None:
        self._busy_until = self.time() + seconds

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._soon.append((callback, args))
        self._schedule()

    def read(self, callback: Callable[..., object], *args: Any) -> None:
        self._reads.append((callback, args))
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_at(self.time(), self._iterate)

    def _iterate(self) -> None:
        if not self._iteration:
            self._iteration.extend((*self._soon, *self._reads))
            self._soon.clear()
            self._reads.clear()
        while self._iteration:
            if self._loop.time() < self._busy_until:
                self._loop.call_at(self._busy_until, self._iterate)
                return
            callback, args = self._iteration.popleft()
            callback(*args)
        self._scheduled = False
        if self._soon or self._reads:
            self._schedule()


def _slow_kind(kind: type[Connection]) -> type[Connection]:
    """The same connection, but its bytes wait until its process reads them."""

    class SlowConnection(kind):  # type: ignore[valid-type, misc]  # a class made at run time
        def data_received(self, data: bytes) -> None:
            self._loop.read(super().data_received, data)

    return SlowConnection


class SlowServer(RemotingServer):
    """A server whose requests take `service_s` each."""

    service_s = 0.0

    def __init__(
        self,
        handlers: Mapping[RequestCode, Handler],
        tasks: TaskGroup,
        on_closed: Callable[[Connection], None] | None,
        max_connections: int,
        loop: asyncio.AbstractEventLoop,
        *more: Any,
    ) -> None:
        busy: Any = BusyLoop(loop)
        super().__init__(handlers, tasks, on_closed, max_connections, busy, *more)
        self._connection_class = _slow_kind(self._connection_class)
        self._handlers = {code: self._slow(handler) for code, handler in self._handlers.items()}

    def _slow(self, handler: Handler) -> Handler:
        def handle(connection: Connection, request: Command) -> Any:
            loop: Any = self._loop
            loop.work(self.service_s)
            return handler(connection, request)

        return handle


def make_servers_slow(patch: Callable[[object, str, object], None]) -> type[SlowServer]:
    """Let the servers that are started from now on take a time for each request; `service_s` of the answer sets it."""

    class Server(SlowServer):
        pass

    patch(remoting.server, "RemotingServer", Server)
    return Server
