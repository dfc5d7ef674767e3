"""The request by which a producer recalls a delayed message; `model/recall.py` has its handle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from model.message_queue import MessageQueue
from remoting.client import raise_for_code
from remoting.connection import Connection
from remoting.request_code import RequestCode


def recalling(handle: str) -> Callable[[MessageQueue, Connection, float], Awaitable[str]]:
    """Return a function that asks the broker of a queue for the recall, and returns the id of the message."""

    async def ask(queue: MessageQueue, connection: Connection, timeout_s: float) -> str:
        header = {"topic": queue.topic, "handle": handle}
        answer = await connection.request(RequestCode.RECALL_MESSAGE, header, None, timeout_s)
        return str(raise_for_code(answer).header["message_id"])

    return ask
