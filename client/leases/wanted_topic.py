"""WantedTopic: when a consumer without leases subscribed to a topic, and the topic's incarnation at each broker. Pure.

`LAST_OFFSET` begins at the moment of the first subscription. A queue that this consumer first sees later is read from
that moment on, as the clock of its broker had it. The clock of the client is not compared with a broker's clock: if it
is some seconds ahead, that many seconds of messages would be skipped (apache/rocketmq#9281). A broker's clock and the
loop time of this process both go on at the same rate, so their difference shows what the clock was at a known moment:

    subscribed at loop time 100 s; at 140 s broker-a answers that it is 12:00:45     at broker-a it was 12:00:05

The moment is stored with the offsets, for each broker that has answered. After a restart of the consumer, the moment at
another broker is computed from a stored moment and the difference of the two brokers' clocks, once both have answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.topic_incarnation import TopicIncarnation

ALL_OF_IT = 0
"""The moment of the subscription at a broker whose topic was created later: each of its messages is wanted."""


@dataclass(slots=True)
class WantedTopic:
    """One topic of one consumer. Brokers are keys by name.

    Attributes:
        since_ms: when it was first subscribed to, by the wall clock of the client. Used only for brokers that do not
            answer with their time, and with files of an earlier version.
        begun_ms: the loop time then; None in a later process.
        since_at: the same moment by the wall clock of brokers.
        incarnations: broker name -> incarnation of the topic to which the offsets of its queues belong.
    """

    since_ms: int
    begun_ms: float | None = None
    since_at: dict[str, int] = field(default_factory=dict)
    incarnations: dict[str, TopicIncarnation] = field(default_factory=dict)

    def since(self, broker: str, clocks: Mapping[str, float]) -> int:
        """The moment of the subscription, by the wall clock of a broker in milliseconds.

        Args:
            broker: its name.
            clocks: name -> wall clock of each broker that has answered, less our loop time at that moment.
        """
        if broker in self.since_at:
            return self.since_at[broker]
        time_ms = self._derived(broker, clocks)
        if time_ms is not None:
            return time_ms
        # No clock is known by which it could be converted: the earliest, because to skip a message is worse.
        return min((wanted_ms for wanted_ms in self.since_at.values() if wanted_ms != ALL_OF_IT), default=self.since_ms)

    def record_clock(self, broker: str, clocks: Mapping[str, float]) -> bool:
        """Record the moment of the subscription at a broker that has answered; returns whether that is new."""
        time_ms = None if broker in self.since_at else self._derived(broker, clocks)
        if time_ms is None:
            return False
        self.since_at[broker] = time_ms
        return True

    def _derived(self, broker: str, clocks: Mapping[str, float]) -> int | None:
        clock_ms = clocks.get(broker)
        if clock_ms is None:
            return None
        if self.begun_ms is not None:
            return max(1, int(clock_ms + self.begun_ms))
        for other, wanted_ms in sorted(self.since_at.items()):
            if wanted_ms != ALL_OF_IT and other in clocks:
                return max(1, int(wanted_ms + clock_ms - clocks[other]))
        return None

    def record_incarnation(self, broker: str, incarnation: TopicIncarnation) -> bool:
        """Record the incarnation of the topic at a broker; returns whether that is new.

        With another incarnation than before, all messages there were sent after the subscription.
        """
        incarnation_before = self.incarnations.get(broker)
        if incarnation_before is not None and incarnation_before.surely_differs(incarnation):
            self.since_at[broker] = ALL_OF_IT
        elif incarnation_before is not None and incarnation_before.data_id >= incarnation.data_id:
            return False  # the same, or one without a data id, which says less
        self.incarnations[broker] = incarnation
        return True

    def is_other(self, broker: str, incarnation: TopicIncarnation | None) -> bool:
        """Whether offsets in a topic of this incarnation are invalid in the present topic."""
        own_incarnation = self.incarnations.get(broker)
        return own_incarnation is not None and incarnation is not None and own_incarnation.surely_differs(incarnation)
