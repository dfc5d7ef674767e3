"""A client that speaks RocketMQ's gRPC protocol, frame by frame, to a simulated broker, and the calls of consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rocketmq.grpc import proto
from rocketmq.grpc.proto import MESSAGES, to_duration
from testbed.load.grpc import GrpcAnswer, GrpcClientConnection
from tests.unit.broker.harness import ADDRESS, World

STOCK = "stock@1"
GROUP = MESSAGES["Resource"](name="g")


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


# --- consumers --------------------------------------------------------------------------------------------------------


async def with_messages(world: World, n: int = 3, *, tags: str = "") -> GrpcClient:
    """A broker with messages that the group has not read; its first receive was before them."""
    await world.start_broker()
    await world.peer("a").put_topic("t", read=2, write=2)
    client = await GrpcClient.connect(world)
    await received(client, poll_ms=0)
    for number in range(n):
        await client.send(b"%d" % number, message_id=f"0{number}", tag=tags[number] if tags else "")
    return client


def receive_of(
    *, topic: str = "t", n: int = 32, poll_ms: int = 1_000, tags: str = "*", kind: int = proto.TAG, **more: Any
) -> Any:
    """A request of a simple consumer; with `auto_renew` one of a push consumer."""
    more = {"invisible_duration": to_duration(60_000), **more}
    if more.get("auto_renew"):
        del more["invisible_duration"]
    return MESSAGES["ReceiveMessageRequest"](
        group=GROUP,
        message_queue=MESSAGES["MessageQueue"](topic=MESSAGES["Resource"](name=topic), id=1),
        filter_expression=MESSAGES["FilterExpression"](type=kind, expression=tags),
        batch_size=n,
        long_polling_timeout=to_duration(poll_ms),
        **more,
    )


def messages_in(answers: list[Any]) -> list[Any]:
    """The messages of an answer that has some: status, messages, time of the delivery."""
    assert answers[0].status.code == proto.OK, answers[0].status
    assert answers[-1].delivery_timestamp.seconds > 0
    assert all(each.HasField("message") for each in answers[1:-1])
    return [each.message for each in answers[1:-1]]


def read(answer: GrpcAnswer) -> list[Any]:
    return [MESSAGES["ReceiveMessageResponse"].FromString(each) for each in answer.messages]


async def received(client: GrpcClient, client_id: str = "stock@1", **more: Any) -> list[Any]:
    """The messages of one receive; none if its status is that there are none."""
    answers = await client.call("ReceiveMessage", receive_of(**more), client_id=client_id)
    if answers[0].status.code == proto.MESSAGE_NOT_FOUND:
        assert len(answers) == 1
        return []
    return messages_in(answers)


def ack_of(*messages: Any) -> Any:
    entries = [
        MESSAGES["AckMessageEntry"](
            message_id=each.system_properties.message_id, receipt_handle=each.system_properties.receipt_handle
        )
        for each in messages
    ]
    return MESSAGES["AckMessageRequest"](group=GROUP, topic=MESSAGES["Resource"](name="t"), entries=entries)


def change_of(message: Any, ms: int) -> Any:
    return MESSAGES["ChangeInvisibleDurationRequest"](
        group=GROUP,
        topic=MESSAGES["Resource"](name="t"),
        receipt_handle=message.system_properties.receipt_handle,
        invisible_duration=to_duration(ms),
        message_id=message.system_properties.message_id,
    )


def dead_letter_of(message: Any) -> Any:
    return MESSAGES["ForwardMessageToDeadLetterQueueRequest"](
        group=GROUP,
        topic=MESSAGES["Resource"](name="t"),
        receipt_handle=message.system_properties.receipt_handle,
        message_id=message.system_properties.message_id,
    )


def bodies(messages: list[Any]) -> list[bytes]:
    return sorted(each.body for each in messages)
