"""GrpcClientConnection: a client of RocketMQ's gRPC service, call by call over HTTP/2, on the running loop.

It is for tests, simulations and measurements: unlike RocketMQ's clients it runs in virtual time, and it can also send
several acknowledgements in a call. It needs the extra `grpc`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self, cast

import anyio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error
from hyperframe.frame import Frame, GoAwayFrame

from model.errors import ConnectFailed, ConnectionLost, RequestTimeout, ServiceNotAvailable
from rocketmq.grpc.proto import MESSAGES

SERVICE = "/apache.rocketmq.v2.MessagingService/"
_PREFIX_BYTES = 5
_CANCEL = 8
"""The code of HTTP/2 with which clients of gRPC reset a call that they no longer wait for."""
_CONNECT_TIMEOUT_S = 3.0


class GrpcAnswer:
    """The answer to one call: its messages, as bytes, and the status of gRPC at its end; "" while the call runs."""

    def __init__(self) -> None:
        self.status = ""
        self.text = ""
        self.was_reset = False
        self.messages: list[bytes] = []
        self.ended = asyncio.get_running_loop().create_future()
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next bytes of its messages."""
        self._data += data
        while len(self._data) >= _PREFIX_BYTES:
            end = _PREFIX_BYTES + int.from_bytes(self._data[1:_PREFIX_BYTES])
            if len(self._data) < end:
                return
            self.messages.append(bytes(self._data[_PREFIX_BYTES:end]))
            del self._data[:end]

    def end(self) -> None:
        """Record that no more comes."""
        if not self.ended.done():
            self.ended.set_result(None)


class _Connection(H2Connection):
    """A connection whose calls go on after the GOAWAY of a server, as those of RocketMQ's clients do."""

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        event = ConnectionTerminated()
        event.last_stream_id, event.additional_data = frame.last_stream_id, frame.additional_data or None
        return [], [event]


class GrpcClientConnection(asyncio.Protocol):
    """One connection, which the clients of a process may share. After a GOAWAY it closes once no call is under way.

    Attributes:
        h2: its frames, for tests that send others; `flush` writes them.
        goaway: the reason in the server's GOAWAY, or None.
        closed: done once it is closed.
    """

    def __init__(self) -> None:
        self.h2 = _Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.goaway: str | None = None
        self.closed = asyncio.get_running_loop().create_future()
        self._answers: dict[int, GrpcAnswer] = {}
        self._unsent: dict[int, tuple[bytes, bool]] = {}
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def to_server(cls, host: str, port: int) -> Self:
        """Connect to a server. Raises: ConnectFailed. Cancellation: harmless."""
        connecting = asyncio.get_running_loop().create_connection(cls, host, port)
        try:
            with anyio.fail_after(_CONNECT_TIMEOUT_S):
                _, connection = await connecting
        except (OSError, TimeoutError) as error:
            raise ConnectFailed(f"no connection to {host}:{port}: {error or 'no answer'}") from error
        return connection

    # --- the transport -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.closed.set_result(None)
        for answer in self._answers.values():
            answer.end()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        try:
            events = self.h2.receive_data(data)
        except H2Error:
            self.abort()
            raise
        for event in events:
            if isinstance(event, ConnectionTerminated):
                self.goaway = (event.additional_data or b"").decode()
                for each in [each for each in self._answers if each > (event.last_stream_id or 0)]:
                    self._answers.pop(each).end()  # the server does not know it
            elif (number := getattr(event, "stream_id", None)) is not None and number in self._answers:
                self._answered(number, self._answers[number], event)
        self._pump()
        if self.goaway is not None and not self._answers:
            self.close()

    def _answered(self, number: int, answer: GrpcAnswer, event: Any) -> None:
        if isinstance(event, DataReceived):
            answer.feed(event.data)
            if event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, number)
        elif isinstance(event, ResponseReceived | TrailersReceived):
            headers = {str(name): str(value) for name, value in event.headers}
            answer.status = headers.get("grpc-status", "")
            answer.text = headers.get("grpc-message", "")
        elif isinstance(event, StreamReset | StreamEnded):
            answer.was_reset = isinstance(event, StreamReset)
            self._unsent.pop(number, None)
            del self._answers[number]
            answer.end()

    def flush(self) -> None:
        """Write the frames of `h2`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self.h2.data_to_send())

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self._transport is not None, "it is connected"
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection once everything is written."""
        assert self._transport is not None, "it is connected"
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        assert self._transport is not None, "it is connected"
        self._transport.abort()

    # --- calls -------------------------------------------------------------------------------------------------------

    def open(self, rpc: str, client_id: str, **metadata: str) -> int:
        """Begin a call without a message; returns its number."""
        number = self.h2.get_next_available_stream_id()
        headers = {
            **{":method": "POST", ":scheme": "http", ":path": SERVICE + rpc, ":authority": "x"},
            **{"content-type": "application/grpc", "te": "trailers", "x-mq-client-id": client_id},
            **{name.replace("_", "-"): value for name, value in metadata.items()},
        }
        self.h2.send_headers(number, list(headers.items()))
        self._answers[number] = GrpcAnswer()
        return number

    def say(self, number: int, message: Any, *, end: bool = True) -> GrpcAnswer:
        """Send a message of a call."""
        data = message if isinstance(message, bytes) else message.SerializeToString()
        answer = self._answers[number]
        self._unsent[number] = (b"\0" + len(data).to_bytes(4) + data, end)
        self._pump()
        return answer

    def _pump(self) -> None:
        """Send what the server's windows allow."""
        for number in list(self._unsent):
            while number in self._unsent:
                data, end = self._unsent[number]
                room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)
                if room <= 0:
                    break
                self.h2.send_data(number, data[:room], end_stream=end and room >= len(data))
                self._unsent[number] = (data[room:], end)
                if room >= len(data):
                    del self._unsent[number]
        self.flush()

    def begin(self, rpc: str, message: Any, client_id: str, **metadata: str) -> tuple[int, GrpcAnswer]:
        """Begin a call of one message; returns its number and its answer."""
        number = self.open(rpc, client_id, **metadata)
        return number, self.say(number, message)

    def cancel(self, number: int) -> None:
        """Reset a call, as a client that no longer waits for its answer."""
        self._unsent.pop(number, None)
        if number in self._answers and not self.closed.done():
            self._answers.pop(number).end()
            self.h2.reset_stream(number, _CANCEL)
            self.flush()

    async def ask(self, rpc: str, message: Any, client_id: str, timeout_s: float) -> list[Any]:
        """The messages of the answer of a call.

        Raises:
            ConnectionLost: the connection is closed, or it closed before the answer came.
            RequestTimeout: no answer in time; the call is reset.
            ServiceNotAvailable: the call failed with a status of gRPC.

        Cancellation: the call is reset.
        """
        if self.closed.done() or self.goaway is not None:
            raise ConnectionLost("the connection is closed; nothing was sent")
        number, answer = self.begin(rpc, message, client_id, grpc_timeout=f"{int(timeout_s * 1000)}m")
        try:
            with anyio.fail_after(timeout_s):
                await answer.ended
        except TimeoutError:
            raise RequestTimeout(f"{rpc} was not answered within {timeout_s:g} s") from None
        finally:
            self.cancel(number)
        if not answer.status:
            raise ConnectionLost(f"the connection closed before the answer to {rpc} came")
        if answer.status != "0":
            raise ServiceNotAvailable(f"{rpc} failed with status {answer.status} of gRPC: {answer.text}")
        return [MESSAGES[f"{rpc}Response"].FromString(each) for each in answer.messages]
