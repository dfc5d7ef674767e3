"""What tests of POP ask a broker for, over the wire."""

from __future__ import annotations

from typing import Any, NamedTuple

from model.record import iter_records
from model.response_code import ResponseCode
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.wire.pop import ANY_QUEUE
from tests.unit.broker.harness import Peer, World, unpacked

INVISIBLE_S = 10.0


class Popped(NamedTuple):
    topic: str
    queue_id: int
    token: int
    visible_ms: int
    attempts: list[int]
    offsets: list[int]

    @property
    def row(self) -> list[Any]:
        return [self.topic, self.queue_id, self.token, self.offsets]


def popped(answer: Command) -> list[Popped]:
    if answer.code == ResponseCode.PULL_NOT_FOUND:
        return []
    assert answer.code == 0, answer
    return [Popped(*(*row, [r.queue_offset for r in iter_records(body)])) for *row, body in unpacked(answer)]


def header(peer: Peer, **fields: Any) -> dict[str, Any]:
    defaults = {"group": "g", "topic": "t", "queue_id": ANY_QUEUE, "client_id": peer.client_id, "max_n": 32}
    return {
        **defaults,
        "invisible_ms": int(INVISIBLE_S * 1000),
        "suspend_ms": 0,
        "consume_from": "FIRST_OFFSET",
        **fields,
    }


async def pop(peer: Peer, **fields: Any) -> list[Popped]:
    return popped(await (await peer.begin(RequestCode.POP_MESSAGE, header(peer, **fields))))


async def pop_one(peer: Peer, **fields: Any) -> Popped:
    [batch] = await pop(peer, **fields)
    return batch


async def ack(peer: Peer, *rows: list[Any], group: str = "g") -> list[list[Any]]:
    request = {"group": group, "client_id": peer.client_id}
    dead: list[list[Any]] = unpacked(await peer.call(RequestCode.BATCH_ACK_MESSAGE, request, list(rows)))
    return dead


async def extend(peer: Peer, batch: Popped, offset: int, invisible_ms: int, **fields: int) -> int:
    request = {"group": "g", "topic": batch.topic, "queue_id": batch.queue_id, "client_id": peer.client_id}
    more = {"offset": offset, "token": batch.token, "invisible_ms": invisible_ms, **fields}
    answer = await peer.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, {**request, **more})
    return int(answer.header["token"])


async def world_of(world: World, *hosts: str, messages: int = 0, queues: int = 1, **options: Any) -> list[Peer]:
    """Start a broker with topic `t`; returns peers."""
    await world.start_broker(**options)
    peers = [world.peer(host) for host in hosts]
    await peers[0].put_topic(read=queues)
    for n in range(messages):
        await peers[0].send(queue_id=n % queues, body=b"%d" % n)
    return peers
