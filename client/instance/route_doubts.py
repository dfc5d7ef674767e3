"""RouteDoubts: a broker that vanishes from a route is believed to be gone at the second look. Pure.

A broker that restarts is in no route for a moment, and a name server that has just started knows no topic until the
brokers have found it. A client that asks in such a moment would give its queues up, other members would not, and the
next look would move everything back. So what is missing is kept once, for consumers only: a producer that still sees
other brokers should not try it.

    known: a b    told: a      -> a b, b without writing     first look
    known: a b    told: a      -> a                          second look
    known: a b    told: a b    -> a b                        it was away for a moment

RocketMQ keeps a route for ever when the name server has none any more, and believes a shrunken one at once.
"""

from __future__ import annotations

from dataclasses import replace

from model.topic_route import Perm, TopicRoute


class RouteDoubts:
    """What was missing at the last look, for each topic."""

    def __init__(self) -> None:
        self._missing: dict[str, frozenset[str]] = {}

    def weigh(self, topic: str, known: TopicRoute | None, told: TopicRoute | None) -> TopicRoute | None:
        """Decide which route to go by.

        Args:
            topic: the topic.
            known: the route that was believed so far.
            told: what a name server says now; None for «no such topic».

        Returns:
            The route to believe until the next look.
        """
        if known is None:
            return told
        before = self._missing.pop(topic, frozenset())
        there = {data.broker_name for data in told.queues} if told is not None else set()
        missing = frozenset(data.broker_name for data in known.queues if data.broker_name not in there)
        doubted = missing - before
        if not doubted:
            return told
        self._missing[topic] = doubted
        if told is None and doubted == missing:
            # Nobody is left to send to instead, and the brokers are probably where they were.
            return known
        kept = [data for data in known.queues if data.broker_name in doubted]
        queues = [replace(data, perm=data.perm & ~Perm.WRITE) for data in kept]
        brokers = [broker for broker in known.brokers if broker.broker_name in doubted]
        if told is not None:
            queues += told.queues
            brokers += [broker for broker in told.brokers if broker.broker_name not in doubted]
        return TopicRoute(
            topic=topic,
            queues=tuple(sorted(queues, key=lambda data: data.broker_name)),
            brokers=tuple(sorted(brokers, key=lambda broker: broker.broker_name)),
        )

    def forget(self, topic: str) -> None:
        """Drop what is doubted of a topic."""
        self._missing.pop(topic, None)
