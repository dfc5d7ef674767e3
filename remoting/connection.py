"""One TCP connection, either side: one write per event-loop iteration, requests matched to their responses.

It is an `asyncio.Protocol` and not a pair of streams: measured on 2 cores, a Protocol with one joined write per
iteration answers about four times as many pipelined requests as StreamReader and StreamWriter do.

Back-pressure has two directions. A side whose peer does not read stops sending requests (`wait_writable`); a server
also stops reading from that peer, so that a client which never reads cannot make it queue answers without end. Answers
to parked pulls and notifications still go out, up to `MAX_UNSENT_BYTES`; beyond that the peer is cut off.

A connection handles a few of its commands per iteration (`overload/inbox.py`), so that others get their turn. Two
processes that each handle everything before they write would also wait for each other. With slices the first answers
leave while the next commands are handled; with 64 sends outstanding, that nearly doubles the rate on two cores.

A peer that sends the first part of a frame and then nothing is dropped after a timeout
(`overload/incomplete_frame.py`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import anyio

from model.errors import (
    ConnectionLost,
    InvalidParameter,
    NotMaster,
    ProtocolError,
    RequestTimeout,
    RlabError,
    SystemBusy,
)
from model.limits import (
    MAX_REMARK_CHARS,
    MAX_UNANSWERED_BYTES_OF_ONE,
    MAX_UNSENT_BYTES,
    MAX_WAITING_OF_ONE,
    REQUEST_TIMEOUT_S,
    WRITE_HIGH_WATER_BYTES,
    WRITE_LOW_WATER_BYTES,
)
from model.log_lines import LogLines
from model.response_code import ResponseCode
from remoting.address import format_address
from remoting.codec import CODEC, Codec, Decoder, Dialect, FirstBytes
from remoting.command import ONE_WAY, REQUEST, RESPONSE, Command
from remoting.overload.inbox import Inbox
from remoting.overload.incomplete_frame import IncompleteFrame, PartialFrameBudget
from remoting.overload.keepalive import keep_alive
from remoting.overload.lifecycle import Lifecycle
from remoting.overload.peer_memory import PeerMemory
from remoting.request_code import RequestCode
from remoting.session import RequestSession, Waiter

logger = logging.getLogger(__name__)

LayerT = TypeVar("LayerT", bound=asyncio.Transport)

INTERPOSED = {"_handle", "_send", "_update_reading", "flush", "notify", "request_for", "respond", "send_parts"}
"""The methods that `Connection.interpose` may replace: all that pass a command, a frame or bytes."""

_NO_HEADER: dict[str, Any] = {}
_NOT_MASTER = int(ResponseCode.NOT_MASTER)
_BUSY_S = 0.05
"""A timer that fires this late: the process had too much to do."""
_READING_S = 0.005
"""Time to read the bytes that have arrived; any time above zero makes the loop read first."""


async def close_all(connections: Sequence[Connection], grace_s: float) -> None:
    """Close connections and wait until they are gone, even if cancelled; abort the rest after `grace_s` seconds."""
    for connection in connections:
        connection.close()
    with anyio.move_on_after(grace_s, shield=True) as scope:
        for connection in connections:
            await connection.wait_closed()
    if scope.cancelled_caught:
        for connection in connections:
            connection.abort()


class Connection(asyncio.Protocol):
    """One connection. Made by `RemotingServer` and `RemotingClient`, never by hand.

    Attributes:
        peer: `host:port` of the other side, for texts.
        local_host, local_port: our own address on it, as the peer's network sees it.
        owner: user or address, set by the server; the incomplete frames of one owner share a part of the budget.
        number: unique among the connections of a server, which sets it.
        closed: whether the connection is closed or closing.
        ready: whether it is open and the peer reads: a request would leave now.
        unanswered: requests of the peer that were accepted and not answered yet.
        unanswered_bytes: bytes of their bodies; above a limit no more requests are read.
        inbox: commands that have come and wait, with the number of those that a late server has put aside.
        reads: how often bytes have arrived.
        lifecycle: its codec, if that can announce the end of a server, and ask the peer for a sign of life.
        on_overdue: called when a request was not answered in time, if the connection is still open then.
        on_not_master: called with each answer NOT_MASTER, before the sender of its request gets it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_request: Callable[[Connection, Command], object],
        on_opened: Callable[[Connection], None] | None = None,
        on_closed: Callable[[Connection, Exception | None], None] | None = None,
        pause_reads_when_blocked: bool,
        frames: PartialFrameBudget | None = None,
        memory: PeerMemory[Connection] | None = None,
        lines: LogLines | None = None,
        codec: Codec = CODEC,
        dialects: Sequence[Dialect] = (),
    ) -> None:
        self.peer = "?"
        self.owner = ""
        self.local_host = ""
        self.local_port = 0
        self.number = 0
        self.closed = False
        self.ready = False
        self.unanswered = self.unanswered_bytes = self.reads = 0
        self.inbox = Inbox()
        self.lifecycle: Lifecycle | None = None
        self.on_overdue: Callable[[], None] | None = None
        self.on_not_master: Callable[[Command], None] | None = None
        self._loop = loop
        self._on_request = on_request
        self._on_opened = on_opened
        self._on_closed = on_closed
        self._pause_reads_when_blocked = pause_reads_when_blocked
        self._sign: Callable[[bytes], bytes] | None = None
        self._encode = codec.encode
        self._new_decoder = codec.decoder
        self._decoder: Decoder = FirstBytes(dialects, codec, self) if dialects else codec.decoder()
        self._session: RequestSession[Waiter] = RequestSession()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._reading_paused = False
        self._memory: PeerMemory[Connection] = PeerMemory() if memory is None else memory
        self._lines = lines or LogLines()
        self._frame = IncompleteFrame(loop, frames, self._frame_changed, self._frame_overdue)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = float("inf")
        self._writable: asyncio.Future[None] | None = None
        self._closed_future: asyncio.Future[None] = loop.create_future()
        self._parting_words = ""

    # --- sending -----------------------------------------------------------------------------------------------------

    def request(
        self,
        code: int,
        header: Mapping[str, Any] = _NO_HEADER,
        body: bytes | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> asyncio.Future[Command]:
        """Send a request, and return a future of the response, whatever its code.

        `raise_for_code` turns a refusal into its error. The future fails with `RequestTimeout` or `ConnectionLost`.
        Cancelling it forgets the answer; the request stays sent.

        Raises:
            ConnectionLost: the connection is closed already (nothing was sent).
            FlowControl: too many requests are outstanding here.
            InvalidParameter: one of its texts is not Unicode, or a number has more than 64 bits; nothing was sent.
            ValueError: the frame would be longer than the limit; nothing was sent.
        """
        future: asyncio.Future[Command] = self._loop.create_future()
        self.request_for(future, code, header, body, timeout_s)
        return future

    def request_for(
        self, waiter: Waiter, code: int, header: Mapping[str, Any], body: bytes | None, timeout_s: float
    ) -> None:
        """Send a request whose answer goes to a waiter of the caller, one event-loop iteration sooner than by a future.

        The waiter gets the response or the failure; it must not raise.

        Raises:
            ConnectionLost, FlowControl, ValueError: see `request`.
        """
        if self.closed:
            raise ConnectionLost(f"the connection to {self.peer} is closed; nothing was sent")
        deadline = self._loop.time() + timeout_s
        opaque = self._session.start(deadline, waiter)
        if deadline < self._timer_at:
            self._arm(deadline)
        if code != RequestCode.SEND_MESSAGE or timeout_s < REQUEST_TIMEOUT_S / 2:
            # Most single sends are spared this cost: a late server refuses them before half of the usual timeout has
            # passed.
            header = {**header, "wait_ms": int(timeout_s * 1000)}
        try:
            frame = self._encode(REQUEST, code, opaque, header, body)
        except (UnicodeEncodeError, OverflowError) as error:
            self._session.finish(opaque)
            raise InvalidParameter(f"nothing was sent, because a text or number in it is illegal: {error}") from None
        except (TypeError, ValueError, RlabError):
            self._session.finish(opaque)
            raise
        self._send(frame)

    def notify(self, code: int, header: Mapping[str, Any] = _NO_HEADER, body: bytes | None = None) -> bool:
        """Send a one-way request; False if it was not sent because the connection is closed or the peer does not read.

        One-way requests are hints: a timer repairs the loss of one, so they are dropped rather than queued without end.
        """
        if self.closed or self._writable is not None:
            return False
        self._send(self._encode(ONE_WAY, code, 0, header, body))
        return True

    def respond(
        self, request: Command, header: Mapping[str, Any] = _NO_HEADER, body: bytes | None = None, code: int = 0
    ) -> None:
        """Answer a request of the peer, now or later; does nothing if the peer wants no answer or is gone.

        Raises:
            ValueError: the frame would be longer than the limit; the request is still unanswered.
        """
        if request.flags == REQUEST and not self.closed:
            self._send(self._encode(RESPONSE, code, request.opaque, header, body))
        self.forget(request)

    def respond_error(self, request: Command, error: RlabError, offset: int | list[int] | None = None) -> None:
        """Answer a request of the peer with an error that has a wire code; `offset` is of messages in doubt."""
        assert error.code is not None, f"{type(error).__name__} has no wire code"
        header: dict[str, object] = {"remark": str(error)[:MAX_REMARK_CHARS]}
        if isinstance(error, SystemBusy) and error.retry_after_s:
            header["retry_after_ms"] = math.ceil(error.retry_after_s * 1000)
        elif isinstance(error, NotMaster) and error.master_address:
            header |= {"master_address": error.master_address, "epoch": error.epoch}
        if offset is not None:
            header["offset"] = offset
        self.respond(request, header, None, error.code)

    def accept(self, request: Command) -> None:
        """Count a request of the peer as unanswered."""
        self.unanswered += 1
        if request.body:
            n_bytes = len(request.body)
            self.unanswered_bytes += n_bytes
            self._memory.unanswered_bytes += n_bytes
            if self.unanswered_bytes > MAX_UNANSWERED_BYTES_OF_ONE:
                self._update_reading()

    def forget(self, request: Command) -> None:
        """Stop counting a request of the peer: it is answered, or will not be, because its sender no longer waits."""
        self.unanswered -= 1
        if request.body:
            n_bytes = len(request.body)
            self.unanswered_bytes -= n_bytes
            self._memory.unanswered_bytes -= n_bytes
            if self._reading_paused:
                self._update_reading()

    @property
    def has_frame_under_way(self) -> bool:
        """Whether a part of a frame has arrived."""
        return self._frame.length > 0

    @property
    def is_held_back(self) -> bool:
        """Whether it is not read because this side has too much to do, although its peer reads."""
        return self._reading_paused and self._writable is None

    @property
    def in_flight(self) -> int:
        """Requests of ours that are not answered yet."""
        return len(self._session)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the system has not accepted yet, because the peer reads too slowly or not at all."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    async def wait_writable(self) -> None:
        """Wait until the peer reads again. Returns at once when it does.

        Raises:
            ConnectionLost: the connection closed instead.

        Cancellation: harmless.
        """
        if self._writable is not None:
            await asyncio.shield(self._writable)  # others wait for it too: one cancelled caller must not cancel it
        if self.closed:
            raise ConnectionLost(f"the connection to {self.peer} is closed; nothing was sent")

    def send_frame(self, frame: bytes) -> None:
        """Send an encoded frame; for codecs of a dialect."""
        if not self.closed:
            self._send(frame)

    def send_parts(self, code: int, parts: Iterable[bytes]) -> None:
        """Send an encoded one-way request of this code that is in several parts, because its body is large."""
        if not self.closed:
            for part in parts:
                if part:
                    self._send(part)

    def handle_soon(self, command: Command) -> None:
        """Handle a command that the codec of a dialect has made itself, in the next iteration."""
        self._loop.call_soon(self._handle, command)

    def use(self, codec: Codec) -> Decoder:
        """Encode and decode with another codec from now on; returns its decoder."""
        self._encode = codec.encode
        self._new_decoder = codec.decoder
        self._decoder = codec.decoder()
        self.lifecycle = codec if isinstance(codec, Lifecycle) else None
        return self._decoder

    def put_under(self, layer_of: Callable[[asyncio.Transport], LayerT]) -> LayerT:
        """Insert a layer that changes what passes between this connection, which is open, and its transport."""
        assert self._transport is not None, "the connection is open"
        layer = layer_of(self._transport)
        self._transport = layer
        return layer

    def serve_by(self, on_request: Callable[[Connection, Command], object]) -> None:
        """Pass the requests of the peer to another function from now on."""
        self._on_request = on_request

    def protect(self, sign: Callable[[bytes], bytes], decoder: Decoder) -> None:
        """Sign all bytes that are written from now on, and accept only bytes that the decoder finds signed.

        The peer sends nothing at that moment: bytes that follow its proof unsigned were sent by someone else.
        """
        self.flush()
        if self.inbox or not self._decoder.at_frame_boundary():
            self.abort()
        self._sign, self._decoder = sign, decoder

    def _send(self, frame: bytes) -> None:
        frames = self._out
        frames.append(frame)
        if len(frames) == 1:
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the queued frames now instead of at the end of the iteration."""
        frames, transport = self._out, self._transport
        if not frames or transport is None or self.closed:
            return
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        transport.write(data if self._sign is None else self._sign(data))
        frames.clear()
        held_bytes = 0 if self.lifecycle is None else self.lifecycle.held_bytes
        if held_bytes or self._writable is not None:
            self._count_unread(transport.get_write_buffer_size() + held_bytes)
        elif self.lifecycle is not None:
            self._memory.read(self)

    def _count_unread(self, n_bytes: int) -> None:
        slowest = self if n_bytes > MAX_UNSENT_BYTES else self._memory.unread(self, n_bytes)
        if slowest is not None and slowest._transport is not None:
            now, unread = self._loop.time(), slowest._transport.get_write_buffer_size()
            self._lines.warning(logger, now, "cutting off %s, which left %d bytes unread", slowest.peer, unread)
            slowest.abort()

    def interpose(self, methods: Mapping[str, Callable[..., Any]]) -> None:
        """Call these functions instead of the methods of those names, on this connection alone; without any, undo that.

        `remoting/faults/` and the testbed lose and delay requests in this way. A connection without such functions
        makes no further call for a command.
        """
        attributes = vars(self)
        assert methods.keys() <= INTERPOSED, f"not to be interposed: {methods.keys() - INTERPOSED}"
        assert not methods or attributes.keys().isdisjoint(INTERPOSED), "another object has their place"
        for name in INTERPOSED:
            attributes.pop(name, None)
        attributes.update(methods)

    # --- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Send the queued frames, then close. Idempotent."""
        if not self.closed:
            self.flush()
            self._shut()
            if self._transport is not None:
                self._transport.close()

    def abort(self) -> None:
        """Close without sending the queued frames. Idempotent."""
        self._shut()
        if self._transport is not None:
            self._transport.abort()

    def drop_unsent(self, reason: str) -> None:
        """Close without sending the queued frames; the errors of unanswered requests have the reason."""
        self._parting_words = f"; {reason}"
        self.abort()

    async def wait_closed(self) -> None:
        """Wait until the transport is gone. Cancellation: harmless."""
        await asyncio.shield(self._closed_future)

    def _shut(self) -> None:
        self.closed = True
        self.ready = False
        self._out.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for future in self._session.close():
            if not future.done():
                future.set_exception(
                    ConnectionLost(f"the connection to {self.peer} closed before the answer came{self._parting_words}")
                )
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None
        self._memory.read(self)
        if self._frame.release_budget():
            self._decoder = self._new_decoder()  # frees memory: the transport may take long to close

    # --- deadlines ---------------------------------------------------------------------------------------------------

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at, self._timer = deadline, self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        now = self._loop.time()
        if now > self._timer_at + _BUSY_S:
            # This process was too busy to fire its timer in time, so it has not read either: read first. Otherwise a
            # late client would repeat requests that were answered in time. A loop may run its timers before it reads.
            self._timer_at = now + _READING_S
            self._timer = self._loop.call_at(self._timer_at, self._expire)
            return
        self._timer, self._timer_at = None, float("inf")
        # Timers may fire a clock resolution early: requests that are due at the armed time are due now.
        expired = self._session.expire(now + 1e-6)
        for future in expired:
            if not future.done():
                future.set_exception(
                    RequestTimeout(f"no answer from {self.peer} in time; it may have been carried out")
                )
        deadline = self._session.next_deadline()
        if deadline is not None:
            self._arm(deadline)
        if expired and self.on_overdue is not None and not self.closed:
            self.on_overdue()

    # --- asyncio.Protocol --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        # A cast instead of an assertion: uvloop's transports do not derive from asyncio's.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES, low=WRITE_LOW_WATER_BYTES)
        keep_alive(transport)
        name = transport.get_extra_info("peername")
        if name:
            self.peer = format_address(str(name[0]), int(name[1]))
        name = transport.get_extra_info("sockname")
        if name:
            self.local_host, self.local_port = str(name[0]), int(name[1])
        self.ready = True
        if self._on_opened is not None:
            self._on_opened(self)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self.reads += 1
        commands = self._decoder.feed(data)
        length = self._decoder.partial_frame_bytes
        if (length or self._frame.length) and not self.closed:
            self._frame.received(length, self.owner, is_new=bool(commands))
        inbox = self.inbox
        if inbox:  # commands that arrived earlier are not handled yet: these go behind them, in order
            inbox.receive(commands, len(data))
            self._update_reading()
            return
        if len(commands) > 1:
            inbox.receive(commands, len(data))
            self._handle_some()
            return
        for command in commands:
            self._handle(command)
        self._check_stream()

    def _handle_some(self) -> None:
        """Handle some of the commands that have arrived, and leave the rest for the next iteration."""
        inbox = self.inbox
        inbox.hand_out(self._handle)
        if not inbox:
            self._check_stream()
        elif inbox.aside < MAX_WAITING_OF_ONE:
            self._handle_more()
        self._update_reading()

    def _handle_more(self) -> None:
        if not self.inbox.is_scheduled:
            self.inbox.is_scheduled = True
            self._loop.call_soon(self._handle_some)

    def leave_queue(self) -> None:
        """Record that a request is no longer put aside."""
        self.inbox.aside -= 1
        if self.inbox.aside == MAX_WAITING_OF_ONE // 2 and not self.closed:
            if self.inbox:
                self._handle_more()
            self._update_reading()

    def _handle(self, command: Command) -> object:
        """Handle a command; returns whether it was only put aside, which costs almost nothing."""
        if command.flags == RESPONSE:
            if command.code == _NOT_MASTER and self.on_not_master is not None:
                self.on_not_master(command)
            future = self._session.finish(command.opaque)
            if future is not None:
                if not future.done():
                    future.set_result(command)
            elif command.opaque == 0 and command.code:
                # Not about a request: the reason why the peer is about to close the connection.
                self._parting_words = f"; its reason: {str(command.header.get('remark'))[:MAX_REMARK_CHARS]}"
        elif not self.closed:
            return self._on_request(self, command)
        return None

    def _check_stream(self) -> None:
        error = self._decoder.error
        if error is not None and not self.closed:
            self._refuse(error)

    def eof_received(self) -> bool:
        """Called by the loop: the peer sends no more, so no answer would reach it."""
        if not self._decoder.at_frame_boundary():
            self._lines.info(logger, self._loop.time(), "%s closed in the middle of a frame", self.peer)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        while self.inbox:  # an answer that did arrive must not be reported as lost
            self._handle(self.inbox.popleft())
        self._shut()
        if not self._closed_future.done():
            self._closed_future.set_result(None)
        self._memory.unanswered_bytes -= self.unanswered_bytes
        self._memory = PeerMemory()  # for requests that are answered later
        if self._on_closed is not None:
            self._on_closed(self, exc)

    def pause_writing(self) -> None:
        """Called by the loop: the peer reads too slowly."""
        if self._writable is None and not self.closed:
            self._writable = self._loop.create_future()
            self.ready = False
            self._update_reading()
            if self._transport is not None:
                self._count_unread(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Called by the loop."""
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None
            self._memory.read(self)
            self.ready = not self.closed
            self._update_reading()

    def _update_reading(self) -> None:
        """Read from the peer while it reads from us (if we are its server) and we keep up with it."""
        blocked = self._writable is not None and self._pause_reads_when_blocked
        pause = blocked or self._frame.waits or self.inbox.is_full
        pause = pause or self.unanswered_bytes > MAX_UNANSWERED_BYTES_OF_ONE
        if pause is not self._reading_paused and self._transport is not None and not self.closed:
            self._reading_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _frame_changed(self) -> None:
        self._update_reading()  # looked up on each call: the class of this object changes with faults (`faults/`)

    def _frame_overdue(self, error: ProtocolError) -> None:
        if self._writable is None:
            self._refuse(error)
        else:
            self._lines.warning(logger, self._loop.time(), "cutting off %s, which reads nothing: %s", self.peer, error)
            self.abort()

    def _refuse(self, error: ProtocolError) -> None:
        """Answer a peer that sent garbage with one frame that gives the reason, then close."""
        self._lines.warning(logger, self._loop.time(), "closing the connection of %s: %s", self.peer, error)
        assert error.code is not None
        self._out.append(self._encode(RESPONSE, error.code, 0, {"remark": str(error)[:MAX_REMARK_CHARS]}, None))
        self.close()
