"""A client that speaks RocketMQ's protocol, byte by byte, to a simulated broker."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping
from typing import Any, cast

from rocketmq.frame import ONE_WAY_BIT, RESPONSE_BIT, Frame, FrameDecoder, encode_frame
from tests.unit.broker.harness import ADDRESS, World


class StockClient(asyncio.Protocol):
    """One connection; `pushed` are the frames that nobody asked for."""

    def __init__(self, client_id: str, *, binary: bool = False) -> None:
        self.client_id = client_id
        self.language = "JAVA"
        self.pushed: list[Frame] = []
        self.closed = asyncio.get_running_loop().create_future()
        self._decoder = FrameDecoder()
        self._binary = binary
        self._opaque = 0
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(cls, world: World, host: str = "stock", *, binary: bool = False) -> StockClient:
        address, port = ADDRESS.split(":")
        with world.simulation.on_host(host):
            loop = asyncio.get_running_loop()
            _, client = await loop.create_connection(lambda: cls(f"{host}@1", binary=binary), address, int(port))
        world.at_end.append(client.close)
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            if frame.flag & RESPONSE_BIT and frame.opaque in self._waiting:
                self._waiting.pop(frame.opaque).set_result(frame)
            else:
                self.pushed.append(frame)

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def begin(self, code: int, fields: Mapping[str, Any], body: bytes | None = None) -> asyncio.Future[Frame]:
        self._opaque += 1
        self._waiting[self._opaque] = answer = asyncio.get_running_loop().create_future()
        texts = {name: str(value) for name, value in fields.items()}
        frame = Frame(code, 0, self._opaque, texts, body, language=self.language, binary=self._binary)
        self.write(encode_frame(frame))
        return answer

    def tell(self, code: int, fields: Mapping[str, Any]) -> None:
        """Send a one-way request."""
        self.write(encode_frame(Frame(code, ONE_WAY_BIT, 0, {name: str(value) for name, value in fields.items()})))

    async def call(self, code: int, fields: Mapping[str, Any], body: bytes | None = None) -> Frame:
        return await self.begin(code, fields, body)

    async def send(self, body: bytes = b"m", topic: str = "t", queue_id: int = 0, **more: Any) -> Frame:
        """Send one message with the short names."""
        header = {"a": "p", "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": 0, "g": 1000, "h": 0, **more}
        return await self.call(310, header, body)

    async def heartbeat(self, group: str = "g", topic: str = "t", **more: Any) -> Frame:
        one = {"subString": "*", "topic": topic, "subVersion": 1, **more.pop("subscription", {})}
        data = {"groupName": group, "subscriptionDataSet": [one], **more}
        body = {"clientID": self.client_id, "consumerDataSet": [data], "producerDataSet": [{"groupName": "p"}]}
        return await self.call(34, {}, json.dumps(body).encode())

    def begin_pull(self, offset: int = 0, queue_id: int = 0, **more: Any) -> asyncio.Future[Frame]:
        header = {"consumerGroup": "g", "topic": "t", "queueId": queue_id, "queueOffset": offset, "maxMsgNums": 32}
        more = {"sysFlag": 2, "commitOffset": 0, "suspendTimeoutMillis": 15000, "subVersion": 1, **more}
        return self.begin(11, {**header, **more})

    async def pull(self, offset: int = 0, queue_id: int = 0, **more: Any) -> Frame:
        return await self.begin_pull(offset, queue_id, **more)


def messages_of(frame: Frame) -> list[dict[str, Any]]:
    """Read stored messages the way that RocketMQ's decoder does, field by field."""
    found, data, at = [], frame.body or b"", 0
    while at < len(data):
        size, magic, _, queue_id, flag, offset, physical, _, born_ms = struct.unpack_from(">IIIIIQQIQ", data, at)
        _, _, stored_ms, host, port, times, _, length = struct.unpack_from(">4sIQ4sIIQI", data, at + 48)
        start = at + 88
        body = data[start : start + length]
        topic_length = data[start + length]
        topic = data[start + length + 1 :][:topic_length].decode()
        rest = data[start + length + 1 + topic_length : at + size]
        assert magic == 0xDAA320A7
        assert struct.unpack_from(">H", rest)[0] == len(rest) - 2
        pairs = dict(pair.split("\x01") for pair in rest[2:].decode().split("\x02") if pair)
        found.append(
            {
                **{"queue_id": queue_id, "flag": flag, "offset": offset, "physical": physical, "born_ms": born_ms},
                **{"stored_ms": stored_ms, "port": port, "times": times, "body": body, "topic": topic},
                **{"properties": pairs, "host": ".".join(map(str, host))},
            }
        )
        at += size
    return found
