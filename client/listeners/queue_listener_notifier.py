"""Notifies the user's queue listener of changes: which queues a topic has, and which of them are this member's.

RocketMQ: MessageQueueListener. There the listener of a lite pull consumer starts the pulls, so that users who set a
listener got no messages (apache/rocketmq#2127). Here it only observes: it is called for one change after the other in a
separate task, and a slow listener gets the newest state and skips the states in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from client.instance.background import BackgroundTasks
from client.instance.user_code import UserCode
from client.listeners.listener import MessageQueueListener, call_observer
from model.arguments import check_callable
from model.message_queue import MessageQueue
from model.names import is_retry_topic

Queues = tuple[MessageQueue, ...]


class QueueListenerNotifier:
    """The listener of one consumer."""

    def __init__(self, listener: MessageQueueListener | None, background: BackgroundTasks) -> None:
        self.listen(listener)
        self._background = background
        self._notified: dict[str, tuple[Queues, Queues]] = {}
        self._changed: dict[str, None] = {}
        self._running = False

    def listen(self, listener: MessageQueueListener | None) -> None:
        """Replace the listener; None removes it.

        Raises:
            InvalidParameter: it is not callable. Checked here, because the first call may come hours later.
        """
        if listener is not None:
            check_callable("message_queue_listener", listener)
        self._listener = None if listener is None else UserCode(listener)

    def update(self, queues_of: Mapping[str, Iterable[MessageQueue]], mine: Iterable[MessageQueue]) -> None:
        """Call the listener for each topic whose queues differ from its last call; retry topics are left out."""
        if self._listener is None:
            return
        by_topic: dict[str, list[MessageQueue]] = {}
        for queue in mine:
            by_topic.setdefault(queue.topic, []).append(queue)
        now = {
            topic: (tuple(sorted(queues)), tuple(sorted(by_topic.get(topic, ()))))
            for topic, queues in queues_of.items()
            if not is_retry_topic(topic)
        }
        # A topic that is unsubscribed or does not exist yet has no queues, before and after: this is not a change.
        for topic in sorted({*now, *self._notified}):
            state = now.get(topic, ((), ()))
            if state != self._notified.get(topic, ((), ())):
                self._notified[topic] = state
                self._changed[topic] = None
        if self._changed and not self._running and self._background.running:
            self._running = True
            self._background.start_soon(self._call)

    async def _call(self) -> None:
        try:
            while self._changed and self._listener is not None:
                topic = next(iter(self._changed))
                del self._changed[topic]
                everything, mine = self._notified[topic]
                if not everything and not mine:
                    del self._notified[topic]
                await call_observer(self._listener, topic, everything, mine)
        finally:
            self._running = False
