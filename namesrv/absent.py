"""AbsentBrokers: the brokers that left without unregistering, until they return or are forgotten. Pure.

    absent.left(<broker-a, id 0, topics orders 4/4>, "closed its connection", now=10.0)
    absent.listed(now=15.0)                  -> [broker-a, away for 5 s, with its queues of orders]
    absent.returned(("broker-a", 0))         -> it has registered again, or unregistered: nothing is listed

The table is in memory: a restarted name server does not know brokers that left before. It holds as many brokers as the
route table, and as many topics; when it is full, the broker that left first is forgotten, or loses its topics.
RocketMQ's name server forgets a broker at once, so its tools cannot show that a part of the cluster is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from model.absent_broker import AbsentBroker
from model.topic_route import TopicConfig
from namesrv.registration import BrokerKey, BrokerRegistration


@dataclass(slots=True)
class _Absent:
    """A broker and the loop time at which it left."""

    registration: BrokerRegistration
    reason: str
    since: float
    topics: dict[str, TopicConfig]


class AbsentBrokers:
    """See the module header; times are loop times in seconds."""

    def __init__(self, max_topics: int, max_brokers: int) -> None:
        self._max_topics = max_topics
        self._max_brokers = max_brokers
        self._absent: dict[BrokerKey, _Absent] = {}  # oldest absence first

    def __len__(self) -> int:
        return len(self._absent)

    def broker_left(
        self, registration: BrokerRegistration, topics: Iterable[TopicConfig], reason: str, now: float
    ) -> None:
        """Remember a broker that left without unregistering, with the topics that it still had."""
        self._absent.pop(registration.key, None)
        configs = {config.topic: config for config in topics}
        self._absent[registration.key] = _Absent(registration, reason, now, configs)
        if len(self._absent) > self._max_brokers:
            del self._absent[next(iter(self._absent))]
        n = sum(len(each.topics) for each in self._absent.values())
        for each in self._absent.values():
            if n <= self._max_topics:
                break
            n -= len(each.topics)
            each.topics = {}

    def returned(self, key: BrokerKey) -> None:
        """Forget a broker that has registered again, or has unregistered; harmless for any other broker."""
        self._absent.pop(key, None)

    def forget(self, broker_name: str) -> int:
        """Forget a broker name; returns how many of its brokers were absent."""
        keys = [key for key in self._absent if key.broker_name == broker_name]
        for key in keys:
            del self._absent[key]
        return len(keys)

    def delete_topic(self, topic: str) -> None:
        """Remove a topic from every absent broker."""
        for each in self._absent.values():
            each.topics.pop(topic, None)

    def address_of(self, key: BrokerKey) -> str | None:
        """The last address of an absent broker, or None if it is not absent."""
        each = self._absent.get(key)
        return None if each is None else each.registration.address

    def listed(self, now: float, topic: str | None = None) -> list[AbsentBroker]:
        """The absent brokers, sorted; with a topic, only brokers that have it, each with this topic alone."""
        return [
            AbsentBroker(
                cluster=each.registration.cluster,
                broker_name=key.broker_name,
                broker_id=key.broker_id,
                address=each.registration.address,
                away_s=now - each.since,
                reason=each.reason,
                topics=tuple(config for name, config in sorted(each.topics.items()) if topic in (None, name)),
            )
            for key, each in sorted(self._absent.items())
            if topic is None or topic in each.topics
        ]
