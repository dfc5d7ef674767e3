"""Pops that found nothing and are held until something arrives or their time is over. Pure.

RocketMQ: PopLongPollingService, which wakes one request for each message. Here, too, the first that may have the
messages of a queue is asked, and the next only if it got some: a thousand idle consumers cost one look.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from broker.pop.request import PopRequest
from model.errors import PollingFull
from model.limits import MAX_HELD_PULLS, MAX_HELD_PULLS_PER_QUEUE
from remoting.command import Command
from remoting.wire.pop import ANY_QUEUE

Conn = TypeVar("Conn")


class Place(NamedTuple):
    """What a pop may be waiting for: messages of a queue, or of any queue of a topic, for a group."""

    topic: str
    group: str
    queue_id: int


class HeldPop(Generic[Conn]):
    """One pop that waits.

    Attributes:
        connection: what it came over; any key will do.
        request: as it came, to be answered.
        pop: the same, read.
        deadline: loop time in seconds at which it is answered PULL_NOT_FOUND.
    """

    __slots__ = ("connection", "deadline", "number", "pop", "request")

    def __init__(self, connection: Conn, request: Command, pop: PopRequest, deadline: float) -> None:
        self.connection = connection
        self.request = request
        self.pop = pop
        self.deadline = deadline
        self.number = 0

    def places(self) -> list[Place]:
        """What it waits for."""
        pop = self.pop
        found = [Place(pop.topic, pop.group, pop.queue_id)]
        if pop.retry_topic is not None:
            found.append(Place(pop.retry_topic, pop.group, ANY_QUEUE))
        return found


class PopWaiters(Generic[Conn]):
    """All held pops of one broker."""

    def __init__(self, max_held: int = MAX_HELD_PULLS, max_per_place: int = MAX_HELD_PULLS_PER_QUEUE) -> None:
        # A dict in the place of a list: whoever waits longest is first, and anybody can be taken out.
        self._at: dict[Place, dict[HeldPop[Conn], None]] = {}
        self._groups: dict[str, dict[str, int]] = {}
        self._of: dict[Conn, dict[HeldPop[Conn], None]] = {}
        self._deadlines: list[tuple[float, int, HeldPop[Conn]]] = []
        self._order = count(1)
        self._n = 0
        self._max_held = max_held
        self._max_per_place = max_per_place

    def __len__(self) -> int:
        return self._n

    def check_room(self, pop: PopRequest) -> None:
        """Check that one more can be held.

        Raises:
            PollingFull: too many are held, here or for the same messages.
        """
        here = len(self._at.get(Place(pop.topic, pop.group, pop.queue_id), ()))
        if self._n >= self._max_held or here >= self._max_per_place:
            raise PollingFull(
                f"{here} pops of group {pop.group!r} wait for {pop.topic!r}, and {self._n} on this broker: retry later"
            )

    def hold(self, held: HeldPop[Conn]) -> None:
        """Keep a pop; `check_room` comes first."""
        held.number = next(self._order)
        for place in held.places():
            self._at.setdefault(place, {})[held] = None
            groups = self._groups.setdefault(place.topic, {})
            groups[place.group] = groups.get(place.group, 0) + 1
        self._of.setdefault(held.connection, {})[held] = None
        self._n += 1
        heapq.heappush(self._deadlines, (held.deadline, held.number, held))

    def groups_of(self, topic: str) -> list[str]:
        """Groups that wait for messages of a topic, in the order in which they began to."""
        return list(self._groups.get(topic, ()))

    def waits(self, topic: str, group: str) -> bool:
        """Whether anybody of a group waits for messages of a topic."""
        return group in self._groups.get(topic, ())

    def first(self, topic: str, group: str, queue_id: int) -> HeldPop[Conn] | None:
        """Whoever has waited longest for the messages of a queue."""
        found = [
            next(iter(self._at[place]))
            for place in (Place(topic, group, queue_id), Place(topic, group, ANY_QUEUE))
            if place in self._at
        ]
        return min(found, key=lambda held: held.number, default=None)

    def take(self, held: HeldPop[Conn]) -> None:
        """Hold a pop no longer."""
        del self._of[held.connection][held]
        if not self._of[held.connection]:
            del self._of[held.connection]
        for place in held.places():
            del self._at[place][held]
            if not self._at[place]:
                del self._at[place]
            groups = self._groups[place.topic]
            groups[place.group] -= 1
            if not groups[place.group]:
                del groups[place.group]
                if not groups:
                    del self._groups[place.topic]
        self._n -= 1
        # Answered pops stay in the heap until they surface or are half of it: removing one would cost a search.
        if len(self._deadlines) > 2 * self._n + 64:
            self._deadlines = [entry for entry in self._deadlines if self._is_held(entry[2])]
            heapq.heapify(self._deadlines)

    def take_connection(self, connection: Conn) -> None:
        """Forget the pops of a connection that is gone."""
        for held in list(self._of.get(connection, ())):
            self.take(held)

    def take_member(self, connection: Conn, group: str, client_id: str) -> list[HeldPop[Conn]]:
        """Take the pops of a member that leaves its group."""
        mine = self._of.get(connection, ())
        found = [held for held in mine if held.pop.group == group and held.pop.client_id == client_id]
        for held in found:
            self.take(held)
        return found

    def take_topic(self, topic: str) -> list[HeldPop[Conn]]:
        """Take the pops of a topic that is deleted, those of all its queues."""
        found = [held for held in self._all() if held.pop.topic == topic]
        for held in found:
            self.take(held)
        return found

    def expire(self, now: float) -> list[HeldPop[Conn]]:
        """Take the pops whose time is over."""
        due: list[HeldPop[Conn]] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            held = heapq.heappop(self._deadlines)[2]
            if self._is_held(held):
                self.take(held)
                due.append(held)
        return due

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None."""
        while self._deadlines and not self._is_held(self._deadlines[0][2]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _all(self) -> Iterator[HeldPop[Conn]]:
        return (held for mine in self._of.values() for held in mine)

    def _is_held(self, held: HeldPop[Conn]) -> bool:
        return held in self._of.get(held.connection, ())
