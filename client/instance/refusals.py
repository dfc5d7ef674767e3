"""Warns once when brokers refuse messages to a group, and says when they no longer do.

A group that an operator has switched off goes on asking, each of its queues every second, so that it consumes again
soon after it is switched on. One warning says what to do; a warning for each refusal would bury the rest of the log.
"""

from __future__ import annotations

import logging

from model.errors import NoPermission
from model.message_queue import MessageQueue

logger = logging.getLogger(__name__)


class Refusals:
    """The queues of which brokers refuse messages to the groups of one client."""

    def __init__(self) -> None:
        self.refused: dict[str, dict[MessageQueue, None]] = {}  # by group; bounded by the queues that are asked for

    def add(self, client_id: str, group: str, queue: MessageQueue, error: NoPermission) -> None:
        """Note a refusal; the first of a group is logged as a warning."""
        queues = self.refused.setdefault(group, {})
        level = logging.DEBUG if queues else logging.WARNING
        queues[queue] = None
        logger.log(level, "%s: group %s gets no messages of %s, and keeps trying: %s", client_id, group, queue, error)

    def discard(self, client_id: str, group: str, queue: MessageQueue) -> None:
        """Note that a queue is not refused any more, or not asked for; the last of a group is logged."""
        queues = self.refused.get(group, {})
        if queue in queues:
            del queues[queue]
            if not queues:
                del self.refused[group]
                logger.info("%s: group %s is refused no messages any more", client_id, group)
