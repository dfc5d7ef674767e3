"""Records that no consumer can read are passed over: how that is told.

One that cannot be read now never can. Asking for it again would stop its queue for ever, and failing all that came with
it would make dead letters of its neighbours: a client that stores nonsense would hurt everybody who reads the topic.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby

from client.instance.events import QueueEvents
from client.instance.instance import ClientInstance
from model.decode import Undecodable
from model.events import EventKind

logger = logging.getLogger(__name__)


def tell_undecodable(instance: ClientInstance, group: str, records: Sequence[Undecodable], cause: str = "") -> None:
    """Tell of records that are passed over: each in the log, and how many in an event of their queue.

    Args:
        instance: the client instance.
        group: who has passed over them.
        records: which, those of a queue together.
        cause: of the events.
    """
    emit = QueueEvents(instance, group).emit
    for queue, of_queue in groupby(records, lambda record: record.queue):
        mine = list(of_queue)
        for record in mine:
            logger.error(
                "%s: group %s passes over %s+%d, which is not a message and was stored by a foreign client: %s",
                *(instance.client_id, group, queue, record.offset, record.reason),
            )
        kind = EventKind.MESSAGES_UNDECODABLE
        emit(kind, queue, cause=cause, offset=mine[0].offset, n=len(mine), detail=mine[0].reason)
