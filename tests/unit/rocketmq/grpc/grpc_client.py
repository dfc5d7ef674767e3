"""A client that speaks RocketMQ's gRPC protocol, frame by frame, to a simulated broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rocketmq.grpc.proto import MESSAGES
from testbed.load.grpc import GrpcAnswer, GrpcClientConnection
from tests.unit.broker.harness import ADDRESS, World

STOCK = "stock@1"


class GrpcClient(GrpcClientConnection):
    """One connection, which `clients` of a process may share; see `GrpcClientConnection`."""

    @classmethod
    async def connect(cls, world: World, host: str = "stock", address: str = ADDRESS) -> GrpcClient:
        where, port = address.split(":")
        with world.simulation.on_host(host):
            _, client = await asyncio.get_running_loop().create_connection(cls, where, int(port))
        world.at_end.append(client.close)
        return client

    def open(self, rpc: str, client_id: str = STOCK, **metadata: str) -> int:
        return super().open(rpc, client_id, **metadata)

    def begin(self, rpc: str, message: Any, client_id: str = STOCK, **metadata: str) -> tuple[int, GrpcAnswer]:
        return super().begin(rpc, message, client_id, **metadata)

    def answer_of(self, number: int) -> GrpcAnswer:
        """The answer to a call that was begun, and that has not ended."""
        return self._answers[number]

    async def call(self, rpc: str, message: Any, client_id: str = STOCK, **metadata: str) -> list[Any]:
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
