"""Reads a whole topic by plain pulls, without a group, a lease or a process queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from client.admin.admin import Admin
from model.decode import decode_messages
from model.errors import ServiceNotAvailable
from model.limits import MAX_PULL_BATCH
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.response_code import ResponseCode
from remoting.client import RemotingClient, raise_for_code
from remoting.command import Command
from remoting.request_code import RequestCode

_PULL = int(RequestCode.PULL_MESSAGE)
_READER = "crash-reader"
_NOTHING = frozenset({ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED})
"""Answers without messages that contain the next offset."""

TakePart = Callable[[MessageQueue, range, list[MessageExt]], object]
"""Called with a queue, the range of offsets of a pull, and its messages."""


async def read_back(name_server: str, brokers: Iterable[str], topic: str, take: TakePart) -> None:
    """Read every queue of a topic from its first to its last offset.

    `take` is called with each part of a queue in the order of the offsets.

    Raises:
        ServiceNotAvailable: a broker does not have the topic, or pulls of a queue do not advance.
        RlabError: a broker does not answer.

    Cancellation: harmless.
    """
    async with Admin(name_server) as admin, RemotingClient() as remoting:
        for broker in brokers:
            info = await admin.broker_info(broker)
            stored = info.topic(topic)
            if stored is None:
                raise ServiceNotAvailable(f"{broker} has lost topic {topic!r}")
            for queue_id, offsets in enumerate(stored.ranges):
                queue = MessageQueue(topic, broker, queue_id)
                await _read_queue(remoting, info.address, queue, offsets.max_offset, take)


async def _read_queue(
    remoting: RemotingClient, address: str, queue: MessageQueue, max_offset: int, take: TakePart
) -> None:
    # From 0 and not from the broker's lowest offset: no segment is deleted in a run, so a gap at the front is a loss.
    offset = 0
    while offset < max_offset:
        response = await _pull(remoting, address, queue, offset)
        next_offset = int(response.header["next_offset"])
        if next_offset <= offset:
            raise ServiceNotAvailable(f"{queue}: a pull at {offset} of {max_offset} leads to {next_offset}")
        messages = decode_messages(queue, response.body or b"")
        take(queue, range(offset, next_offset), messages)
        offset = next_offset


async def _pull(remoting: RemotingClient, address: str, queue: MessageQueue, offset: int) -> Command:
    header = {
        "group": _READER,
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "offset": offset,
        "max_n": MAX_PULL_BATCH,
        "suspend_ms": 0,
    }
    connection = await remoting.connect(address)
    response = await connection.request(_PULL, header)
    return response if response.code in _NOTHING else raise_for_code(response)
