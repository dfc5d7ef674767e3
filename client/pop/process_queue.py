"""PopProcessQueue: popped messages of one queue, until they are acknowledged or returned to the broker. Pure.

    put 5 6 7           waiting here, invisible to all other consumers
    next_batch -> 5     dispatched to a listener
    due(now) -> 5 6 7   two thirds of the invisible time have passed: it must be extended, also of waiting messages
    end(5)              removed, to be acknowledged, or to stay invisible until its retry

If the invisible time cannot be extended in time, the handle dies and another consumer may get the message. `lost`
removes it: it is no longer dispatched, and a later result of its listener is ignored. While a request that changes
the handle is outstanding the message is `busy`: the next step waits for the answer, which holds the only valid handle.

In order, one batch is with a listener at a time, and a failed message is retried here: its invisible time is extended
again and again, and all messages behind it wait.

All times are loop times in seconds. RocketMQ: PopProcessQueue, which only counts messages without an acknowledgement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from client.pop.message import PopMessage, make_popped
from model.limits import PULL_RETRY_ERROR_S
from model.message import MessageExt
from model.message_queue import MessageQueue

RENEW_AT = 2 / 3
"""The part of the invisible time after which it is extended."""


@dataclass(slots=True, eq=False)
class PoppedRecord:
    """One message that was popped."""

    message: PopMessage  # with the token of the valid handle
    expires_at: float  # end of its invisible time
    renew_at: float  # when to extend it
    left: Callable[[], object]  # called when it is removed, for any reason
    dispatched: bool = False
    busy: bool = False  # whether a request that changes its handle is outstanding
    then: Callable[[], object] | None = None  # the next step, after the answer of that request


class PopProcessQueue:
    """See the module header; `in_flight` counts dispatched messages; `offered` is true while it waits for a worker."""

    def __init__(self, queue: MessageQueue, *, in_order: bool) -> None:
        self.queue = queue
        self.offered = False
        self.in_flight = 0
        self._in_order = in_order
        self._held: dict[int, PoppedRecord] = {}
        self._waiting: deque[PoppedRecord] = deque()  # removed messages are skipped
        self._not_before: float | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def process_queue(self) -> PopProcessQueue:
        """Itself; see `Dispatchable`."""
        return self

    def lease_valid(self, now: float) -> bool:
        """Whether messages may be dispatched: always, because there is no lease."""
        return True

    # --- messages ----------------------------------------------------------------------------------------------------

    def put(
        self, messages: Iterable[PopMessage], now: float, invisible_s: float, on_left: Callable[[], object]
    ) -> None:
        """Add the messages of a pop, in offset order; `on_left` is called for each when it is removed.

        `now` is when the request was sent: the invisible time began then or later. A message that is here already was
        redelivered, so its older handle is dead.
        """
        for message in messages:
            older = self._held.get(message.offset)
            if older is not None:
                self._remove(older)
            popped = PoppedRecord(message, now + invisible_s, now + invisible_s * RENEW_AT, on_left)
            self._held[message.offset] = popped
            self._waiting.append(popped)

    def ready(self, now: float) -> bool:
        """Whether `next_batch` would return a message, unless its invisible time has ended."""
        if self._in_order and (self.in_flight or (self._not_before is not None and now < self._not_before)):
            return False
        return bool(self._waiting)

    def next_batch(self, max_messages: int, now: float) -> list[MessageExt]:
        """Messages to dispatch, in offset order; expired ones are removed, because another consumer may have them."""
        batch: list[MessageExt] = []
        if not self.ready(now):
            return batch
        self._not_before = None
        while self._waiting and len(batch) < max_messages:
            popped = self._waiting.popleft()
            if self._held.get(popped.message.offset) is not popped:
                continue
            if now >= popped.expires_at:
                self._remove(popped)
                continue
            popped.dispatched = True
            self.in_flight += 1
            batch.append(popped.message)
        return batch

    def next_retry_deadline(self) -> float | None:
        """The time at which failed messages may be dispatched again; in order only."""
        return self._not_before if self._waiting else None

    def end(self, messages: Sequence[MessageExt]) -> list[PoppedRecord]:
        """Remove processed messages, and return those whose handle is still valid."""
        ended_records = []
        for message in messages:
            popped = self._held.get(message.offset)
            if popped is not None and popped.message is message:
                self._remove(popped)
                ended_records.append(popped)
        return ended_records

    def requeue(self, messages: Sequence[MessageExt], not_before: float) -> None:
        """Put failed messages back in front of all others, to be retried here; in order only."""
        for message in reversed(messages):
            popped = self._held.get(message.offset)
            if popped is not None and popped.message is message:
                self.in_flight -= popped.dispatched
                popped.dispatched = False
                # A copy, because the listener may still hold the old object.
                old_message = popped.message
                popped.message = make_popped(
                    old_message, old_message.times_delivered + 1, old_message.token, old_message.visible_ms
                )
                self._waiting.appendleft(popped)
        self._not_before = not_before

    def remove_all(self, *, dispatched: bool) -> list[PoppedRecord]:
        """Remove all messages, those that listeners have only with `dispatched`; return them."""
        removed = [popped for popped in self._held.values() if dispatched or not popped.dispatched]
        for popped in removed:
            self._remove(popped)
        self._waiting.clear()
        return removed

    def _remove(self, popped: PoppedRecord) -> None:
        del self._held[popped.message.offset]
        self.in_flight -= popped.dispatched
        popped.left()

    # --- invisible time ----------------------------------------------------------------------------------------------

    def due(self, now: float) -> list[PoppedRecord]:
        """The messages to extend now; they are busy until `apply_renewal` or `retry_renewal` is called."""
        due = [popped for popped in self._held.values() if popped.renew_at <= now and not popped.busy]
        for popped in due:
            popped.busy = True
        return due

    def next_deadline(self) -> float | None:
        """The time at which `due` will return a message; None if it will not."""
        return min((popped.renew_at for popped in self._held.values() if not popped.busy), default=None)

    def lost(self, popped: PoppedRecord) -> bool:
        """Remove a message whose handle is dead; returns whether it was here."""
        if self._held.get(popped.message.offset) is not popped:
            return False
        self._remove(popped)
        return True


def apply_renewal(popped: PoppedRecord, token: int, visible_ms: int, now: float, invisible_s: float) -> None:
    """Take over the new handle of a message; `now` is when the request was sent, before the new time began."""
    popped.message.renewed(token, visible_ms)
    popped.expires_at, popped.renew_at = now + invisible_s, now + invisible_s * RENEW_AT
    popped.busy = False


def retry_renewal(popped: PoppedRecord, now: float) -> None:
    """Try again soon, because the request failed."""
    popped.renew_at = now + PULL_RETRY_ERROR_S
    popped.busy = False
