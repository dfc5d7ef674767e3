"""FaultyConnection: carries out the faults of one connection, in the place of some of its methods.

It stands there only while a fault is active (`Connection.interpose`). So a server without faults makes no further call
for a message, and `Connection` makes no decision about faults.

A slow reader has a rate of its own, a paused connection the rate 0 and is not read from. Bytes that are held back count
as unsent, so the same limits apply as for a peer that does not read.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from model.limits import FAULT_DRIP_S, MAX_UNSENT_BYTES, WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES
from remoting.command import RESPONSE, Command, call_name
from remoting.connection import Connection
from remoting.session import Waiter

UNKNOWN = -1
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Faults(Protocol):
    """The decisions about connections and frames, as `hook.py` makes them."""

    def identify(self, connection: FaultyConnection, command: Command) -> None:
        """Record the client of a connection, if a frame shows it."""

    def incoming(self, connection: FaultyConnection, command: Command, *, is_answer: bool) -> object:
        """Pass a command that has arrived, or carry out the fault that affects it."""

    def answering(self, connection: FaultyConnection, request: Command, respond: Callable[[], None]) -> None:
        """Let a call of another protocol be answered, or carry out the fault that affects its answer."""

    def outgoing(self, connection: FaultyConnection, frame: bytes, code: int, *, is_answer: bool) -> None:
        """Pass a frame that leaves, or carry out the fault that affects it."""


class FaultyConnection:
    """See the module header. It calls the methods of the connection's own class, which may be one that measures."""

    def __init__(self, connection: Connection, faults: Faults) -> None:
        self.connection = connection
        self.rate: float | None = None  # bytes a second that may leave; None for no limit
        self.is_half_open = False  # the client sees the connection closed, and this end must not notice that
        self._faults = faults
        self._class = type(connection)
        self._code = UNKNOWN  # request code of the frame that is being encoded
        self._answers = False  # whether that frame is an answer
        self._has_calls = False  # whether its frames depend on each other, so that none may be lost or late
        self._backlog = bytearray()  # bytes that are held back
        self._drip: asyncio.TimerHandle | None = None
        self._kept: list[Command] = []  # commands that had arrived when reading stopped
        connection.interpose(
            {
                "_handle": self._handle,
                "_send": self._send,
                "_update_reading": self._update_reading,
                "flush": self._flush,
                "notify": self._notify,
                "request_for": self._request_for,
                "respond": self._respond,
                "send_parts": self._send_parts,
            }
        )

    # --- commands that arrive -----------------------------------------------------------------------------------------

    def _handle(self, command: Command) -> object:
        self._faults.identify(self, command)
        self._has_calls = self._has_calls or bool(call_name(command))
        if self.connection.closed:
            return None
        if self.rate == 0:
            self._kept.append(command)
            return None
        return self._faults.incoming(self, command, is_answer=command.flags == RESPONSE)

    def pass_in(self, command: Command) -> object:
        """Handle a command as without faults."""
        return self._class._handle(self.connection, command)

    # --- frames that leave -------------------------------------------------------------------------------------------

    def _request_for(
        self, waiter: Waiter, code: int, header: Mapping[str, Any], body: bytes | None, timeout_s: float
    ) -> None:
        self._code, self._answers = code, False
        self._class.request_for(self.connection, waiter, code, header, body, timeout_s)
        self._code = UNKNOWN

    def _notify(self, code: int, header: Mapping[str, Any] = {}, body: bytes | None = None) -> bool:
        self._code, self._answers = code, False
        is_sent = self._class.notify(self.connection, code, header, body)
        self._code = UNKNOWN
        return is_sent

    def _respond(
        self, request: Command, header: Mapping[str, Any] = {}, body: bytes | None = None, code: int = 0
    ) -> None:
        if call_name(request):
            answer = partial(self._class.respond, self.connection, request, header, body, code)
            self._faults.answering(self, request, answer)
            return
        self._code, self._answers = request.code, True
        self._class.respond(self.connection, request, header, body, code)
        self._code = UNKNOWN

    def _send_parts(self, code: int, parts: Iterable[bytes]) -> None:
        self._code, self._answers = code, False
        self._send(b"".join(parts))  # a fault affects all of it or nothing
        self._code = UNKNOWN

    def _send(self, frame: bytes) -> None:
        if self._has_calls:
            self.pass_out(frame)
        else:
            self._faults.outgoing(self, frame, self._code, is_answer=self._answers)

    def pass_out(self, frame: bytes) -> None:
        """Send a frame as without faults."""
        if not self.connection.closed:
            self._class._send(self.connection, frame)

    # --- connections as a whole --------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Close it so that the client sees a reset, as when a router forgot the connection."""
        transport = self.connection._transport
        if transport is not None:
            sock = transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        self.connection.abort()

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
        held_frames, self._kept = self._kept, []
        if held_frames:
            self.connection.inbox.extendleft(reversed(held_frames))
            self.connection._handle_more()
        self._update_reading()
        self._write_backlog()

    def end_at_the_client(self) -> None:
        """Let the client see the end of the stream, while this end notices nothing."""
        transport = self.connection._transport
        assert transport is not None, "an open connection has one"
        self.is_half_open = True
        self.connection.flush()
        self.hold_to(0)
        second = duplicate_socket(transport.get_extra_info("socket"))
        with suppress(OSError):  # it is already closed
            second.shutdown(socket.SHUT_WR)
        second.close()

    def end_here(self) -> Any:
        """Close only this end; returns the socket that keeps the client's end open until it is closed."""
        transport = self.connection._transport
        assert transport is not None, "an open connection has one"
        kept_open = duplicate_socket(transport.get_extra_info("socket"))
        self.connection.abort()
        return kept_open

    def leave(self) -> None:
        """End its effects on the connection; bytes that were held back leave at once."""
        self.hold_to(None)
        self.connection.interpose({})

    def _update_reading(self) -> None:
        connection = self.connection
        if self.rate != 0:
            self._class._update_reading(connection)
        elif not connection._reading_paused and connection._transport is not None and not connection.closed:
            connection._reading_paused = True
            connection._transport.pause_reading()

    def _flush(self) -> None:
        connection, backlog = self.connection, self._backlog
        if self.rate is None and not backlog:
            self._class.flush(connection)
        elif connection._out and not connection.closed:
            backlog += b"".join(connection._out)
            connection._out.clear()
            if len(backlog) > MAX_UNSENT_BYTES:
                connection.abort()
            elif len(backlog) > WRITE_HIGH_WATER_BYTES:
                connection.pause_writing()
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
        connection, backlog, rate = self.connection, self._backlog, self.rate
        transport = connection._transport
        if not backlog or transport is None or connection.closed or rate == 0:
            return
        n = len(backlog) if rate is None else max(1, int(rate * FAULT_DRIP_S))
        transport.write(bytes(backlog[:n]))
        del backlog[:n]
        if backlog:
            self._drip = connection._loop.call_later(FAULT_DRIP_S, self._drip_now)
        if len(backlog) < WRITE_LOW_WATER_BYTES and transport.get_write_buffer_size() <= WRITE_LOW_WATER_BYTES:
            connection.resume_writing()


def duplicate_socket(sock: Any) -> Any:
    """A second socket for one connection, which stays open until both are closed."""
    try:
        return sock.dup()
    except TypeError:  # uvloop's sockets refuse
        return socket.fromfd(sock.fileno(), sock.family, sock.type)
