"""Watches many consumers in this process for the moment at which each owns exactly its target.

It is fed by their events instead of asking them: to ask a hundred consumers repeatedly would distort the measured time.

    watch.expect({"c1": [q0], "c2": [q1]})          c1 owns q0 and q1: it must drop q1, c2 must acquire it
    watch.record(QUEUE_DROPPED of q1 by c1)         one change is left
    watch.record(QUEUE_ACQUIRED of q1 by c2)        converged
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import anyio

from model.counted import plural
from model.errors import ServerError
from model.events import Event, EventKind
from model.message_queue import MessageQueue

_Pair = tuple[str, MessageQueue]


class ConvergenceTimeout(ServerError):
    """A group did not converge in time."""


class ConvergenceWatch:
    """Compares owned queues with targets; `record` is the `event_sink` of each consumer."""

    def __init__(self) -> None:
        self._held: set[_Pair] = set()
        self._wrong: set[_Pair] = set()
        self._converged_at = 0.0
        self._converged = anyio.Event()

    def record(self, event: Event) -> None:
        """Take an event; an `EventSink`."""
        if event.kind in (EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED):
            pair = (event.client, MessageQueue(event.topic, event.broker, event.queue_id))
            # Both sets change by this pair: a queue gained was missing or is one too many, and likewise a queue lost.
            self._held ^= {pair}
            self._wrong ^= {pair}
            self._check()

    def expect(self, target: Mapping[str, Iterable[MessageQueue]]) -> None:
        """Set the target of every consumer by client id; a consumer without an entry should own nothing."""
        self._wrong = self._held ^ {(client_id, queue) for client_id, queues in target.items() for queue in queues}
        self._check()

    def _check(self) -> None:
        if not self._wrong:
            self._converged_at = time.perf_counter()
            self._converged.set()

    async def wait_converged(self, timeout_s: float) -> float:
        """Wait until every consumer owns exactly its target; returns `time.perf_counter()` at that moment.

        One caller at a time.

        Raises:
            ConvergenceTimeout: it took longer than `timeout_s`.
        """
        with anyio.move_on_after(timeout_s):
            while self._wrong:
                self._converged = anyio.Event()
                await self._converged.wait()
        if self._wrong:
            raise ConvergenceTimeout(
                f"after {timeout_s:g} s {plural(len(self._wrong), 'queue', 'is', 'are')} not with their target owner: "
                "is this machine busy?"
            )
        return self._converged_at
