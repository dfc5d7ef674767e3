"""Queues for messages whose topic is not in the route table: from a name server, or copied from the template topic.

Brokers that create topics automatically have the template topic, TBW102. A producer sends the first message of a new
topic to a copy of the template's queues, and the broker that gets it creates the topic. Consumers see the topic from
then on, and the producer gets its real route. RocketMQ: tryToFindTopicPublishInfo, updateTopicRouteInfoFromNameServer
with isDefault.
"""

from __future__ import annotations

from typing import NamedTuple

from client.instance.instance import ClientInstance
from model.errors import NoPermission, TopicNotExist
from model.limits import DEFAULT_TOPIC_QUEUES
from model.message_queue import MessageQueue
from model.names import TEMPLATE_TOPIC, check_topic

_TEMPLATED_S = 0.1
"""How long queues copied from the template are used before the route is requested again."""


class _TemplateQueues(NamedTuple):
    queues: tuple[MessageQueue, ...]
    valid_until: float


class UnknownTopics:
    """The topics of one producer that were not in its route table when it sent to them."""

    def __init__(self) -> None:
        self._templated: dict[str, _TemplateQueues] = {}

    async def queues(
        self, instance: ClientInstance, topic: str, topics: dict[str, None], now: float
    ) -> tuple[MessageQueue, ...]:
        """The queues to which a message of a topic may be sent; `now` is the loop time in seconds.

        `topics` gets the topic once it has a route, or once a broker can create it.

        InvalidParameter: an illegal name. TopicNotExist: no broker has the topic or can create it. NoPermission: no
        broker accepts its messages now. ConnectFailed: no name server answers. Cancellation: harmless.
        """
        check_topic(topic)
        templated = self._templated.get(topic)
        if templated is not None and now < templated.valid_until:
            return templated.queues
        await instance.update_routes((topic,))
        if instance.routes.route_of(topic) is not None:
            topics[topic] = None
        if queues := instance.routes.publish_queues(topic):
            self._templated.pop(topic, None)
            return queues
        await instance.update_routes((TEMPLATE_TOPIC,))
        # Brokers that have the topic are left out: they offer no queue of it now, but might still accept the message.
        brokers_with_topic = instance.routes.brokers_of(topic)
        template = [
            queue
            for queue in instance.routes.publish_queues(TEMPLATE_TOPIC)
            if queue.queue_id < DEFAULT_TOPIC_QUEUES and queue.broker_name not in brokers_with_topic
        ]
        if not template:
            if instance.routes.route_of(topic) is not None:
                raise NoPermission(
                    f"topic {topic!r} takes no messages now: its brokers are drained, or without a master, or the "
                    "topic may only be read; see 'rlab topic show', and send again when that has changed"
                )
            raise TopicNotExist(
                f"topic {topic!r} does not exist and no broker creates topics automatically: "
                "create it with 'rlab topic create', or start a broker with automatic creation"
            )
        copied = tuple(MessageQueue(topic, queue.broker_name, queue.queue_id) for queue in template)
        topics[topic] = None  # the first send creates it
        self._templated[topic] = _TemplateQueues(copied, now + _TEMPLATED_S)
        return copied
