"""Reads a whole topic by plain pulls, without a group, a lease or a processing queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from client.admin.admin import Admin
from model.errors import ServiceNotAvailable
from model.limits import MAX_PULL_BATCH
from model.message import MessageExt
from model.message_queue import MessageQueue

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
    async with Admin(name_server) as admin:
        for broker in brokers:
            stored = (await admin.broker_info(broker)).topic(topic)
            if stored is None:
                raise ServiceNotAvailable(f"{broker} has lost topic {topic!r}")
            for queue_id, offsets in enumerate(stored.ranges):
                await _read_queue(admin, MessageQueue(topic, broker, queue_id), offsets.max_offset, take)


async def _read_queue(admin: Admin, queue: MessageQueue, max_offset: int, take: TakePart) -> None:
    # From 0 and not from the broker's lowest offset: no segment is deleted in a run, so a gap at the front is a loss.
    offset = 0
    while offset < max_offset:
        messages, next_offset = await admin.read_queue(queue, offset=offset, max_n=MAX_PULL_BATCH)
        if next_offset <= offset:
            raise ServiceNotAvailable(f"{queue}: a pull at {offset} of {max_offset} leads to {next_offset}")
        take(queue, range(offset, next_offset), [message for message, undecodable in messages if not undecodable])
        offset = next_offset
