"""PopLedger: the windows of every queue of every group of one broker, and when messages become due. Pure.

It ties the windows (`broker/pop/window.py`) together: one bound for all of them, one next deadline, and a journal entry
(`broker/pop/journal.py`) for each change, which the caller makes durable before it answers a request. After a crash the
windows of the last snapshot and the entries since give the same ledger again, and every handle stays valid.

    open("g", "t", 0, committed=7)
    deliver 7, 8, 9 to A              committed 7; the three messages are invisible for the time that A asked for
    ack 8                             committed 7
    ack 7                             committed 9
    the invisible time ends           9 is due: the next pop gets it, and A's handle of it is dead then

Times are loop times in seconds, and wall clock in milliseconds where they are stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from broker.pop.journal import (
    ACK,
    DELIVER,
    EXTEND,
    FORGET,
    GIVE_BACK,
    OPEN,
    RENEW,
    SKIP,
    UNDO_DELIVERY,
    Entry,
    Times,
    WindowRow,
    apply_entry,
    cut_window,
    decode_window,
    encode_offsets,
    encode_window,
)
from broker.pop.window import PopBatch, PopWindow
from model.errors import SystemBusy
from model.limits import MAX_POP_MESSAGES, MAX_POP_QUEUES

NEVER = float("inf")

Renewal = Callable[["GroupQueue", PopBatch], float | None]
"""Called with a batch whose invisible time ends: the new end, or None to let it end."""


class PopKey(NamedTuple):
    """One queue of one group."""

    group: str
    topic: str
    queue_id: int


class GroupQueue:
    """One queue of one group, with its window."""

    __slots__ = ("check_scheduled_at", "key", "number", "waiters", "window")

    def __init__(self, key: PopKey, number: int, window: PopWindow) -> None:
        self.key = key
        self.number = number  # names it in journal entries; never used twice
        self.window = window
        # Members that were refused the lease of the queue, the oldest first. While there are any, the queue drains:
        # nothing is delivered from it.
        self.waiters: dict[str, None] = {}
        # The ledger's heap of deadlines has an entry for this time, or for an earlier one.
        self.check_scheduled_at = NEVER

    def __lt__(self, other: GroupQueue) -> bool:
        """Order queues by number, for deadlines at the same moment in the heap."""
        return self.number < other.number

    def stats_row(self, now: float) -> list[Any]:
        """The row of this queue in the answer to GET_POP_STATS."""
        window = self.window
        batches = window.batches.values()
        by_client: dict[str, int] = {}
        for batch in batches:
            by_client[batch.client_id] = by_client.get(batch.client_id, 0) + batch.left
        oldest = min((batch.since for batch in batches), default=None)
        first = min((batch.visible_at for batch in batches), default=None)
        return [
            *self.key[1:],
            window.committed,
            window.next_offset,
            window.invisible,
            window.due_count,
            -1 if oldest is None else round((now - oldest) * 1000),
            -1 if first is None else max(0, round((first - now) * 1000)),
            window.attempts_max,
            bool(self.waiters),
            sorted(by_client.items()),
        ]


class PopLedger:
    """All windows of one broker.

    Args:
        note: called with the journal entry of each change.
        forgotten: called with each queue whose window is dropped: its committed offset is stored nowhere else.
    """

    def __init__(self, note: Callable[[Entry], None], forgotten: Callable[[GroupQueue], None]) -> None:
        self.queues: dict[PopKey, GroupQueue] = {}
        self.messages = 0  # offsets in all windows; each of them takes memory
        self.has_renewed = False  # whether any batch was ever to be extended while its client is connected
        self._note = note
        self._forgotten = forgotten
        self._last_number = 0
        # Heap of (time, queue). A queue has one entry, and perhaps a few stale ones. With one entry for each batch, a
        # consumer that acknowledges at once would leave all of them behind.
        self._deadlines: list[tuple[float, GroupQueue]] = []

    @property
    def room(self) -> int:
        """How many more offsets all windows together may have."""
        return MAX_POP_MESSAGES - self.messages

    # --- windows -----------------------------------------------------------------------------------------------------

    def open(self, key: PopKey, committed: int) -> GroupQueue:
        """Open a window at the committed offset.

        Raises:
            SystemBusy: too many queues have windows.
        """
        if len(self.queues) >= MAX_POP_QUEUES:
            self._forget_idle()
        if len(self.queues) >= MAX_POP_QUEUES:
            raise SystemBusy(f"groups have invisible messages of {MAX_POP_QUEUES} queues of this broker: retry later")
        self._last_number += 1
        queue = self.queues[key] = GroupQueue(key, self._last_number, PopWindow(committed))
        self._note((OPEN, queue.number, *key, committed))
        return queue

    def forget(self, queue: GroupQueue) -> None:
        """Drop a queue with its window: every handle of it is dead."""
        if self.queues.pop(queue.key, None) is not None:
            self.messages -= _size(queue.window)
            queue.check_scheduled_at = -NEVER  # makes its entries in the heap stale: to remove them would cost a search
            self._note((FORGET, queue.number))
            self._forgotten(queue)

    def of_group(self, group: str) -> list[GroupQueue]:
        """The queues of a group, sorted."""
        return [self.queues[key] for key in sorted(key for key in self.queues if key.group == group)]

    def of_topic(self, topic: str) -> list[GroupQueue]:
        """The queues of a topic, sorted."""
        return [self.queues[key] for key in sorted(key for key in self.queues if key.topic == topic)]

    def _forget_idle(self) -> None:
        # A window without unacknowledged messages has no more information than the committed offset.
        for queue in [
            candidate for candidate in self.queues.values() if candidate.window.is_idle and not candidate.waiters
        ]:
            self.forget(queue)

    # --- changes -----------------------------------------------------------------------------------------------------

    def deliver(
        self,
        queue: GroupQueue,
        offsets: Sequence[int],
        *,
        upto: int,
        token: int,
        client_id: str,
        times: Times,
        invisible_s: float,
    ) -> list[int]:
        """Record a delivery; see `PopWindow.deliver`."""
        window, (now, now_ms) = queue.window, times
        visible_at = now + invisible_s
        n_before = window.next_offset - window.committed
        counts = window.deliver(offsets, upto=upto, token=token, client_id=client_id, now=now, visible_at=visible_at)
        self.messages += window.next_offset - window.committed - n_before
        if offsets and visible_at < queue.check_scheduled_at:
            self._schedule_check(queue, visible_at)
        wire = encode_offsets(offsets) if offsets else None
        visible_ms = round(now_ms + 1000 * invisible_s)
        self._note((DELIVER, queue.number, token, round(now_ms), visible_ms, client_id, upto, wire))
        return counts

    def ack(self, queue: GroupQueue, token: int, offsets: Sequence[int]) -> list[int]:
        """Acknowledge messages; see `PopWindow.ack`."""
        window = queue.window
        committed = window.committed
        ended_offsets = window.ack(token, offsets)
        if ended_offsets:
            self.messages -= window.committed - committed
            self._note((ACK, queue.number, token, encode_offsets(sorted(ended_offsets))))
        return ended_offsets

    def skip(self, queue: GroupQueue, offsets: Sequence[int]) -> None:
        """Acknowledge messages that no longer exist."""
        window = queue.window
        committed = window.committed
        window.skip(offsets)
        self.messages -= window.committed - committed
        self._note((SKIP, queue.number, [list(offsets)]))

    def extend(
        self, queue: GroupQueue, token: int, offset: int, *, new_token: int, times: Times, visible_at: float
    ) -> bool:
        """Change the end of a message's invisible time; see `PopWindow.extend`."""
        if not queue.window.extend(token, offset, new_token=new_token, now=times.now, visible_at=visible_at):
            return False
        if visible_at < queue.check_scheduled_at:
            self._schedule_check(queue, visible_at)
        visible_ms = times.wall_ms(visible_at)
        self._note((EXTEND, queue.number, offset, token, new_token, round(times.now_ms), visible_ms))
        return True

    def undo_delivery(self, queue: GroupQueue, token: int, times: Times) -> None:
        """Undo a delivery that did not reach its client; see `PopWindow.undo_delivery`."""
        if token not in queue.window.batches:
            return  # without an entry: a replay, where the batch has not expired yet, would count a delivery less
        queue.window.undo_delivery(token, times.now)
        self._schedule_check(queue, times.now)
        self._note((UNDO_DELIVERY, queue.number, token, round(times.now_ms)))

    def give_back(self, queue: GroupQueue, token: int, offsets: Sequence[int]) -> list[int]:
        """Make messages due that no consumer has seen; see `PopWindow.give_back`."""
        returned = queue.window.give_back(token, offsets)
        if returned:
            self._note((GIVE_BACK, queue.number, token, encode_offsets(sorted(returned))))
        return returned

    def keep(self, queue: GroupQueue, token: int, times: Times) -> None:
        """Let the invisible time of a batch be extended while its client is connected, each time by as much."""
        batch = queue.window.batches[token]
        if not batch.renew_s:
            batch.renew_s = batch.visible_at - batch.since
            self.has_renewed = True
            now_ms, visible_ms = round(times.now_ms), times.wall_ms(batch.visible_at)
            self._note((RENEW, queue.number, token, now_ms, visible_ms, round(1000 * batch.renew_s)))

    def end_invisible(self, queue: GroupQueue, token: int, times: Times) -> None:
        """Make the rest of a batch visible at once; its handles stay good until the redelivery."""
        queue.window.renew(token, times.now, 0.0)
        self._schedule_check(queue, times.now)
        now_ms = round(times.now_ms)
        self._note((RENEW, queue.number, token, now_ms, now_ms, 0))

    # --- time --------------------------------------------------------------------------------------------------------

    def expire(self, times: Times, max_n: int, renewal: Renewal | None = None) -> list[GroupQueue]:
        """Make the messages due whose invisible time has expired; returns their queues in the order of the deadlines.

        Batches for which `renewal` has a later end stay invisible under their token.

        About `max_n` messages at a time, so that a million of them do not stop the event loop; call again for the rest.
        """
        checked: list[GroupQueue] = []
        now = times.now
        while self._deadlines and self._deadlines[0][0] <= now and max_n > 0:
            looked_at, queue = heapq.heappop(self._deadlines)
            if looked_at != queue.check_scheduled_at:
                continue  # stale: the queue was forgotten, or an earlier entry has served it
            became_due = queue.window.expire(now, max_n, partial(self._renewed_until, queue, times, renewal))
            max_n -= became_due
            if became_due:
                checked.append(queue)
            queue.check_scheduled_at = NEVER
            deadline = queue.window.next_deadline()
            if deadline is not None:
                self._schedule_check(queue, deadline)
        return checked

    def _renewed_until(
        self, queue: GroupQueue, times: Times, renewal: Renewal | None, token: int, batch: PopBatch
    ) -> float | None:
        until = None if renewal is None else renewal(queue, batch)
        if until is None or until <= times.now:
            return None
        visible_ms, renew_ms = times.wall_ms(until), round(1000 * batch.renew_s)
        self._note((RENEW, queue.number, token, round(times.now_ms), visible_ms, renew_ms))
        return until

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None; it may find nothing due then."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] != deadlines[0][1].check_scheduled_at:
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def _schedule_check(self, queue: GroupQueue, check_at: float) -> None:
        queue.check_scheduled_at = check_at
        heapq.heappush(self._deadlines, (check_at, queue))

    # --- storing -----------------------------------------------------------------------------------------------------

    def snapshot(self, times: Times) -> list[WindowRow]:
        """All windows, to be stored in the place of all entries so far; those that are idle are dropped first."""
        self._forget_idle()
        return [WindowRow(queue.number, *key, encode_window(queue.window, times)) for key, queue in self.queues.items()]

    def restore(
        self, rows: Iterable[WindowRow], entries: Iterable[Entry], times: Times, end_of: Callable[[PopKey], int | None]
    ) -> None:
        """Fill a new ledger from the last snapshot of an earlier run and the entries since, in their order.

        `end_of` returns the end of a queue, or None if it no longer exists. A new snapshot has to be stored before any
        delivery: a power cut may have taken messages that the entries name, and other messages will get their offsets.
        """
        queues = {row.number: GroupQueue(PopKey(*row[1:4]), row.number, decode_window(row.data, times)) for row in rows}
        for entry in entries:
            kind, number = entry[:2]
            if kind == OPEN:
                _, _, group, topic, queue_id, committed = entry
                queues[number] = GroupQueue(PopKey(group, topic, queue_id), number, PopWindow(committed))
            elif kind == FORGET:
                queues.pop(number, None)
            elif number in queues:
                apply_entry(queues[number].window, entry, times)
            self._last_number = max(self._last_number, number)
        for queue in queues.values():
            self._last_number = max(self._last_number, queue.number)
            end = end_of(queue.key)
            if end is None:
                continue
            if end < queue.window.next_offset:
                queue.window = cut_window(queue.window, end)
            self.queues[queue.key] = queue
            self.messages += _size(queue.window)
            self.has_renewed |= any(batch.renew_s for batch in queue.window.batches.values())
            deadline = queue.window.next_deadline()
            if deadline is not None:
                self._schedule_check(queue, deadline)


def _size(window: PopWindow) -> int:
    return window.next_offset - window.committed


def exclude_offsets(offsets: tuple[int, ...], acknowledged: list[int]) -> list[int]:
    """Offsets that were not acknowledged; the others are in the same order. One named twice is acknowledged once."""
    remaining, i = [], 0
    for offset in offsets:
        if i < len(acknowledged) and offset == acknowledged[i]:
            i += 1
        else:
            remaining.append(offset)
    return remaining
