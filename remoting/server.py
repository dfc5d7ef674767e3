"""The asyncio server: accepts connections, checks headers, dispatches requests to handlers, answers with their errors.

A handler is called as `handler(connection, request)` and returns one of
- a `Reply`: sent at once;
- None: the handler itself answers later, through `connection.respond`, so a held pull needs no task and does not block
  its connection;
- a coroutine of a `Reply` or None: runs in the server's task group, so one connection's requests are answered
  concurrently.

A late server sorts requests before it calls their handlers, as `remoting/overload/admission.py` decides. It measures
lateness once per event-loop iteration with requests, not for each request.

This module is one of the few that may catch `Exception` (CONTRIBUTING.md): if a handler fails unexpectedly, its caller
gets SYSTEM_ERROR, and other requests are not affected.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import anyio
from anyio.abc import TaskGroup

from model.access_limits import MAX_GREETING_BYTES
from model.errors import (
    ConfigError,
    FlowControl,
    IllegalOperation,
    RequestCodeNotSupported,
    RlabError,
    ServiceNotAvailable,
    SystemBusy,
    SystemError_,
)
from model.limits import (
    ACCEPTED_AT_ONCE,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_OF_ADDRESS,
    MAX_IN_FLIGHT_REQUESTS,
    MAX_RETRY_AFTER_S,
    MAX_UNANSWERED_BYTES,
)
from model.log_lines import LogLines
from remoting.address import format_address, parse_address
from remoting.codec import CODEC, Dialect, FrameTooLong, MsgpackCodec
from remoting.command import Command, Reply
from remoting.connection import Connection, close_all
from remoting.overload.addresses import Addresses, network_of
from remoting.overload.admission import WAITS, Admission, is_new_work
from remoting.overload.incomplete_frame import PartialFrameBudget
from remoting.overload.peer_memory import PeerMemory
from remoting.overload.silence import SilentPeers
from remoting.request_code import RequestCode
from remoting.security.access_file import AccessFile
from remoting.security.gate import Gate, GuardedServer, NoClientState
from remoting.security.new_connections import NewConnections
from remoting.security.policy import Policy
from remoting.security.tls.certificates import TlsFiles
from remoting.security.tls.on_demand import GrpcTls, PortTls, TlsOnDemand
from remoting.tasks import background_tasks
from remoting.wire.schema import check_header

logger = logging.getLogger(__name__)

Outcome = Reply | Coroutine[Any, Any, Reply | None] | None
Handler = Callable[[Connection, Command], Outcome]


class RemotingServer:
    """A listening server; made by `serve`. `address` is the `host:port` that it listens on, with the real port."""

    def __init__(
        self,
        handlers: Mapping[RequestCode, Handler],
        tasks: TaskGroup,
        on_closed: Callable[[Connection], None] | None,
        max_connections: int,
        loop: asyncio.AbstractEventLoop,
        dialects: Sequence[Dialect] = (),
        connection_class: type[Connection] = Connection,
        gate: Gate | None = None,
        max_connections_of_address: int = MAX_CONNECTIONS_OF_ADDRESS,
        tls_context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self.address = ""
        self.gate = gate
        self._codec = CODEC if gate is None else MsgpackCodec(MAX_GREETING_BYTES)
        others = dialects if gate is None else [each.with_check(gate.check_rocketmq) for each in dialects]
        self._dialects = (*others, TlsOnDemand(loop, tasks, tls_context, self._codec, others)) if dialects else ()
        self._loop = loop
        self._handlers: dict[int, Handler] = {
            int(code): handler if gate is None else gate.guard(code, handler) for code, handler in handlers.items()
        }
        self._tasks = tasks
        self._on_closed = on_closed
        self._max_connections = max_connections
        self._connection_class = connection_class
        self._on_opened: Callable[[Connection], object] | None = None
        self._connections: dict[int, Connection] = {}
        self._addresses = Addresses(max_connections_of_address)
        self._new_connections = NewConnections(loop)
        self._silent_peers = SilentPeers(loop, self._connections.values())
        self._memory: PeerMemory[Connection] = PeerMemory()
        self._lines = LogLines()  # the log lines of connections about their peers
        self._failures = LogLines()
        self._numbers = count(1)
        self._frames = PartialFrameBudget()
        self._admission: Admission[tuple[Connection, Command]] = Admission()
        self._attentive = True  # the next request is the first of its iteration, or goes to the admission
        self._serving_slice = False
        self._read_from: float | None = None  # when the first request of the iteration was read
        self._refused = self._forgotten = 0  # since the last log line about them
        self._logged_at = float("-inf")
        self._began: float | None = None  # when the iteration began; `_iterated` is scheduled for its end
        self._running = 0
        self._idle = anyio.Event()
        self._stopping = False

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The open connections, oldest first."""
        return tuple(self._connections.values())

    @property
    def places(self) -> int:
        """Number of further connections that it may have."""
        return self._max_connections - len(self._connections)

    @property
    def waiting(self) -> int:
        """Requests that wait because the server is late."""
        return len(self._admission)

    def connection(self, number: int) -> Connection | None:
        """The open connection with this number, or None when it is gone."""
        return self._connections.get(number)

    def follow_connections(self, opened: Callable[[Connection], object] | None) -> None:
        """Call a function with each connection that is opened from now on; None ends that."""
        self._on_opened = opened

    def make_connection(self) -> Connection:
        """Protocol factory for the loop."""
        return self._connection_class(
            self._loop,
            on_request=self._dispatch,
            on_opened=self._opened,
            on_closed=self._closed,
            pause_reads_when_blocked=True,
            frames=self._frames,
            memory=self._memory,
            lines=self._lines,
            codec=self._codec,
            dialects=self._dialects,
        )

    def _opened(self, connection: Connection) -> None:
        connection.owner = network_of(connection.peer)
        if self._stopping:
            self._refuse_connection(connection, ServiceNotAvailable("the server is shutting down"))
        elif self.places <= 0:
            error = SystemBusy(f"this server has as many connections as it may: {self._max_connections}")
            self._refuse_connection(connection, error)
        elif not self._addresses.admit(connection.peer):
            error = SystemBusy(f"your address has as many connections as it may: {self._addresses.limit}")
            self._refuse_connection(connection, error)
        else:
            try:
                greeter = self._new_connections if self.gate is None else self.gate
                greeter.opened(connection, self._dispatch)
            except SystemBusy as error:
                self._addresses.connection_closed(connection.peer)
                self._refuse_connection(connection, error)
                return
            connection.number = next(self._numbers)
            self._connections[connection.number] = connection
            self._silent_peers.watch()
            if self._on_opened is not None:
                self._on_opened(connection)

    @staticmethod
    def _refuse_connection(connection: Connection, error: RlabError) -> None:
        connection.respond_error(Command(0, 0, 0, {}, None), error)
        connection.close()

    def _closed(self, connection: Connection, error: Exception | None) -> None:
        if self._connections.pop(connection.number, None) is None:
            return  # it was refused, and never counted
        self._addresses.connection_closed(connection.peer)
        self._new_connections.closed(connection)
        if self._on_closed is not None:
            self._on_closed(connection)
        if self.gate is not None:
            self.gate.closed(connection)

    def _dispatch(self, connection: Connection, request: Command) -> bool:
        """Serve a request or put it aside; returns whether it was put aside."""
        connection.accept(request)
        if self._attentive and self._defer(connection, request):
            return True
        try:
            handler = self._handlers.get(request.code)
            if handler is None:
                raise RequestCodeNotSupported(f"request code {request.code} is not served here: check host and port")
            if connection.unanswered > MAX_IN_FLIGHT_REQUESTS:
                raise FlowControl(f"this connection has too many unanswered requests, {connection.unanswered}: wait")
            if self._memory.unanswered_bytes > MAX_UNANSWERED_BYTES and is_new_work(request.code):
                raise self._memory_is_full()
            if self._stopping:
                raise ServiceNotAvailable("the server is shutting down: use another one, or retry when it is back")
            check_header(request)
            outcome = handler(connection, request)
            if outcome is None:
                return False
            if isinstance(outcome, Reply):
                connection.respond(request, outcome.header, outcome.body, outcome.code)
            else:
                self._running += 1
                self._tasks.start_soon(self._run, connection, request, outcome)
        except Exception as error:
            self._answer_error(connection, request, error)
        return False

    # --- being late --------------------------------------------------------------------------------------------------

    def _defer(self, connection: Connection, request: Command) -> bool:
        """Measure the iteration that begins with this request; while the server is late, put the request aside."""
        now = self._loop.time()
        if self._began is None:
            self._began = now
            self._loop.call_soon(self._iterated)
        if self._read_from is None and not self._serving_slice:
            self._read_from = now
        admission = self._admission
        if not admission.engaged or self._serving_slice:
            self._attentive = admission.engaged
            return False
        wait_ms = request.header.get("wait_ms")
        wait_s = wait_ms / 1000 if type(wait_ms) is int else None
        retry_after_s = admission.arrive(now, request.code, wait_s, len(request.body or b""), (connection, request))
        if retry_after_s is None:
            return False
        if retry_after_s != WAITS:
            self._refuse_busy(connection, request, retry_after_s)
        else:
            connection.inbox.aside += 1
        return True

    def _iterated(self) -> None:
        """Called by the loop, once for each iteration with requests, and in each while requests wait."""
        assert self._began is not None, "an iteration was begun"
        now, admission = self._loop.time(), self._admission
        # Since the end of the slice the loop has read. Its clock may stand still between two reads.
        serving_s = (now if self._read_from is None else self._read_from) - self._began
        admission.record_iteration(now - self._began, now=now, serving_s=serving_s)
        self._read_from = None
        if admission.engaged:
            self._began = now
            self._serve_slice(now)
            self._loop.call_soon(self._iterated)
        else:
            self._began = None
        self._attentive = True

    def _serve_slice(self, now: float) -> None:
        decision = self._admission.next_slice(now)
        self._serving_slice = True
        try:
            for connection, request in decision.serve:
                connection.leave_queue()
                connection.forget(request)  # `_dispatch` counts it again
                if not connection.closed:  # else a lease would go to a member that is known to be gone
                    self._dispatch(connection, request)
        finally:
            self._serving_slice = False
        for connection, request in decision.refuse:
            connection.leave_queue()
            self._refuse_busy(connection, request, decision.retry_after_s)
        for connection, request in decision.forget:
            connection.leave_queue()
            connection.forget(request)
        self._forgotten += len(decision.forget)
        if (self._refused or self._forgotten) and now >= self._logged_at + 1.0:
            logger.warning(
                "%s is late: %d requests were refused and %d forgotten since the last such line, %d wait",
                *(self.address, self._refused, self._forgotten, len(self._admission)),
            )
            self._refused, self._forgotten, self._logged_at = 0, 0, now

    def _refuse_busy(self, connection: Connection, request: Command, retry_after_s: float) -> None:
        self._refused += 1
        text = f"more requests wait here than can be served: try again in {retry_after_s:.1f} s"
        connection.respond_error(request, SystemBusy(text, retry_after_s))

    def _memory_is_full(self) -> SystemBusy:
        now, n_bytes = self._loop.time(), self._memory.unanswered_bytes
        if now >= self._logged_at + 1.0:
            self._logged_at = now
            logger.warning("%s refuses new work: %d bytes of requests are unanswered", self.address, n_bytes)
        return SystemBusy("this server has as many unanswered bytes as it may have: try again", MAX_RETRY_AFTER_S)

    async def _run(self, connection: Connection, request: Command, outcome: Awaitable[Reply | None]) -> None:
        try:
            reply = await outcome
            if reply is not None:
                connection.respond(request, reply.header, reply.body, reply.code)
        except Exception as error:
            self._answer_error(connection, request, error)
        finally:
            self._running -= 1
            if self._running == 0:
                self._idle.set()
                self._idle = anyio.Event()  # an event cannot be cleared; `stop` counts again after each

    def _answer_error(self, connection: Connection, request: Command, error: Exception) -> None:
        if isinstance(error, FrameTooLong):
            error = IllegalOperation(f"the answer does not fit a frame, so ask for less: {error}")
        elif not isinstance(error, RlabError):
            text, now = "request %d of %s failed", self._loop.time()
            self._failures.failure(logger, now, text, request.code, connection.peer, error=error)
            # The peer gets no detail: a traceback may contain data that the peer must not see.
            error = SystemError_(f"unexpected {type(error).__name__}; see the server's log")
        connection.respond_error(request, error if error.code is not None else SystemError_(str(error)))

    async def stop(self, grace_s: float) -> None:
        """Refuse new requests, give running handlers `grace_s` seconds, close every connection. Idempotent."""
        self._stopping = True
        with anyio.move_on_after(grace_s):
            await self._silent_peers.leave()
            while self._running:
                await self._idle.wait()
        self._new_connections.stop()
        await close_all(self.connections, grace_s)


