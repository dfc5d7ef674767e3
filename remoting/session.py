"""The outstanding requests of one connection: opaque numbers, deadlines, and their maximum number. Pure.

The connection keeps something per request (a future) and calls three methods: `start` before it sends, `finish` when a
response arrives, `expire` when `next_deadline` has come. Deadlines cost nothing per request: `next_deadline` is a lower
bound that only `expire` recomputes, over the requests outstanding at that moment. If all requests have one timeout,
that is one recomputation per timeout; a heap would cost something for every request and keep finished ones until they
are due.

    session.start(deadline=3.0, call=a) -> 1
    session.start(deadline=9.0, call=b) -> 2       next_deadline() == 3.0
    session.finish(1) -> a                         next_deadline() == 3.0 still: a bound, not the truth
    session.expire(3.0) -> []                      next_deadline() == 9.0
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from model.counted import plural
from model.errors import FlowControl
from model.limits import MAX_IN_FLIGHT_REQUESTS
from remoting.command import Command

Call = TypeVar("Call")


class Waiter(Protocol):
    """The receiver of an answer: a future, or an object that passes it on."""

    def done(self) -> bool:
        """Whether the answer is no longer wanted."""
        ...

    def set_result(self, result: Command, /) -> None:
        """Receive the response, whatever its code."""
        ...

    def set_exception(self, exception: Exception, /) -> None:
        """Receive the failure instead of a response."""
        ...


class RequestSession(Generic[Call]):
    """The outstanding requests of one connection."""

    __slots__ = ("_calls", "_earliest", "_max_in_flight", "_opaque")

    def __init__(self, max_in_flight: int = MAX_IN_FLIGHT_REQUESTS) -> None:
        self._calls: dict[int, tuple[float, Call]] = {}
        self._max_in_flight = max_in_flight
        self._opaque = 0
        self._earliest = float("inf")

    def __len__(self) -> int:
        return len(self._calls)

    def start(self, deadline: float, call: Call) -> int:
        """Record a request that is about to be sent and that fails at a loop time; return the opaque to send with it.

        Raises:
            FlowControl: too many requests are outstanding; nothing was recorded.
        """
        calls = self._calls
        if len(calls) >= self._max_in_flight:
            raise FlowControl(
                f"{plural(len(calls), 'request', 'is', 'are')} unanswered on this connection: wait for some"
            )
        # 64 bits on the wire: at a million requests a second, numbers repeat after half a million years.
        opaque = self._opaque = self._opaque + 1
        calls[opaque] = (deadline, call)
        if deadline < self._earliest:  # noqa: PLR1730 - min() costs as much as the rest of this method
            self._earliest = deadline
        return opaque

    def finish(self, opaque: int) -> Call | None:
        """Remove and return the request that a response answers; None if it is unknown: expired, or never sent."""
        entry = self._calls.pop(opaque, None)
        return None if entry is None else entry[1]

    def expire(self, now: float) -> list[Call]:
        """Remove and return every request whose deadline has passed, oldest first."""
        due = [opaque for opaque, (deadline, _) in self._calls.items() if deadline <= now]
        expired = [self._calls.pop(opaque)[1] for opaque in due]
        self._earliest = min((deadline for deadline, _ in self._calls.values()), default=float("inf"))
        return expired

    def next_deadline(self) -> float | None:
        """When to call `expire` next: never later than the earliest deadline; None if no request is outstanding."""
        return None if self._earliest == float("inf") else self._earliest

    def close(self) -> list[Call]:
        """Remove and return every request, because the connection is gone."""
        calls = [call for _, call in self._calls.values()]
        self._calls.clear()
        self._earliest = float("inf")
        return calls
