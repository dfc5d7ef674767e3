"""PopWindow: the messages of one queue that a group has popped and not acknowledged. Pure.

RocketMQ: PopBufferMergeService. A pop makes messages invisible for a time. Each delivery has a *delivery token*, a
random number of 64 bits that together with the offset is the receipt handle: it cannot be guessed, and it is dead as
soon as the message is acknowledged or redelivered, or its invisible time is changed. A message that is not acknowledged
in time is redelivered from the same queue. RocketMQ copies it to a retry topic instead, 2 to 3 s late, and its users
then debug a second queue that is out of order.

    offset      5    6    7    8    9   10
                |    |    |    |    |    |
           committed           |       next_offset
               invisible (5, 9), acknowledged (6, 7), due for redelivery (8)

    below `committed`           all acknowledged: the group's committed offset
    [committed, next_offset)    the window: a token for each message, 0 once it is acknowledged
    from next_offset on         never delivered

A message in the window costs ten bytes in two arrays, and an invisible batch an object: a million invisible messages
are a few dozen megabytes. The window is bounded: after a message that is never acknowledged, only MAX_POP_WINDOW others
are delivered.

Times are loop times in seconds.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

from model.limits import MAX_POP_WINDOW
from remoting.wire.pop import MAX_TOKEN

MAX_ATTEMPTS_COUNTED = 0xFFFF
_STRETCH = 64
"""Messages at a time that are compared to find the committed offset."""


def compact_offsets(offsets: Sequence[int]) -> Sequence[int]:
    """Ascending offsets, as a range if they are consecutive: it takes a tenth of the memory."""
    if len(offsets) > 1 and offsets[-1] - offsets[0] == len(offsets) - 1:
        return range(offsets[0], offsets[-1] + 1)
    return offsets


@dataclass(slots=True)
class PopBatch:
    """Messages that were delivered together under one token."""

    client_id: str
    since: float  # when they were delivered
    visible_at: float
    offsets: Sequence[int]  # ascending; some may be acknowledged, or extended under another token
    left: int  # how many of them are neither acknowledged nor extended
    renew_s: float = 0.0  # the time by which it is extended again and again while its client is connected; 0 for never


class BatchRow(NamedTuple):
    """A batch without its offsets, as it is stored."""

    token: int
    client_id: str
    since: float
    visible_at: float
    renew_s: float = 0.0


RenewUntil = Callable[[int, PopBatch], float | None]
"""Called with the token and batch of an invisible time that ends: the new end, or None to let it end."""


class DueMessages(NamedTuple):
    """Messages due for redelivery: ascending offsets, and how often each was delivered before."""

    offsets: list[int]
    attempts: list[int]


class PopWindow:
    """The window of one queue of one group.

    Protocol: `due` and `next_offset` say which messages may be delivered; the caller reads them, and calls `deliver`
    with those that exist. `ack`, `extend` and `expire` change which are invisible; `next_deadline` says when to call
    `expire`.
    """

    def __init__(self, committed: int) -> None:
        self.committed = committed  # the smallest offset that is not acknowledged: the group's committed offset
        self.next_offset = committed  # the first offset that was never delivered
        self.batches: dict[int, PopBatch] = {}  # token -> batch with invisible messages
        self._base = committed
        self._tokens = array("Q")
        self._attempts = array("H")
        # Heap of (visible at, token); an entry whose batch is gone or says otherwise is stale.
        self._deadlines: list[tuple[float, int]] = []
        self._due: list[
            int
        ] = []  # heap of offsets whose invisible time has expired; those acknowledged since are skipped
        self._due_set: set[int] = set()

    # --- looking -----------------------------------------------------------------------------------------------------

    @property
    def invisible(self) -> int:
        """Messages that are invisible now."""
        return sum(batch.left for batch in self.batches.values())

    @property
    def attempts_max(self) -> int:
        """Most deliveries of one unacknowledged message."""
        return max(compress(self._attempts, self._tokens), default=0)

    @property
    def due_count(self) -> int:
        """Messages that wait for their redelivery."""
        return len(self._due_set)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was ever delivered is acknowledged."""
        return self.committed == self.next_offset

    @property
    def room(self) -> int:
        """How many new messages may be delivered before the window is full."""
        return MAX_POP_WINDOW - (self.next_offset - self.committed)

    def attempts_of(self, offset: int) -> int:
        """How often a message of the window was delivered."""
        return self._attempts[offset - self._base]

    def due(self, max_n: int) -> DueMessages:
        """The first messages due for redelivery, at most `max_n`; they stay due until `deliver` or `ack`."""
        offsets: list[int] = []
        while self._due and len(offsets) < max_n:
            offset = heapq.heappop(self._due)
            # An offset may be there twice: due, delivered, and due again.
            if offset in self._due_set and offsets[-1:] != [offset]:
                offsets.append(offset)
        for offset in offsets:
            heapq.heappush(self._due, offset)
        return DueMessages(offsets, [self.attempts_of(offset) for offset in offsets])

    # --- delivering --------------------------------------------------------------------------------------------------

    def deliver(
        self, offsets: Sequence[int], *, upto: int, token: int, client_id: str, now: float, visible_at: float
    ) -> list[int]:
        """Record a delivery to a client; returns how often each message has been delivered now.

        The offsets are ascending: due ones, and new ones from `next_offset` on; a range is kept as it is and takes less
        memory. `upto` is the new `next_offset`: new messages below it that are not delivered count as acknowledged,
        because a filter does not match them or they no longer exist. No other batch may have the token, which is not 0.
        """
        assert token not in self.batches, "a token must be of one batch only"
        first, grown = self.next_offset, upto - self.next_offset
        if offsets:
            self.batches[token] = PopBatch(client_id, now, visible_at, offsets, len(offsets))
            heapq.heappush(self._deadlines, (visible_at, token))
        if grown == len(offsets) and grown and offsets[0] == first:
            # New messages only, and all of them: nearly every pop. Two arrays grow, and no message is looked at.
            self._tokens.extend(array("Q", (token,)) * grown)
            self._attempts.extend(array("H", (1,)) * grown)
            self.next_offset = upto
            return [1] * grown
        if grown > 0:
            self._tokens.frombytes(bytes(8 * grown))
            self._attempts.frombytes(bytes(2 * grown))
            self.next_offset = upto
        tokens, attempts, base = self._tokens, self._attempts, self._base
        counts: list[int] = []
        for offset in offsets:
            index = offset - base
            tokens[index] = token
            count = attempts[index] = min(attempts[index] + 1, MAX_ATTEMPTS_COUNTED)
            counts.append(count)
        if self._due_set:
            self._due_set.difference_update(offsets)
        self._move_committed()
        return counts

    def ack(self, token: int, offsets: Sequence[int]) -> list[int]:
        """Acknowledge messages of the delivery with a token; returns those that are acknowledged now.

        The handles of the others were dead: the message was acknowledged, redelivered or extended before.
        """
        if not 0 < token <= MAX_TOKEN:
            return []
        ended_offsets = self._end(token, offsets)
        self._leave_batch(token, len(ended_offsets))
        if self._due_set:
            self._due_set.difference_update(ended_offsets)
        self._move_committed()
        return ended_offsets

    def _end(self, token: int, offsets: Sequence[int]) -> list[int]:
        tokens, base, committed, end = self._tokens, self._base, self.committed, self.next_offset
        if offsets:
            n, first = len(offsets), offsets[0] - base
            run, last = tuple(range(offsets[0], offsets[0] + n)), first + n
            # Consecutive messages, all of this delivery: a consumer that acknowledges a whole batch.
            if offsets[0] >= committed and tuple(offsets) == run and tokens[first:last] == array("Q", (token,)) * n:
                tokens[first:last] = array("Q", bytes(8 * n))
                return list(run)
        ended_offsets = []
        for offset in offsets:
            if committed <= offset < end and tokens[offset - base] == token:
                tokens[offset - base] = 0
                ended_offsets.append(offset)
        return ended_offsets

    def skip(self, offsets: Iterable[int]) -> None:
        """Acknowledge messages without a handle: they were sent to the DLQ, or no longer exist."""
        for offset in offsets:
            if self.committed <= offset < self.next_offset:
                token = self._tokens[offset - self._base]
                if token:
                    self.ack(token, [offset])

    def undo_delivery(self, token: int, visible_at: float) -> None:
        """Undo a delivery that did not reach its client: the rest of the batch is visible from another time on.

        It does not count as an attempt: on a disk that is full for an hour, messages would be sent to the DLQ that no
        consumer has ever received. Does nothing if the batch is not invisible.
        """
        batch = self.batches.get(token)
        if batch is not None:
            for offset in batch.offsets:
                index = offset - self._base
                if offset >= self.committed and self._tokens[index] == token and self._attempts[index]:
                    self._attempts[index] -= 1
            self.renew(token, visible_at, 0.0)

    def give_back(self, token: int, offsets: Iterable[int]) -> list[int]:
        """Make messages due that no consumer has seen; returns those whose handles were good.

        The delivery does not count as an attempt. Their handles stay good until the redelivery.
        """
        returned = []
        for offset in offsets:
            if self.holds(token, offset) and offset not in self._due_set:
                self._attempts[offset - self._base] -= 1
                self._due_set.add(offset)
                heapq.heappush(self._due, offset)
                returned.append(offset)
        self._leave_batch(token, len(returned))
        return returned

    def holds(self, token: int, offset: int) -> bool:
        """Whether the handle of a message is good."""
        return (
            bool(token) and self.committed <= offset < self.next_offset and self._tokens[offset - self._base] == token
        )

    def renew(self, token: int, visible_at: float, renew_s: float) -> None:
        """Change the end of a batch's invisible time under its token: its handles stay as they are.

        `renew_s` is kept with the batch. Does nothing if the batch is not invisible.
        """
        batch = self.batches.get(token)
        if batch is not None:
            batch.visible_at, batch.renew_s = visible_at, renew_s
            heapq.heappush(self._deadlines, (visible_at, token))
            self._drop_stale_deadlines()

    def extend(self, token: int, offset: int, *, new_token: int, now: float, visible_at: float) -> bool:
        """Change the end of a message's invisible time, and its token; returns whether the old handle was good.

        That one is dead then. Several messages of one batch may get the same new token if their time ends together:
        they are one batch again, which takes a tenth of the memory of one for each.
        """
        index = offset - self._base
        if not self.holds(token, offset):
            return False
        batch = self.batches.get(token)
        client_id, since = (batch.client_id, batch.since) if batch is not None else ("", now)
        self._leave_batch(token, 1)
        self._due_set.discard(offset)
        self._tokens[index] = new_token
        together = self.batches.get(new_token)
        if together is None:
            self.batches[new_token] = PopBatch(client_id, since, visible_at, [offset], 1)
            heapq.heappush(self._deadlines, (visible_at, new_token))
        else:
            assert together.visible_at == visible_at, "the invisible times of one batch end together"
            together.offsets = [*together.offsets, offset]
            together.left += 1
        return True

    def expire(self, now: float, max_n: int | None = None, renew_until: RenewUntil | None = None) -> int:
        """Make messages due whose invisible time has expired, about `max_n` of them in one call; returns how many.

        Batches that are to be extended while their client is connected become due unless `renew_until` has a later end.

        Their handles stay good until the redelivery: a consumer that is late by a moment has processed the message all
        the same.
        """
        became_due = 0
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            if max_n is not None and became_due >= max_n:
                break
            token = heapq.heappop(self._deadlines)[1]
            batch = self.batches[token]
            until = renew_until(token, batch) if batch.renew_s and renew_until is not None else None
            if until is not None and until > now:
                self.renew(token, until, batch.renew_s)
                continue
            del self.batches[token]
            for offset in batch.offsets:
                if offset >= self.committed and self._tokens[offset - self._base] == token:
                    self._due_set.add(offset)
                    heapq.heappush(self._due, offset)
                    became_due += 1
        return became_due

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None."""
        deadlines = self._deadlines
        while deadlines:
            visible_at, token = deadlines[0]
            batch = self.batches.get(token)
            if batch is not None and batch.visible_at == visible_at:
                return visible_at
            heapq.heappop(deadlines)
        return None

    # --- storing -----------------------------------------------------------------------------------------------------

    def batch_rows(self) -> list[BatchRow]:
        """The invisible batches, to be stored."""
        return [
            BatchRow(token, batch.client_id, batch.since, batch.visible_at, batch.renew_s)
            for token, batch in self.batches.items()
        ]

    def columns(self) -> tuple[int, bytes, bytes]:
        """(committed, tokens, attempts) of the window, to be stored; numbers in the machine's own byte order."""
        first = self.committed - self._base
        return self.committed, self._tokens[first:].tobytes(), self._attempts[first:].tobytes()

    @classmethod
    def restored(cls, committed: int, tokens: bytes, attempts: bytes, batches: Iterable[BatchRow]) -> PopWindow:
        """Return the window that `columns` was called of.

        Of the messages that are not acknowledged, those in `batches` are invisible, and the others are due.
        """
        window = cls(committed)
        window._tokens.frombytes(tokens)
        window._attempts.frombytes(attempts)
        window.next_offset = committed + len(window._tokens)
        offsets: dict[int, list[int]] = {}
        for offset, token in enumerate(window._tokens, committed):
            if token:
                offsets.setdefault(token, []).append(offset)
        for token, client_id, since, visible_at, renew_s in batches:
            batch_offsets = offsets.pop(token, None)
            if batch_offsets is not None:
                window.batches[token] = PopBatch(
                    client_id, since, visible_at, compact_offsets(batch_offsets), len(batch_offsets), renew_s
                )
                heapq.heappush(window._deadlines, (visible_at, token))
        for due in offsets.values():
            window._due_set.update(due)
        window._due = sorted(window._due_set)
        return window

    # --- inside ------------------------------------------------------------------------------------------------------

    def _leave_batch(self, token: int, n: int) -> None:
        batch = self.batches.get(token)
        if batch is not None:
            batch.left -= n
            if batch.left == 0:
                del self.batches[token]
                self._drop_stale_deadlines()

    def _drop_stale_deadlines(self) -> None:
        # A consumer that acknowledges at once leaves an entry behind for as long as the message would have been
        # invisible: a minute of them is a lot of memory.
        if len(self._deadlines) > 2 * len(self.batches) + 64:
            self._deadlines = [(batch.visible_at, token) for token, batch in self.batches.items()]
            heapq.heapify(self._deadlines)

    def _move_committed(self) -> None:
        tokens, n_done = self._tokens, self.committed - self._base
        while n_done < len(tokens) and not tokens[n_done]:
            # Zero bytes are counted, not zero tokens: some may be the first bytes of a token, but never eight in a row.
            stretch = tokens[n_done : n_done + _STRETCH].tobytes()
            n_done += (len(stretch) - len(stretch.lstrip(b"\0"))) // 8
        self.committed = self._base + n_done
        if n_done == len(tokens) or n_done > max(1024, len(tokens) // 2):
            del tokens[:n_done]
            del self._attempts[:n_done]
            self._base = self.committed
