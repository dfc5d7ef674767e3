"""FaultyConnection: carries faults out; while a fault is active it is the class of a server's open connections, too.

So a server without faults makes no further call for a message, and `Connection` makes no decision about faults. An open
connection keeps its session, its decoder and its transport. The attributes that are added here have defaults in the
class, because no constructor runs when the class of an object changes.

A slow reader has a rate of its own, a paused connection the rate 0 and is not read from. Bytes that are held back count
as unsent, so the same limits apply as for a peer that does not read.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Protocol

from model.limits import FAULT_DRIP_S, MAX_UNSENT_BYTES, WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES
from remoting.command import RESPONSE, Command
from remoting.connection import Connection
from remoting.session import Waiter

UNKNOWN = -1
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Faults(Protocol):
    """The decisions about connections and frames, as `hook.py` makes them."""

    def opened(self, connection: FaultyConnection) -> None:
        """Apply the active faults to a new connection."""

    def identify(self, connection: FaultyConnection, command: Command) -> None:
        """Record the client of a connection, if a frame shows it."""

    def incoming(self, connection: FaultyConnection, command: Command, *, is_answer: bool) -> object:
        """Pass a command that has arrived, or carry out the fault that affects it."""

    def outgoing(self, connection: FaultyConnection, frame: bytes, code: int, *, is_answer: bool) -> None:
        """Pass a frame that leaves, or carry out the fault that affects it."""


class FaultyConnection(Connection):
    """See the module header. Subclasses are made by `faulty_class`."""

    hook: ClassVar[Faults]

    rate: float | None = None  # bytes a second that may leave; None for no limit
    is_half_open = False  # the client sees the connection closed, and this end must not notice that
    _code = UNKNOWN  # of the frame that is being encoded
    _answers = False  # whether that frame is an answer
    _backlog: bytearray | None = None  # bytes that are held back
    _drip: asyncio.TimerHandle | None = None
    _kept: list[Command] | None = None  # commands that had arrived when reading stopped

    # --- commands that arrive -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        super().connection_made(transport)
        self.hook.opened(self)

    def _handle(self, command: Command) -> object:
        hook = self.hook
        hook.identify(self, command)
        if self.closed:
            return None
        if self.rate == 0:
            self._kept = [*(self._kept or ()), command]
            return None
        return hook.incoming(self, command, is_answer=command.flags == RESPONSE)

    def pass_in(self, command: Command) -> object:
        """Handle a command as without faults."""
        return super()._handle(command)

    # --- frames that leave -------------------------------------------------------------------------------------------

    def request_for(
        self, waiter: Waiter, code: int, header: Mapping[str, Any], body: bytes | None, timeout_s: float
    ) -> None:
        """See `Connection.request_for`."""
        self._code, self._answers = code, False
        super().request_for(waiter, code, header, body, timeout_s)
        self._code = UNKNOWN

    def notify(self, code: int, header: Mapping[str, Any] = {}, body: bytes | None = None) -> bool:
        """See `Connection.notify`."""
        self._code, self._answers = code, False
        is_sent = super().notify(code, header, body)
        self._code = UNKNOWN
        return is_sent

    def respond(
        self, request: Command, header: Mapping[str, Any] = {}, body: bytes | None = None, code: int = 0
    ) -> None:
        """See `Connection.respond`."""
        self._code, self._answers = request.code, True
        super().respond(request, header, body, code)
        self._code = UNKNOWN

    def _send(self, frame: bytes) -> None:
        self.hook.outgoing(self, frame, self._code, is_answer=self._answers)

    def pass_out(self, frame: bytes) -> None:
        """Send a frame as without faults."""
        if not self.closed:
            super()._send(frame)

    # --- connections as a whole --------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Close it so that the client sees a reset, as when a router forgot the connection."""
        if self._transport is not None:
            sock = self._transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        self.abort()

    def hold_to(self, rate: float | None) -> None:
        """Write at most `rate` bytes a second from now on; with 0 nothing is read either."""
        was, self.rate = self.rate, rate
        if was == rate:
            return
        if rate == 0:
            self._update_reading()
            if self._drip is not None:
                self._drip.cancel()
                self._drip = None
            return
        kept, self._kept = self._kept, None
        if kept:
            self.inbox.extendleft(reversed(kept))
            self._handle_more()
        self._update_reading()
        self._write_backlog()

    def end_at_the_client(self) -> None:
        """Let the client see the end of the stream, while this end notices nothing."""
        assert self._transport is not None, "an open connection has one"
        self.is_half_open = True
        self.flush()
        self.hold_to(0)
        second = duplicate_of(self._transport.get_extra_info("socket"))
        with suppress(OSError):  # it is already closed
            second.shutdown(socket.SHUT_WR)
        second.close()

    def end_here(self) -> Any:
        """Close only this end; returns the socket that keeps the client's end open until it is closed."""
        assert self._transport is not None, "an open connection has one"
        kept_open = duplicate_of(self._transport.get_extra_info("socket"))
        self.abort()
        return kept_open

    def _update_reading(self) -> None:
        if self.rate != 0:
            super()._update_reading()
        elif not self._reading_paused and self._transport is not None and not self.closed:
            self._reading_paused = True
            self._transport.pause_reading()

    def flush(self) -> None:
        """See `Connection.flush`; bytes that may not leave yet stay here."""
        if not isinstance(self, FaultyConnection):  # scheduled before the class was changed back
            Connection.flush(self)
        elif self.rate is None and not self._backlog:
            super().flush()
        elif self._out and not self.closed:
            backlog = self._backlog = self._backlog or bytearray()
            backlog += b"".join(self._out)
            self._out.clear()
            if len(backlog) > MAX_UNSENT_BYTES:
                self.abort()
            elif len(backlog) > WRITE_HIGH_WATER_BYTES:
                self.pause_writing()
            self._write_backlog()

    def _write_backlog(self) -> None:
        """Write the bytes that may leave now, and schedule the rest."""
        if self._drip is not None and self.rate:
            return
        if self._drip is not None:
            self._drip.cancel()
        self._drip_now()

    def _drip_now(self) -> None:
        self._drip = None
        backlog, transport, rate = self._backlog, self._transport, self.rate
        if not backlog or transport is None or self.closed or rate == 0:
            return
        n = len(backlog) if rate is None else max(1, int(rate * FAULT_DRIP_S))
        transport.write(bytes(backlog[:n]))
        del backlog[:n]
        if backlog:
            self._drip = self._loop.call_later(FAULT_DRIP_S, self._drip_now)
        if len(backlog) < WRITE_LOW_WATER_BYTES and transport.get_write_buffer_size() <= WRITE_LOW_WATER_BYTES:
            self.resume_writing()


def duplicate_of(sock: Any) -> Any:
    """A second socket for one connection, which stays open until both are closed."""
    try:
        return sock.dup()
    except TypeError:  # uvloop's sockets refuse
        return socket.fromfd(sock.fileno(), sock.family, sock.type)


def faulty_class(base: type[Connection], hook: Faults) -> type[FaultyConnection]:
    """The class that replaces `base` while faults of a hook are active."""
    return type(f"Faulty{base.__name__}", (FaultyConnection, base), {"hook": hook})
