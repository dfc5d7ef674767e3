"""Owned queues for tests without an event loop, which nothing pulls."""

from __future__ import annotations

from typing import cast

import anyio

from client.pull.owned_queue import OwnedQueue
from client.pull.process_queue import ProcessQueue
from model.message import MessageExt
from model.message_queue import MessageQueue


class NoScope:
    """Stands where the scope of a pull loop is: a real one wants a running loop."""

    def cancel(self) -> None:
        """Nothing: nobody pulls."""


def owned_queue(queue: MessageQueue, start: int = 0, n: int = 0) -> OwnedQueue:
    """A queue that begins at an offset, with n messages that were pulled."""
    owned = OwnedQueue(queue, 1, ProcessQueue(start), pulling=cast(anyio.CancelScope, NoScope()))
    owned.process_queue.put([message_at(queue, start + i) for i in range(n)])
    return owned


def message_at(queue: MessageQueue, offset: int) -> MessageExt:
    """A message."""
    return MessageExt(queue, offset, 0, 0, "t", b"x", "", (), {}, 0, "id")
