"""The requests by which a producer sends a message with a delay, and recalls it; `model/recall.py` has its handle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from model.message_queue import MessageQueue
from model.recall import handle_in
from remoting.client import raise_for_code
from remoting.connection import Connection
from remoting.request_code import RequestCode


async def send_later(
    connection: Connection,
    queue: MessageQueue,
    message_id: str,
    payload: bytes,
    hashed: int,
    delay_ms: int,
    until: float,
) -> tuple[int, str]:
    """Send a message with a delay before a time of the loop; returns its offset, which is -1, and its handle.

    Raises as `Connection.request` does.
    """
    header = {"topic": queue.topic, "queue_id": queue.queue_id, "tag_hash": hashed, "delay_ms": delay_ms}
    timeout_s = until - asyncio.get_running_loop().time()
    answer = raise_for_code(await connection.request(RequestCode.SEND_MESSAGE, header, payload, timeout_s)).header
    return int(answer["offset"]), handle_in(answer, queue, message_id)


def recalling(handle: str) -> Callable[[MessageQueue, Connection, float], Awaitable[str]]:
    """Return a function that asks the broker of a queue for the recall, and returns the id of the message."""

    async def ask(queue: MessageQueue, connection: Connection, timeout_s: float) -> str:
        header = {"topic": queue.topic, "handle": handle}
        answer = await connection.request(RequestCode.RECALL_MESSAGE, header, None, timeout_s)
        return str(raise_for_code(answer).header["message_id"])

    return ask
