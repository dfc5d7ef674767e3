"""A client that speaks RocketMQ's gRPC protocol, frame by frame, to a simulated broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived

from rocketmq.grpc.proto import MESSAGES
from tests.unit.broker.harness import ADDRESS, World

SERVICE = "/apache.rocketmq.v2.MessagingService/"
PREFIX_BYTES = 5


class Answer:
    """The answer to one call: its messages, as bytes, and the status of gRPC at its end; "" while the call runs."""

    def __init__(self) -> None:
        self.data = b""
        self.status = ""
        self.text = ""
        self.was_reset = False
        self.ended = asyncio.get_running_loop().create_future()

    @property
    def messages(self) -> list[bytes]:
        found, at = [], 0
        while at + PREFIX_BYTES <= len(self.data):
            end = at + PREFIX_BYTES + int.from_bytes(self.data[at + 1 : at + PREFIX_BYTES])
            found.append(self.data[at + PREFIX_BYTES : end])
            at = end
        return found

    def end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class GrpcClient(asyncio.Protocol):
    """One connection, which `clients` of a process may share.

    Attributes:
        h2: its frames, for tests that send others; `flush` writes them.
        goodbye: the reason in the server's GOAWAY, or None.
    """

    def __init__(self) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.encode_goaway: str | None = None
        self.closed = asyncio.get_running_loop().create_future()
        self._answers: dict[int, Answer] = {}
        self._unsent: dict[int, tuple[bytes, bool]] = {}
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(cls, world: World, host: str = "stock", address: str = ADDRESS) -> GrpcClient:
        where, port = address.split(":")
        with world.simulation.on_host(host):
            _, client = await asyncio.get_running_loop().create_connection(cls, where, int(port))
        world.at_end.append(client.close)
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set_result(None)
        for answer in self._answers.values():
            answer.end()

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            if isinstance(event, ConnectionTerminated):
                self.encode_goaway = (event.additional_data or b"").decode()
                continue
            number = getattr(event, "stream_id", None)
            answer = None if number is None else self._answers.get(number)
            if answer is None:
                continue
            if isinstance(event, DataReceived):
                answer.data += event.data
                if event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, ResponseReceived | TrailersReceived):
                headers = {str(name): str(value) for name, value in event.headers}
                answer.status = headers.get("grpc-status", "")
                answer.text = headers.get("grpc-message", "")
            elif isinstance(event, StreamReset):
                answer.was_reset = True
                self._unsent.pop(event.stream_id, None)
                answer.end()
            elif isinstance(event, StreamEnded):
                self._unsent.pop(event.stream_id, None)
                answer.end()
        self._pump()

    def flush(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self.h2.data_to_send())

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def open(self, rpc: str, client_id: str = "stock@1", **metadata: str) -> int:
        """Begin a call without a message; returns its number."""
        number = self.h2.get_next_available_stream_id()
        headers = {
            ":method": "POST", ":scheme": "http", ":path": SERVICE + rpc, ":authority": "x",
            "content-type": "application/grpc", "te": "trailers", "x-mq-client-id": client_id,
            **{name.replace("_", "-"): value for name, value in metadata.items()},
        }  # fmt: skip
        self.h2.send_headers(number, list(headers.items()))
        self._answers[number] = Answer()
        return number

    def answer_of(self, number: int) -> Answer:
        """The answer to a call that was begun."""
        return self._answers[number]

    def say(self, number: int, message: Any, *, end: bool = True) -> Answer:
        """Send a message of a call."""
        data = message if isinstance(message, bytes) else message.SerializeToString()
        self._unsent[number] = (b"\0" + len(data).to_bytes(4) + data, end)
        self._pump()
        return self._answers[number]

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

    def begin(self, rpc: str, message: Any, client_id: str = "stock@1", **metadata: str) -> tuple[int, Answer]:
        number = self.open(rpc, client_id, **metadata)
        return number, self.say(number, message)

    def cancel(self, number: int) -> None:
        self.h2.reset_stream(number, 8)
        self.flush()

    async def call(self, rpc: str, message: Any, client_id: str = "stock@1", **metadata: str) -> list[Any]:
        """The messages of the answer of a call that does not fail."""
        _, answer = self.begin(rpc, message, client_id, **metadata)
        await answer.ended
        assert answer.status == "0", (answer.status, answer.text)
        return [MESSAGES[f"{rpc}Response"].FromString(each) for each in answer.messages]

    async def one(self, rpc: str, message: Any, **metadata: str) -> Any:
        """The only message of the answer."""
        [found] = await self.call(rpc, message, **metadata)
        return found

    async def send(self, body: bytes = b"m", topic: str = "t", message_id: str = "01AA", **more: Any) -> Any:
        """Send one message; `more` are system properties."""
        return await self.one("SendMessage", send_of(message_of(body, topic, message_id=message_id, **more)))


def message_of(body: bytes = b"m", topic: str = "t", properties: Mapping[str, str] = {}, **more: Any) -> Any:
    """A message as a producer sends it; `more` are system properties."""
    defaults: dict[str, Any] = {"message_type": 1, "message_id": "01AA", "body_encoding": 1}
    system = MESSAGES["SystemProperties"](**{**defaults, **more})
    topic_of = MESSAGES["Resource"](name=topic)
    return MESSAGES["Message"](topic=topic_of, body=body, user_properties=properties, system_properties=system)


def send_of(*messages: Any) -> Any:
    """A request of these messages."""
    return MESSAGES["SendMessageRequest"](messages=messages)
