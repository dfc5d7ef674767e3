"""Watches the tables of many consumers in this process, and knows at once when all of them are as they should be.

It looks at events and not at the consumers: asking a hundred of them again and again would cost the time that is
measured.

    watch.expect({"c1": [q0], "c2": [q1]})          c1 has q0 and q1: one to give up, one to acquire
    note(QUEUE_DROPPED c1 q1)                       one is left
    note(QUEUE_ACQUIRED c2 q1)                      balanced
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import anyio

from model.errors import ServerError
from model.events import Event, EventKind
from model.message_queue import MessageQueue

_Pair = tuple[str, MessageQueue]


class NotConverged(ServerError):
    """A group did not reach its target in time."""


class ConvergenceWatch:
    """Compares what consumers own with what they should own; `note` is the `event_sink` of each of them."""

    def __init__(self) -> None:
        self._held: set[_Pair] = set()
        self._wrong: set[_Pair] = set()
        self._right_since = 0.0
        self._put_right = anyio.Event()

    def note(self, event: Event) -> None:
        """Take an event; an `EventSink`."""
        if event.kind in (EventKind.QUEUE_ACQUIRED, EventKind.QUEUE_DROPPED):
            pair = (event.client, MessageQueue(event.topic, event.broker, event.queue_id))
            # Both sets change by this one pair: what is gained was missing or is one too many, and the same for lost.
            self._held ^= {pair}
            self._wrong ^= {pair}
            self._look()

    def expect(self, target: Mapping[str, Iterable[MessageQueue]]) -> None:
        """Set what every consumer should own, by client id; who is not in it should own nothing."""
        self._wrong = self._held ^ {(client_id, queue) for client_id, queues in target.items() for queue in queues}
        self._look()

    def _look(self) -> None:
        if not self._wrong:
            self._right_since = time.perf_counter()
            self._put_right.set()

    async def wait_converged(self, timeout_s: float) -> float:
        """Wait until everybody owns what was last expected. One caller at a time.

        Returns:
            `time.perf_counter()` at the moment when it was so.

        Raises:
            NotConverged: it took longer.

        Cancellation: harmless.
        """
        with anyio.move_on_after(timeout_s):
            while self._wrong:
                self._put_right = anyio.Event()
                await self._put_right.wait()
        if self._wrong:
            raise NotConverged(
                f"after {timeout_s:g} s {len(self._wrong)} queues are not where they should be: is this machine busy?"
            )
        return self._right_since
