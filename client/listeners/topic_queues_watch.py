"""Polls name servers for changes of the queues of a topic, for users that assign queues themselves.

RocketMQ: DefaultLitePullConsumerImpl.fetchTopicMessageQueuesAndCompare, registerTopicMessageQueueChangeListener.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from client.instance.user_code import UserCode
from client.listeners.listener import TopicQueuesListener, call_observer
from model.arguments import check_callable
from model.errors import InvalidParameter, RlabError
from model.limits import MAX_SUBSCRIPTIONS_PER_MEMBER, TOPIC_QUEUES_INTERVAL_S
from model.message_queue import MessageQueue
from model.names import check_topic

logger = logging.getLogger(__name__)

Queues = tuple[MessageQueue, ...]


class TopicQueuesWatch:
    """The listeners of one consumer, one for each topic."""

    def __init__(self, fetch: Callable[[str], Awaitable[Queues]]) -> None:
        self._fetch = fetch
        self._listeners: dict[str, UserCode] = {}
        self._known: dict[str, Queues] = {}

    async def register(self, topic: str, listener: TopicQueuesListener) -> None:
        """Register the listener of a topic, to be called with `(topic, queues)` after each change.

        The topic need not exist yet; the listener replaces an earlier one.

        Raises:
            InvalidParameter: an illegal topic name, a listener that cannot be called, or too many topics.
            ConnectFailed: no name server answers; nothing is registered.

        Cancellation: nothing is registered.
        """
        check_callable("listener", listener)
        if check_topic(topic) not in self._listeners and len(self._listeners) >= MAX_SUBSCRIPTIONS_PER_MEMBER:
            raise InvalidParameter(f"a consumer listens to at most {MAX_SUBSCRIPTIONS_PER_MEMBER} topics")
        self._known[topic] = await self._fetch(topic)
        self._listeners[topic] = UserCode(listener)

    async def fetch_and_compare(self) -> None:
        """Poll once: call the listener of each topic whose queues changed. A topic that cannot be polled waits.

        Cancellation: listeners that were not called are called next time.
        """
        for topic, listener in list(self._listeners.items()):
            try:
                queues = await self._fetch(topic)
            except RlabError as error:
                logger.warning("the queues of %s are not known now: %s", topic, error)
                continue
            if queues != self._known[topic]:
                await call_observer(listener, topic, queues)
                self._known[topic] = queues

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await anyio.sleep(TOPIC_QUEUES_INTERVAL_S)
            await self.fetch_and_compare()
