"""Queues for messages of topics that the route table does not have: from their route, or made up from the template.

RocketMQ: tryToFindTopicPublishInfo, updateTopicRouteInfoFromNameServer with isDefault. The queues of the template are
for sending only; consumers see the topic once a broker has created it, and so does its producer.
"""

from __future__ import annotations

from typing import NamedTuple

from client.instance.instance import ClientInstance
from model.errors import NoPermission, TopicNotExist
from model.limits import DEFAULT_TOPIC_QUEUES
from model.message_queue import MessageQueue
from model.names import TEMPLATE_TOPIC, check_topic

_TEMPLATED_S = 0.1
"""How long queues made up from the template are used before the route is asked for again."""


class _Templated(NamedTuple):
    queues: tuple[MessageQueue, ...]
    valid_until: float


class UnknownTopics:
    """The topics of one producer that were not in its route table when it sent to them."""

    def __init__(self) -> None:
        self._templated: dict[str, _Templated] = {}

    async def queues(
        self, instance: ClientInstance, topic: str, topics: dict[str, None], now: float
    ) -> tuple[MessageQueue, ...]:
        """The queues that a message of a topic may go to at a loop time; `topics` gets the topic if it can be sent to.

        InvalidParameter: an illegal name. TopicNotExist: no broker has or creates it. NoPermission: it takes no
        messages now. ConnectFailed: no name server answers. Cancellation: harmless.
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
        # Only where the topic is new: a broker that has it offers no queue of it now, and may still accept a message.
        have_it = instance.routes.brokers_of(topic)
        template = [
            queue
            for queue in instance.routes.publish_queues(TEMPLATE_TOPIC)
            if queue.queue_id < DEFAULT_TOPIC_QUEUES and queue.broker_name not in have_it
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
        made = tuple(MessageQueue(topic, queue.broker_name, queue.queue_id) for queue in template)
        topics[topic] = None  # the first send creates it
        self._templated[topic] = _Templated(made, now + _TEMPLATED_S)
        return made
