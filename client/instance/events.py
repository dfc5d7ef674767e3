"""Events of one consumer about its queues, and reports of records that no consumer can decode.

An undecodable record is skipped, because it never becomes decodable. If it were pulled again, its queue would stop for
ever; if its batch failed, the other messages of the batch would go to the DLQ. So one client that stores invalid
records would stop every consumer of the topic.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby

from client.instance.instance import ClientInstance
from model.decode import Undecodable
from model.events import EventKind
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class QueueEvents:
    """Emits events of one group in one client."""

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
        """Emit an event, about a queue if one is given; returns the id of the root trigger."""
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


def report_undecodable(instance: ClientInstance, group: str, records: Sequence[Undecodable], cause: str = "") -> None:
    """Report records that are passed over: a log line each, and one MESSAGES_UNDECODABLE event per queue.

    Those of a queue come together.
    """
    emit = QueueEvents(instance, group).emit
    for queue, of_queue in groupby(records, lambda record: record.queue):
        records_of_queue = list(of_queue)
        for record in records_of_queue:
            logger.error(
                "%s: group %s passes over %s+%d, which is not a message and was stored by a foreign client: %s",
                *(instance.client_id, group, queue, record.offset, record.reason),
            )
        kind = EventKind.MESSAGES_UNDECODABLE
        emit(
            kind,
            queue,
            cause=cause,
            offset=records_of_queue[0].offset,
            n=len(records_of_queue),
            detail=records_of_queue[0].reason,
        )
