"""Http2: the bytes of one connection, as calls with messages, and back. Pure.

A message of gRPC is a byte for its compression, four bytes for its length, and its bytes; it may be cut anywhere into
frames. An answer is headers, messages and trailers with the status of gRPC.

    event of `receive`         the peer has
    MESSAGE, call              sent a whole message
    ENDED, call                sent its last message, and waits for the answer
    CANCELLED, call            reset the call: no answer reaches it, and an answer that was sent was not read
    READ, call                 read the answer, if that was asked for

Memory is bounded before it is spent: a peer may send 64 KiB of a message, and further bytes of one message at a time,
for which it gets a larger window. The others wait for that. A call is incomplete until its end, and a stream until its
message is whole; that is bounded in time, and its bytes are part of the budget of all connections. What a peer does not
read, beyond its own windows, waits here up to a limit, at which the connection is closed.

Bytes that were written may never arrive, and a client may have cancelled its call before they do. So an answer can be
followed by a PING: the peer acknowledges it only after it has received the bytes before it, and sends the reset of a
call that it has cancelled before that acknowledgement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    PingAckReceived,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.events import (
    Event as Http2Event,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame, RstStreamFrame, SettingsFrame

from model.errors import ProtocolError
from model.grpc_limits import (
    HTTP2_CONNECTION_WINDOW_BYTES,
    MAX_GRPC_MESSAGE_BYTES,
    MAX_HTTP2_CALLS,
    MAX_HTTP2_HEADER_BYTES,
    MAX_HTTP2_UNREAD_ANSWERS,
    SILENT_PEER_S,
)
from model.limits import FRAME_TIMEOUT_S, MAX_REMARK_CHARS, MAX_UNSENT_BYTES
from rocketmq.grpc.http2.call import (
    DEADLINE_EXCEEDED,
    INITIAL_WINDOW_BYTES,
    INTERNAL,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
    CallEvent,
    Event,
    GrpcCall,
)
from rocketmq.grpc.http2.frame_guard import FrameGuard

_PREFIX_BYTES = 5
_CONFIGURATION = H2Configuration(
    client_side=False, header_encoding="utf-8", validate_inbound_headers=False, validate_outbound_headers=False
)
"""Its checks of headers take a sixth of a call; here names are looked up in a dict, and those sent are constant."""
_SETTINGS = frozenset(SettingCodes)
_HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
_SIGN_OF_LIFE = b"\xff" * 8  # the text of a PING that asks for one; the others have a stream id


class _Connection(H2Connection):
    """A connection whose calls continue after the GOAWAY of the peer, which the client of Node.js needs.

    It also has an event for the reset of a call that was answered, and keeps no settings that HTTP/2 does not have: a
    peer could send each of 65,536.
    """

    def _receive_settings_frame(self, frame: SettingsFrame) -> tuple[list[Frame], list[Http2Event]]:
        frame.settings = {code: value for code, value in frame.settings.items() if code in _SETTINGS}
        return super()._receive_settings_frame(frame)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Http2Event]]:
        return [], []

    def _receive_rst_stream_frame(self, frame: RstStreamFrame) -> tuple[list[Frame], list[Http2Event]]:
        frames, events = super()._receive_rst_stream_frame(frame)
        return frames, events or [StreamReset(stream_id=frame.stream_id)]


class Http2:
    """The server's side of one connection; `take` returns the bytes that its other methods want to send.

    `on_headers` is called with a new call before its first message is read; it may end the call.
    """

    def __init__(self, on_headers: Callable[[GrpcCall], None] | None = None) -> None:
        self._on_headers = on_headers
        self._guard = FrameGuard()
        self._calls: dict[int, GrpcCall] = {}
        self._incomplete: dict[int, GrpcCall] = {}  # by stream id
        self._window_queue: deque[GrpcCall] = deque()  # calls with a long message; the first one has its window
        self._unsent: dict[int, tuple[bytearray, list[tuple[str, str]] | None]] = {}
        self._unsent_bytes = 0
        self._unread: dict[int, GrpcCall] = {}  # answered calls, by stream id
        self._consumed_bytes = 0  # of the connection's window
        self._stopping = False
        self._h2 = _Connection(_CONFIGURATION)
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: MAX_HTTP2_CALLS,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HTTP2_HEADER_BYTES,
                SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self._h2.decoder.max_header_list_size = MAX_HTTP2_HEADER_BYTES
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(HTTP2_CONNECTION_WINDOW_BYTES - INITIAL_WINDOW_BYTES)

    @property
    def calls(self) -> Iterable[GrpcCall]:
        """The calls that are not answered yet."""
        return self._calls.values()

    @property
    def partial_frame_bytes(self) -> int:
        """Bytes of incomplete calls; of the one with a long message its announced length. 0 without such calls."""
        if not self._incomplete:
            return 0
        calls = self._incomplete.values()
        n_bytes = sum(call.header_bytes + len(call.message) + len(call.buffer) for call in calls)
        for call in islice(self._window_queue, 1):
            n_bytes += call.message_bytes - len(call.buffer)
        return n_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of answers that wait for windows of the peer."""
        return self._unsent_bytes

    def look(self) -> None:
        """Record that `SILENT_PEER_S` have passed: a call that is incomplete for too long ends."""
        for call in list(self._incomplete.values()):
            if call in self._window_queue and call is not self._window_queue[0]:
                continue  # it waits for this side
            call.looks += 1
            if call.looks > FRAME_TIMEOUT_S / SILENT_PEER_S:
                self.fail(call, DEADLINE_EXCEEDED, f"its message was not whole within {FRAME_TIMEOUT_S:g} s")

    def keep_open(self, call: GrpcCall) -> None:
        """Let a call be a stream, which may wait now."""
        call.is_stream = True
        if not call.buffer:
            self._incomplete.pop(call.stream_id, None)

    def take(self) -> bytes:
        """The bytes to send now."""
        return self._h2.data_to_send()

    # --- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """Take the next bytes of the stream.

        Raises:
            ProtocolError: they are not HTTP/2, or too much of it; the connection cannot go on.
        """
        self._guard.check(data)
        events: list[Event] = []
        try:
            for event in self._h2.receive_data(data):
                if isinstance(event, DataReceived):
                    self._on_data(event, events)
                elif isinstance(event, RequestReceived) and self._stopping:
                    # It was sent before the GOAWAY arrived: the peer makes the call again elsewhere.
                    if not self._is_closed(event.stream_id):
                        self._h2.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
                elif isinstance(event, RequestReceived):
                    headers = {str(name): str(value) for name, value in event.headers}
                    call = self._calls[event.stream_id] = GrpcCall(event.stream_id, headers)
                    self._incomplete[event.stream_id] = call
                    if self._on_headers is not None:
                        self._on_headers(call)
                elif isinstance(event, StreamEnded) and event.stream_id in self._calls:
                    self._on_end(self._calls[event.stream_id], events)
                elif isinstance(event, StreamReset):
                    if not event.remote_reset:
                        self._guard.record_reset()
                    self._forget(event.stream_id, events)
                elif isinstance(event, PingAckReceived):
                    read = self._unread.pop(int.from_bytes(event.ping_data), None)
                    if read is not None:
                        events.append((CallEvent.READ, read))
                elif isinstance(event, WindowUpdated):
                    self._flush(event.stream_id)
                elif isinstance(event, RemoteSettingsChanged):
                    self._flush(0)  # its windows may be larger now
        except (H2Error, UnicodeDecodeError) as error:
            raise ProtocolError(f"not HTTP/2 as gRPC has it ({type(error).__name__}: {error})") from error
        return events

    def _on_data(self, event: DataReceived, events: list[Event]) -> None:
        self._consumed_bytes += event.flow_controlled_length
        if self._consumed_bytes > HTTP2_CONNECTION_WINDOW_BYTES // 2:
            self._h2.increment_flow_control_window(self._consumed_bytes)
            self._consumed_bytes = 0
        call = self._calls.get(event.stream_id)
        if call is None:
            return  # it was refused already
        call.window_bytes -= event.flow_controlled_length
        call.buffer += event.data
        self._incomplete[call.stream_id] = call
        while self._is_answerable(call) and len(call.buffer) >= _PREFIX_BYTES:
            call.message_bytes = _PREFIX_BYTES + int.from_bytes(call.buffer[1:_PREFIX_BYTES])
            if call.buffer[0]:
                self.fail(call, UNIMPLEMENTED, "compressed messages of gRPC are not read here: send them as they are")
            elif call.message_bytes > MAX_GRPC_MESSAGE_BYTES:
                text = f"a message of {call.message_bytes} bytes is longer than the {MAX_GRPC_MESSAGE_BYTES} allowed"
                self.fail(call, RESOURCE_EXHAUSTED, text)
            elif len(call.buffer) < call.message_bytes:
                self._enlarge_window(call)
                return
            else:
                self._complete_message(call, events, is_last=event.stream_ended is not None)

    def _complete_message(self, call: GrpcCall, events: list[Event], *, is_last: bool) -> None:
        call.message = bytes(call.buffer[_PREFIX_BYTES : call.message_bytes])
        call.messages += 1
        del call.buffer[: call.message_bytes]
        call.message_bytes = call.looks = 0
        self._leave_window_queue(call)
        if call.is_stream and not call.buffer:
            del self._incomplete[call.stream_id]
        if not is_last and call.window_bytes < INITIAL_WINDOW_BYTES // 2 and self._is_answerable(call):
            self._h2.increment_flow_control_window(INITIAL_WINDOW_BYTES - call.window_bytes, call.stream_id)
            call.window_bytes = INITIAL_WINDOW_BYTES
        events.append((CallEvent.MESSAGE, call))

    def _enlarge_window(self, call: GrpcCall) -> None:
        """Let the rest of a long message come, when it is the first one in the line."""
        missing = call.message_bytes - len(call.buffer) - call.window_bytes
        if not self._is_answerable(call):
            return
        if missing > 0 and call not in self._window_queue:
            self._window_queue.append(call)
        if missing > 0 and self._window_queue[0] is call:
            self._h2.increment_flow_control_window(missing, call.stream_id)
            call.window_bytes += missing

    def _leave_window_queue(self, call: GrpcCall) -> None:
        if call in self._window_queue:
            self._window_queue.remove(call)
            if self._window_queue:
                self._enlarge_window(self._window_queue[0])

    def _on_end(self, call: GrpcCall, events: list[Event]) -> None:
        self._incomplete.pop(call.stream_id, None)
        if call.buffer:
            self.fail(call, INTERNAL, "the call ended in the middle of a message")
        else:
            events.append((CallEvent.ENDED, call))

    def _forget(self, stream_id: int, events: list[Event] | None = None) -> None:
        call = self._calls.pop(stream_id, None)
        self._incomplete.pop(stream_id, None)
        unsent = self._unsent.pop(stream_id, None)
        if unsent is not None:
            self._unsent_bytes -= len(unsent[0])
        if call is None:
            unread = self._unread.pop(stream_id, None)
            if events is not None and unread is not None:
                events.append((CallEvent.CANCELLED, unread))
            return
        was_open, call.open = call.open, False
        call.buffer.clear()
        self._leave_window_queue(call)
        if events is not None and was_open:
            events.append((CallEvent.CANCELLED, call))

    # --- sending -----------------------------------------------------------------------------------------------------

    def send(self, call: GrpcCall, messages: Iterable[bytes], *, end: bool, asks_read: bool = False) -> None:
        """Send messages of an answer, and with `end` its end; nothing if the peer has reset the call.

        With `asks_read` an event follows once the peer has read the answer, or has reset the call before that. Neither
        follows if the connection ends, or if too many answers are unread.

        Raises:
            ProtocolError: the peer has left more unread than it may; the connection cannot go on.
        """
        if not self._is_answerable(call):
            return
        if not call.headers_sent:
            call.headers_sent = True
            self._h2.send_headers(call.stream_id, _HEADERS)
        unsent, _ = self._unsent.setdefault(call.stream_id, (bytearray(), None))
        for message in messages:
            unsent += b"\x00" + len(message).to_bytes(4) + message
            self._unsent_bytes += _PREFIX_BYTES + len(message)
        if end:
            self._unsent[call.stream_id] = unsent, [("grpc-status", "0")]
            call.asks_read = asks_read
            self._guard.record_answer()
        self._flush(call.stream_id)
        if self._unsent_bytes > MAX_UNSENT_BYTES:
            raise ProtocolError(
                f"{self._unsent_bytes} bytes of answers wait for windows of the peer, which are too many"
            )

    def fail(self, call: GrpcCall, status: int, text: str) -> None:
        """End a call with a status of gRPC; nothing if the peer has reset it."""
        if not self._is_answerable(call):
            return
        trailers = [("grpc-status", str(status)), ("grpc-message", _percent_encode(text[:MAX_REMARK_CHARS]))]
        call.asks_read = False
        if call.headers_sent:
            unsent, _ = self._unsent.pop(call.stream_id, (bytearray(), None))
            self._unsent_bytes -= len(unsent)
        else:
            trailers = [*_HEADERS, *trailers]
        self._end(call.stream_id, trailers)

    def _flush(self, stream_id: int) -> None:
        """Send what the windows of the peer allow; of one call, or of all calls for stream id 0."""
        for each in list(self._unsent) if stream_id == 0 else (stream_id,) if stream_id in self._unsent else ():
            unsent, trailers = self._unsent[each]
            if self._is_closed(each):
                continue  # its reset comes next
            window_bytes = self._h2.local_flow_control_window(each)
            n_frames = 0
            while unsent and window_bytes > 0:
                size = min(window_bytes, len(unsent), self._h2.max_outbound_frame_size)
                self._h2.send_data(each, bytes(memoryview(unsent)[:size]))
                del unsent[:size]
                self._unsent_bytes -= size
                window_bytes -= size
                n_frames += 1
            self._guard.record_data_frames(n_frames)
            if not unsent:
                del self._unsent[each]
                if trailers is not None:
                    self._end(each, trailers)

    def _end(self, stream_id: int, trailers: list[tuple[str, str]]) -> None:
        self._h2.send_headers(stream_id, trailers, end_stream=True)
        call = self._calls.get(stream_id)
        if call is not None and call.asks_read:
            self._h2.ping(stream_id.to_bytes(8))
            self._unread[stream_id] = call
            if len(self._unread) > MAX_HTTP2_UNREAD_ANSWERS:
                del self._unread[next(iter(self._unread))]
        self._forget(stream_id)
        if not self._is_closed(stream_id):  # else the peer would send more, for nothing
            self._h2.reset_stream(stream_id, ErrorCodes.NO_ERROR)

    def _is_answerable(self, call: GrpcCall) -> bool:
        """Whether an answer would reach the peer; frames are decoded before their events are handled."""
        return call.open and not self._is_closed(call.stream_id)

    def _is_closed(self, stream_id: int) -> bool:
        stream = self._h2.streams.get(stream_id)
        return stream is None or stream.closed

    def ping(self) -> None:
        """Ask the peer for a sign of life; no event follows."""
        self._guard.record_ping()
        self._h2.ping(_SIGN_OF_LIFE)

    def stop(self, text: str) -> bytes:
        """Begin no more calls, those under way go on; returns the GOAWAY with the reason, to be sent now."""
        self._stopping = True
        return self.take() + self.encode_goaway(text, ErrorCodes.NO_ERROR)

    def encode_goaway(self, text: str, code: ErrorCodes = ErrorCodes.ENHANCE_YOUR_CALM) -> bytes:
        """GOAWAY with the reason: the last bytes of a connection that cannot go on."""
        self._h2.clear_outbound_data_buffer()
        last = self._h2.highest_inbound_stream_id
        return GoAwayFrame(0, last, code, text[:MAX_REMARK_CHARS].encode()).serialize()


def _percent_encode(text: str) -> str:
    """A text as gRPC wants it in a trailer: printable ASCII, and the rest as %XX."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 37 else f"%{byte:02X}" for byte in text.encode())
