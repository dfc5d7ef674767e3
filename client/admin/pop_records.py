"""What `Admin` returns about messages that a group has popped and not ended; read from the answers of brokers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.message_queue import MessageQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class PoppedQueue:
    """A queue of which a group has popped messages that are not ended; see GET_POP_STATS.

    Attributes:
        first_unended: offset of the lowest of them.
        next_offset: first offset that was never delivered.
        in_flight: messages that are invisible, with a member.
        to_come_again: messages whose time is over, or that were given back, and that wait for the next pop.
        oldest_ms: for how long the oldest of those in flight has been; None if none is.
        next_visible_ms: in how many milliseconds the next of them comes again if nobody ends it; None if none is.
        most_attempts: deliveries of the one that was delivered most often.
        handing_over: whether no more is popped, because members want to pull the queue.
        in_flight_of: client id -> how many it has; also of members that are gone, until their time is over.
    """

    queue: MessageQueue
    first_unended: int
    next_offset: int
    in_flight: int
    to_come_again: int
    oldest_ms: float | None
    next_visible_ms: float | None
    most_attempts: int
    handing_over: bool
    in_flight_of: Mapping[str, int]

    @classmethod
    def from_wire(cls, broker_name: str, wire: Any) -> PoppedQueue:
        """Read one row of the answer to GET_POP_STATS."""
        topic, queue_id, floor, next_offset, in_flight, again, oldest_ms, next_ms, attempts, draining, by_client = wire
        return cls(
            queue=MessageQueue(topic, broker_name, queue_id),
            first_unended=floor,
            next_offset=next_offset,
            in_flight=in_flight,
            to_come_again=again,
            oldest_ms=oldest_ms if in_flight else None,
            next_visible_ms=next_ms if in_flight else None,
            most_attempts=attempts,
            handing_over=draining,
            in_flight_of={client_id: count for client_id, count in sorted(by_client)},
        )
