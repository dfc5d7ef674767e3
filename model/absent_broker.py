"""AbsentBroker: a broker that is no longer registered although it did not unregister, and its queues. Pure.

Routes never name it, because no client can connect to it. Tools ask for it, because an answer about a cluster is wrong
or incomplete without the part that an absent broker keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.message_queue import MessageQueue
from model.topic_route import MASTER_ID, Perm, TopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentBroker:
    """A broker that was registered, and no longer is, although it did not unregister.

    Attributes:
        address: `host:port` of its last registration.
        away_s: seconds since it left, by the clock of the name server.
        reason: how the name server noticed that.
        topics: its topics with their queue counts; without those that were deleted since.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    away_s: float
    reason: str
    topics: tuple[TopicConfig, ...] = ()

    @property
    def is_master(self) -> bool:
        """Whether its queues cannot be reached without it; a replica has only copies."""
        return self.broker_id == MASTER_ID

    def topic(self, name: str) -> TopicConfig | None:
        """The topic of that name, or None."""
        return next((config for config in self.topics if config.topic == name), None)

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that could be read there."""
        config = self.topic(topic)
        if config is None or not self.is_master or not config.perm & Perm.READ:
            return []
        return [MessageQueue(topic, self.broker_name, queue_id) for queue_id in range(config.read_queue_nums)]

    @property
    def why(self) -> str:
        """As `str`, without the time: a page that receives only changes must not receive this text each second."""
        return f"broker {self.broker_name} at {self.address} {self.reason} without unregistering"

    def __str__(self) -> str:
        return f"broker {self.broker_name} at {self.address} {self.reason} {format_duration(self.away_s)} ago"

    def to_wire(self) -> list[Any]:
        """Flat form for a frame."""
        return [
            self.cluster,
            self.broker_name,
            self.broker_id,
            self.address,
            self.away_s,
            self.reason,
            [config.to_wire() for config in self.topics],
        ]

    @classmethod
    def from_wire(cls, wire: Any) -> AbsentBroker:
        """Read the flat form; a name server is trusted to send a well-formed one."""
        cluster, broker_name, broker_id, address, away_s, reason, topics, *_ = wire
        return cls(
            cluster=cluster,
            broker_name=broker_name,
            broker_id=broker_id,
            address=address,
            away_s=away_s,
            reason=reason,
            topics=tuple(TopicConfig.from_wire(config) for config in topics),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """The absent brokers that the name servers of a cluster can report.

    Attributes:
        brokers: sorted by name; a broker that is absent at one name server and registered with another is not listed.
        known_for_s: how long absent brokers have been remembered: since the start of the name server that runs longest.
            None if no name server can report absent brokers.
        unable: why a name server cannot report them, by its address.
    """

    brokers: tuple[AbsentBroker, ...]
    known_for_s: float | None
    unable: Mapping[str, str]

    @property
    def masters(self) -> dict[str, AbsentBroker]:
        """The brokers whose queues are away, by name."""
        return {broker.broker_name: broker for broker in self.brokers if broker.is_master}

    @property
    def limit(self) -> str:
        """The brokers that the list cannot have: those that left before a time, or all of them."""
        if self.known_for_s is None:
            reasons = "; ".join(f"{address}: {reason}" for address, reason in self.unable.items())
            return f"no name server can report brokers that are away ({reasons})"
        known_for = format_duration(self.known_for_s)
        return f"brokers that are away are known since the start of the name server, {known_for} ago"


NONE_ABSENT = Absence(brokers=(), known_for_s=float("inf"), unable={})


def format_duration(seconds: float) -> str:
    """A time for people: `12 s`, `3 min`, `5 h`."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
