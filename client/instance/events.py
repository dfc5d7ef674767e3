"""The events of one consumer about its queues, with the columns that all of them share."""

from __future__ import annotations

from client.instance.instance import ClientInstance
from model.events import EventKind
from model.message_queue import MessageQueue


class QueueEvents:
    """Emits events of one group in one client.

    Args:
        instance: the client instance.
        group: the group.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    def emit(
        self,
        kind: EventKind,
        queue: MessageQueue | None = None,
        *,
        cause: str = "",
        version: int = -1,
        offset: int = -1,
        n: int = -1,
        detail: str = "",
    ) -> str:
        """Note that something happened, to a queue if one is named; returns the id of the root trigger."""
        return self._instance.events.emit(
            kind,
            cause=cause,
            group=self._group,
            client=self._instance.client_id,
            topic=queue.topic if queue is not None else "",
            broker=queue.broker_name if queue is not None else "",
            queue_id=queue.queue_id if queue is not None else -1,
            version=version,
            offset=offset,
            n=n,
            detail=detail,
        )
