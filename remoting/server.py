"""The asyncio server: accepts connections, checks headers, dispatches requests to handlers, answers with their errors.

A handler is called as `handler(connection, request)` and returns one of
- a `Reply`: sent at once;
- None: the handler answers later, itself, through `connection.respond`. So a held pull waits without a task, and does
  not block its connection;
- a coroutine of a `Reply`: run in the server's task group, so that one connection's requests are answered
  concurrently.

This module is one of the two supervisors that may catch `Exception`: a handler that fails unexpectedly answers its
caller with SYSTEM_ERROR, and affects no other request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import anyio
from anyio.abc import TaskGroup

from model.errors import (
    ConfigError,
    FlowControl,
    RequestCodeNotSupported,
    RlabError,
    ServiceNotAvailable,
    SystemBusy,
    SystemError_,
)
from model.limits import MAX_CONNECTIONS, MAX_IN_FLIGHT_REQUESTS
from remoting.address import format_address, parse_address
from remoting.command import Command, Reply
from remoting.connection import Connection, close_all
from remoting.frame_budget import FrameBudget
from remoting.request_code import RequestCode
from remoting.tasks import background_tasks
from remoting.wire.schema import check_header

logger = logging.getLogger(__name__)

Handler = Callable[[Connection, Command], "Reply | Coroutine[Any, Any, Reply] | None"]


class RemotingServer:
    """A listening server; made by `serve`. `address` is the `host:port` that it listens on, with the real port."""

    def __init__(
        self,
        handlers: Mapping[RequestCode, Handler],
        tasks: TaskGroup,
        on_closed: Callable[[Connection], None] | None,
        max_connections: int,
    ) -> None:
        self.address = ""
        self._handlers: dict[int, Handler] = {int(code): handler for code, handler in handlers.items()}
        self._tasks = tasks
        self._on_closed = on_closed
        self._max_connections = max_connections
        self._connections: dict[int, Connection] = {}
        self._numbers = count(1)
        self._frames: FrameBudget[Connection] = FrameBudget()
        self._running = 0
        self._idle = anyio.Event()
        self._stopping = False

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The open connections, oldest first."""
        return tuple(self._connections.values())

    def connection(self, number: int) -> Connection | None:
        """The open connection with this number, or None when it is gone."""
        return self._connections.get(number)

    def make_connection(self) -> Connection:
        """Protocol factory for the loop."""
        return Connection(
            asyncio.get_running_loop(),
            on_request=self._dispatch,
            on_opened=self._opened,
            on_closed=self._closed,
            pause_reads_when_blocked=True,
            frames=self._frames,
        )

    def _opened(self, connection: Connection) -> None:
        if self._stopping:
            self._turn_away(connection, ServiceNotAvailable("the server is shutting down"))
        elif len(self._connections) >= self._max_connections:
            self._turn_away(connection, SystemBusy(f"this server has its {self._max_connections} connections already"))
        else:
            connection.number = next(self._numbers)
            self._connections[connection.number] = connection

    @staticmethod
    def _turn_away(connection: Connection, error: RlabError) -> None:
        connection.respond_error(Command(0, 0, 0, {}, None), error)
        connection.close()

    def _closed(self, connection: Connection, error: Exception | None) -> None:
        if self._connections.pop(connection.number, None) is not None and self._on_closed is not None:
            self._on_closed(connection)

    def _dispatch(self, connection: Connection, request: Command) -> None:
        connection.unanswered += 1
        try:
            handler = self._handlers.get(request.code)
            if handler is None:
                raise RequestCodeNotSupported(f"request code {request.code} is not served here: check host and port")
            if connection.unanswered > MAX_IN_FLIGHT_REQUESTS:
                raise FlowControl(f"{connection.unanswered} requests of this connection are unanswered: wait for some")
            if self._stopping:
                raise ServiceNotAvailable("the server is shutting down: use another one, or retry when it is back")
            check_header(request)
            outcome = handler(connection, request)
            if outcome is None:
                return
            if isinstance(outcome, Reply):
                connection.respond(request, outcome.header, outcome.body, outcome.code)
            else:
                self._running += 1
                self._tasks.start_soon(self._run, connection, request, outcome)
        except Exception as error:
            _answer_error(connection, request, error)

    async def _run(self, connection: Connection, request: Command, outcome: Awaitable[Reply]) -> None:
        try:
            reply = await outcome
            connection.respond(request, reply.header, reply.body, reply.code)
        except Exception as error:
            _answer_error(connection, request, error)
        finally:
            self._running -= 1
            if self._running == 0:
                self._idle.set()
                self._idle = anyio.Event()

    async def stop(self, grace_s: float) -> None:
        """Refuse new requests, give running handlers `grace_s` seconds, close every connection. Idempotent."""
        self._stopping = True
        with anyio.move_on_after(grace_s):
            while self._running:
                await self._idle.wait()
        await close_all(self.connections, grace_s)


def _answer_error(connection: Connection, request: Command, error: Exception) -> None:
    if not isinstance(error, RlabError):
        # The peer gets no detail: a traceback may contain data that is not meant for it.
        logger.error("request %d of %s failed", request.code, connection.peer, exc_info=error)
        error = SystemError_(f"unexpected {type(error).__name__}; see the server's log")
    connection.respond_error(request, error if error.code is not None else SystemError_(str(error)))


@asynccontextmanager
async def serve(
    handlers: Mapping[RequestCode, Handler],
    listen: str,
    *,
    on_closed: Callable[[Connection], None] | None = None,
    grace_s: float = 1.0,
    max_connections: int = MAX_CONNECTIONS,
) -> AsyncIterator[RemotingServer]:
    """Listen on `host:port` while the block runs; port 0 takes a free one, and `server.address` has it.

    `on_closed` is called once for each connection that is gone, whatever the reason. At the end of the block, handlers
    and unsent answers get `grace_s`. Connections beyond `max_connections` are refused with SYSTEM_BUSY.

    Raises:
        ConfigError: the address cannot be listened on.

    Cancellation: the port is released and every connection closed before it goes on.
    """
    host, port = parse_address(listen)
    async with background_tasks() as tasks:
        server = RemotingServer(handlers, tasks, on_closed, max_connections)
        try:
            listener = await asyncio.get_running_loop().create_server(server.make_connection, host, port)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {listen} ({error.strerror or error}): is another process using the port? "
                "Choose another one, or 0 for any free port"
            ) from error
        server.address = format_address(host, listener.sockets[0].getsockname()[1])
        try:
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                listener.close()
                await server.stop(grace_s)
