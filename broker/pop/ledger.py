"""PopLedger: what is in flight of every queue of every group of one broker, and what of it comes again when. Pure.

It ties the windows (`broker/pop/window.py`) together: one bound for all of them, one next deadline, and a journal entry
(`broker/pop/journal.py`) for each change, which the caller has to make durable before it answers anybody. After a crash
the windows of the last snapshot and the entries since give the same ledger again, with every handle as good as before.

    open("g", "t", 0, floor=7)
    deliver 7, 8, 9 to A        floor 7, A has three messages for as long as it asked
    ack 8                       floor 7
    ack 7                       floor 9: what the group has committed
    its time is over            9 is due: the next pop gets it, and A's handle of it dies then

Times are loop times in seconds, and wall clock in milliseconds where they are written down.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from broker.pop.journal import (
    ACK,
    DELIVER,
    EXTEND,
    FORGET,
    GIVE_BACK,
    OPEN,
    SKIP,
    Entry,
    Times,
    WindowRow,
    cut_window,
    decode_window,
    encode_offsets,
    encode_window,
    play,
)
from broker.pop.window import PopQueue
from model.errors import SystemBusy
from model.limits import MAX_POP_MESSAGES, MAX_POP_QUEUES

NEVER = float("inf")


class PopKey(NamedTuple):
    """One queue of one group."""

    group: str
    topic: str
    queue_id: int


class PopWindow:
    """A window and what belongs to it.

    Attributes:
        key: whose it is.
        number: by which journal entries name it; never given twice.
        queue: what is in flight.
        waiters: members that want to pull from the queue and were refused its lease, the oldest first. While there are
            any, nothing is delivered from it.
        looked_at_by: there is an entry in the ledger's heap of deadlines for this time, or an earlier one.
    """

    __slots__ = ("key", "looked_at_by", "number", "queue", "waiters")

    def __init__(self, key: PopKey, number: int, queue: PopQueue) -> None:
        self.key = key
        self.number = number
        self.queue = queue
        self.waiters: dict[str, None] = {}
        self.looked_at_by = NEVER

    def __lt__(self, other: PopWindow) -> bool:
        """In the order in which they were opened: what is due at one moment is looked at in this order."""
        return self.number < other.number


class PopLedger:
    """All windows of one broker.

    Args:
        note: called with the journal entry of each change.
        forgotten: called with each window that is dropped: what the group has committed stands nowhere else.

    Attributes:
        windows: by group, topic and queue id.
        messages: offsets in all windows: memory for each of them is held.
    """

    def __init__(self, note: Callable[[Entry], None], forgotten: Callable[[PopWindow], None]) -> None:
        self.windows: dict[PopKey, PopWindow] = {}
        self.messages = 0
        self._note = note
        self._forgotten = forgotten
        self._last_number = 0
        # Heap of (time, window). A window has one entry, or a few stale ones: one for each batch would be as
        # many as there are batches, and a consumer that acknowledges at once leaves them all behind.
        self._deadlines: list[tuple[float, PopWindow]] = []

    @property
    def room(self) -> int:
        """How many more offsets all windows together may have."""
        return MAX_POP_MESSAGES - self.messages

    # --- windows -----------------------------------------------------------------------------------------------------

    def open(self, key: PopKey, floor: int) -> PopWindow:
        """Begin a window where the group has committed.

        Raises:
            SystemBusy: too many queues have messages in flight.
        """
        if len(self.windows) >= MAX_POP_QUEUES:
            self._forget_idle()
        if len(self.windows) >= MAX_POP_QUEUES:
            raise SystemBusy(f"groups have messages in flight of {MAX_POP_QUEUES} queues of this broker: retry later")
        self._last_number += 1
        window = self.windows[key] = PopWindow(key, self._last_number, PopQueue(floor))
        self._note((OPEN, window.number, *key, floor))
        return window

    def forget(self, window: PopWindow) -> None:
        """Drop a window: every handle of it is dead."""
        if self.windows.pop(window.key, None) is not None:
            self.messages -= _size(window.queue)
            window.looked_at_by = -NEVER
            self._note((FORGET, window.number))
            self._forgotten(window)

    def forget_all(self, windows: Iterable[PopWindow]) -> None:
        """Drop windows."""
        for window in list(windows):
            self.forget(window)

    def of_group(self, group: str) -> list[PopWindow]:
        """The windows of a group, sorted."""
        return [self.windows[key] for key in sorted(self.windows) if key.group == group]

    def of_topic(self, topic: str) -> list[PopWindow]:
        """The windows of a topic, sorted."""
        return [self.windows[key] for key in sorted(self.windows) if key.topic == topic]

    def _forget_idle(self) -> None:
        # One without unacknowledged messages says no more than the committed offset does.
        self.forget_all(window for window in self.windows.values() if window.queue.is_idle and not window.waiters)

    # --- changes -----------------------------------------------------------------------------------------------------

    def deliver(
        self,
        window: PopWindow,
        offsets: Sequence[int],
        *,
        upto: int,
        token: int,
        client_id: str,
        times: Times,
        invisible_s: float,
    ) -> list[int]:
        """Note that messages were delivered; see `PopQueue.deliver`.

        Returns:
            How often each has been delivered now.
        """
        queue, (now, now_ms) = window.queue, times
        visible_at = now + invisible_s
        before = queue.next_offset - queue.floor
        counts = queue.deliver(offsets, upto=upto, token=token, client_id=client_id, now=now, visible_at=visible_at)
        self.messages += queue.next_offset - queue.floor - before
        if offsets and visible_at < window.looked_at_by:
            self._look_by(window, visible_at)
        wire = encode_offsets(offsets) if offsets else None
        visible_ms = round(now_ms + 1000 * invisible_s)
        self._note((DELIVER, window.number, token, round(now_ms), visible_ms, client_id, upto, wire))
        return counts

    def ack(self, window: PopWindow, token: int, offsets: Sequence[int]) -> list[int]:
        """End messages; see `PopQueue.ack`.

        Returns:
            Those whose handles were good.
        """
        queue = window.queue
        floor = queue.floor
        ended = queue.ack(token, offsets)
        if ended:
            self.messages -= queue.floor - floor
            self._note((ACK, window.number, token, encode_offsets(sorted(ended))))
        return ended

    def skip(self, window: PopWindow, offsets: Sequence[int]) -> None:
        """End messages without a handle: they do not exist any more."""
        queue = window.queue
        floor = queue.floor
        queue.skip(offsets)
        self.messages -= queue.floor - floor
        self._note((SKIP, window.number, [list(offsets)]))

    def extend(
        self, window: PopWindow, token: int, offset: int, *, new_token: int, times: Times, visible_at: float
    ) -> bool:
        """Let a message be invisible until another time; see `PopQueue.extend`.

        Returns:
            Whether the handle was good.
        """
        if not window.queue.extend(token, offset, new_token=new_token, now=times.now, visible_at=visible_at):
            return False
        if visible_at < window.looked_at_by:
            self._look_by(window, visible_at)
        visible_ms = times.wall_ms(visible_at)
        self._note((EXTEND, window.number, offset, token, new_token, round(times.now_ms), visible_ms))
        return True

    def give_back(self, window: PopWindow, token: int, times: Times) -> None:
        """Let the rest of a batch come again at once: it did not reach whom it was for."""
        window.queue.give_back(token, times.now)
        self._look_by(window, times.now)
        self._note((GIVE_BACK, window.number, token, round(times.now_ms)))

    # --- time --------------------------------------------------------------------------------------------------------

    def expire(self, now: float, most: int) -> list[PopWindow]:
        """Make due what was not acknowledged in time.

        Args:
            now: loop time in seconds.
            most: about so many messages at the most, so that a million of them do not stop the loop; call again.

        Returns:
            Windows that have something due now, in the order of their deadlines.
        """
        found: list[PopWindow] = []
        while self._deadlines and self._deadlines[0][0] <= now and most > 0:
            looked_at, window = heapq.heappop(self._deadlines)
            if looked_at != window.looked_at_by:
                continue
            became_due = window.queue.expire(now, most)
            most -= became_due
            if became_due:
                found.append(window)
            window.looked_at_by = NEVER
            deadline = window.queue.next_deadline()
            if deadline is not None:
                self._look_by(window, deadline)
        return found

    def next_deadline(self) -> float | None:
        """When to call `expire` next, or None. It may find nothing then."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] != deadlines[0][1].looked_at_by:
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def _look_by(self, window: PopWindow, at: float) -> None:
        window.looked_at_by = at
        heapq.heappush(self._deadlines, (at, window))

    # --- storing -----------------------------------------------------------------------------------------------------

    def snapshot(self, times: Times) -> list[WindowRow]:
        """All windows, to be stored in the place of all entries so far; those that say nothing are dropped first."""
        self._forget_idle()
        return [
            WindowRow(window.number, *key, encode_window(window.queue, times)) for key, window in self.windows.items()
        ]

    def restore(
        self, rows: Iterable[WindowRow], entries: Iterable[Entry], times: Times, end_of: Callable[[PopKey], int | None]
    ) -> None:
        """Put back what an earlier run stored; the ledger is new.

        A new snapshot has to be stored before anything is delivered: the entries know nothing of messages that a power
        cut took, and others will have their offsets.

        Args:
            rows: the last snapshot.
            entries: those since, in their order.
            times: now.
            end_of: end of a queue, or None if there is no such queue any more.
        """
        windows = {row.number: PopWindow(PopKey(*row[1:4]), row.number, decode_window(row.data, times)) for row in rows}
        for entry in entries:
            kind, number = entry[:2]
            if kind == OPEN:
                _, _, group, topic, queue_id, floor = entry
                windows[number] = PopWindow(PopKey(group, topic, queue_id), number, PopQueue(floor))
            elif kind == FORGET:
                windows.pop(number, None)
            elif number in windows:
                play(windows[number].queue, entry, times)
            self._last_number = max(self._last_number, number)
        for window in windows.values():
            self._last_number = max(self._last_number, window.number)
            end = end_of(window.key)
            if end is None:
                continue
            if end < window.queue.next_offset:
                window.queue = cut_window(window.queue, end)
            self.windows[window.key] = window
            self.messages += _size(window.queue)
            deadline = window.queue.next_deadline()
            if deadline is not None:
                self._look_by(window, deadline)


def _size(queue: PopQueue) -> int:
    return queue.next_offset - queue.floor