@asynccontextmanager
async def serve(
    handlers: Mapping[RequestCode, Handler],
    listen: str,
    *,
    on_closed: Callable[[Connection], None] | None = None,
    grace_s: float = 1.0,
    max_connections: int = MAX_CONNECTIONS,
    max_connections_of_address: int = MAX_CONNECTIONS_OF_ADDRESS,
    dialects: Sequence[Dialect] = (),
    connection_class: type[Connection] = Connection,
    access: AccessFile | Policy | None = None,
    tls: TlsFiles | None = None,
    grpc_tls: GrpcTls = None,
    guarded: GuardedServer | None = None,
) -> AsyncIterator[RemotingServer]:
    """Listen on `host:port` while the block runs; port 0 takes a free one, and `server.address` has it.

    `on_closed` is called once for each accepted connection that has closed, not for a refused one. At the end of the
    block, handlers and unsent answers get `grace_s`. Connections beyond `max_connections`, or beyond the limit of one
    address, are refused with SYSTEM_BUSY. Clients that speak one of `dialects` are served, too. Another
    `connection_class` can observe frames. With `access` only clients that prove a key are served, within their rights
    and the answers of `guarded`. `tls` encrypts all connections, `grpc_tls` those that ask for it.

    Raises:
        ConfigError: the address cannot be listened on, or the access file or the certificates cannot be read.

    Cancellation: the port is released and every connection closed before it goes on.
    """
    host, port = parse_address(listen)
    async with background_tasks() as tasks:
        loop = asyncio.get_running_loop()
        gate = None if access is None else Gate(access, guarded or NoClientState())
        port_tls = PortTls(tls, grpc_tls, host)
        # Each accepted connection has a descriptor before it can be refused.
        backlog = max(1, min(ACCEPTED_AT_ONCE, max_connections // 4))
        server = RemotingServer(
            *(handlers, tasks, on_closed, max_connections, loop, dialects, connection_class, gate),
            *(max_connections_of_address, port_tls.make_context),
        )
        accept = port_tls.accepting(loop, tasks, server.make_connection, lambda: server.places)
        try:
            listener = await loop.create_server(accept, host, port, backlog=backlog)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {listen} ({error.strerror or error}): is another process using the port? "
                "Choose another one, or 0 for any free port"
            ) from error
        server.address = format_address(host, listener.sockets[0].getsockname()[1])
        if gate is not None:
            tasks.start_soon(gate.keep_current)
        try:
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                listener.close()
                await server.stop(grace_s)
                if gate is not None:
                    gate.stop()
