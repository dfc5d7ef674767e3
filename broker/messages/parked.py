"""Parked requests: pulls and pops that found nothing, held until a message arrives or their time expires. Pure.

RocketMQ: PullRequestHoldService, which looks at all held pulls every 5 s, and PopLongPollingService, which wakes one
pop for each message. Here a request is checked exactly when something happens at a *place* where it waits, when its
own time ends, or when its connection closes. A place is a topic and a key: for a pull its queue, for a pop its group
and its queue. A pull waits at one place; a pop that also wants the retry topic of its group waits at two:

    park(pull of orders:0)                     at orders/0
    park(pop of orders by group billing)       at orders/(billing, any), %RETRY%billing/(billing, any)
    remove_place("orders", 0)                  a message arrived: the pull runs again, and may be parked again
    first("orders", (billing, any))            the pop that has waited longest; it is removed only once it gets
                                               messages, so a thousand idle consumers cost one look-up
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count
from typing import Any, Generic, TypeVar

from model.counted import plural
from model.limits import MAX_PARKED_REQUESTS, MAX_PARKED_REQUESTS_PER_QUEUE, SHARE_OF_ONE
from remoting.command import Command
from remoting.overload.shares import NO_SHARER, ShareBook, Sharer

Conn = TypeVar("Conn")

Place = tuple[str, Any]
"""(topic, key); a key is hashable."""


class ParkedRequest(Generic[Conn]):
    """One request that waits."""

    __slots__ = ("connection", "deadline", "number", "places", "request", "sharer")

    def __init__(
        self,
        connection: Conn,
        request: Command,
        places: tuple[Place, ...],
        deadline: float,
        sharer: Sharer = NO_SHARER,
    ) -> None:
        self.connection = connection  # any hashable value
        self.request = request
        self.places = places  # where it waits, one or several
        self.deadline = deadline  # loop time in seconds at which it is answered without a message
        self.number = 0  # ascending in the order of parking
        self.sharer = sharer


One = TypeVar("One", bound="ParkedRequest[Any]")


class ParkedRequests(Generic[One]):
    """The parked pulls, or the parked pops, of one broker."""

    def __init__(
        self,
        max_parked: int = MAX_PARKED_REQUESTS,
        max_per_place: int = MAX_PARKED_REQUESTS_PER_QUEUE,
        shares: ShareBook | None = None,
        requests_name: str = "parked pulls",
    ) -> None:
        # Dicts instead of lists: the request that has waited longest is first, and any can be removed.
        self._at: dict[str, dict[Any, dict[One, None]]] = {}
        self._of: dict[object, dict[One, None]] = {}
        # Answered requests stay in the heap until they are at its top or are half of it: a removal costs a search.
        self._deadlines: list[tuple[float, int, One]] = []
        self._order = count(1)
        self._n = 0
        self._max_parked = max_parked
        self._max_per_place = max_per_place
        self._shares = (shares or ShareBook()).of(requests_name, max_parked, "wait for those that are held")
        self._share_of_place = max(1, max_per_place // SHARE_OF_ONE)
        self._of_sharer_at: dict[tuple[Place, int], int] = {}  # first place, sharer -> number of requests there

    def __len__(self) -> int:
        return self._n

    def full_at(self, topic: str, key: Any, sharer: Sharer = NO_SHARER) -> str:
        """Why no more can be parked at a place, by anyone or by this sharer; empty if one more can."""
        n_at_key = len(self._at.get(topic, {}).get(key, ()))
        if self._n >= self._max_parked or n_at_key >= self._max_per_place:
            held_text = plural(n_at_key, "request", "is", "are")
            return f"{held_text} held at this queue and {self._n} on this broker: retry later"
        if not sharer.number:
            return ""
        of_one = self._of_sharer_at.get(((topic, key), sharer.number), 0)
        if of_one >= self._share_of_place:
            return self._shares.refuse(sharer, of_one, self._max_per_place)
        if (n_of_sharer := self._shares.of(sharer.number)) >= self._shares.share:
            return self._shares.refuse(sharer, n_of_sharer, self._max_parked)
        return ""

    def park(self, request: One) -> None:
        """Keep a request; the caller has checked `full_at` for its first place."""
        request.number = next(self._order)
        for topic, key in request.places:
            self._at.setdefault(topic, {}).setdefault(key, {})[request] = None
        self._of.setdefault(request.connection, {})[request] = None
        self._n += 1
        if request.sharer.number:
            self._count(request, 1)
        heapq.heappush(self._deadlines, (request.deadline, request.number, request))

    def _count(self, request: One, n: int) -> None:
        sharer_at_place = (request.places[0], request.sharer.number)
        self._shares.add(request.sharer.number, n)
        n_left = self._of_sharer_at.get(sharer_at_place, 0) + n
        if n_left:
            self._of_sharer_at[sharer_at_place] = n_left
        else:
            del self._of_sharer_at[sharer_at_place]

    # --- look-ups ----------------------------------------------------------------------------------------------------

    def keys(self, topic: str) -> Iterable[Any]:
        """The keys of a topic at which a request waits."""
        return self._at.get(topic, ())

    def first(self, topic: str, *keys: Any) -> One | None:
        """The request that has waited longest at any of these places."""
        by_key = self._at.get(topic)
        if by_key is None:
            return None
        return min((next(iter(by_key[key])) for key in keys if key in by_key), key=_number, default=None)

    def of_topic(self, topic: str) -> list[One]:
        """The requests at all places of a topic, oldest first."""
        requests = dict.fromkeys(request for at_key in self._at.get(topic, {}).values() for request in at_key)
        return sorted(requests, key=_number)

    def all(self) -> list[One]:
        """All requests, oldest first; a walk over everything, for rare events only."""
        return sorted((request for of_connection in self._of.values() for request in of_connection), key=_number)

    def of_connection(self, connection: object) -> list[One]:
        """The requests that came over a connection, oldest first."""
        return list(self._of.get(connection, ()))

    # --- removals ----------------------------------------------------------------------------------------------------

    def remove_requests(self, requests: Iterable[One]) -> None:
        """Remove these requests, which the caller has or answers."""
        for request in requests:
            for topic, key in request.places:
                by_key = self._at[topic]
                at_key = by_key[key]
                del at_key[request]
                if not at_key:
                    del by_key[key]
                    if not by_key:
                        del self._at[topic]
            of_connection = self._of[request.connection]
            del of_connection[request]
            if not of_connection:
                del self._of[request.connection]
            self._n -= 1
            if request.sharer.number:
                self._count(request, -1)
        if len(self._deadlines) > 2 * self._n + 64:
            self._deadlines = [entry for entry in self._deadlines if self._is_parked(entry[2])]
            heapq.heapify(self._deadlines)

    def remove_place(self, topic: str, key: Any) -> list[One]:
        """Remove and return the requests at a place, oldest first."""
        by_key = self._at.get(topic)
        if by_key is None or key not in by_key:
            return []
        requests = list(by_key[key])
        self.remove_requests(requests)
        return requests

    def remove_connection(self, connection: object) -> None:
        """Remove the requests of a closed connection."""
        self.remove_requests(self.of_connection(connection))

    def expire(self, now: float) -> list[One]:
        """Remove and return the requests whose time has expired."""
        due: list[One] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            request = heapq.heappop(self._deadlines)[2]
            if self._is_parked(request):
                due.append(request)
        self.remove_requests(due)
        return due

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None."""
        while self._deadlines and not self._is_parked(self._deadlines[0][2]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _is_parked(self, request: One) -> bool:
        return request in self._of.get(request.connection, ())


def _number(request: ParkedRequest[Any]) -> int:
    return request.number
