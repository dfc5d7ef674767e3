"""The unfinished messages of an owned queue that is consumed in order: of the whole queue, or of each key. Pure.

The messages wait in *lanes*. A lane is an ordered sub-queue, in offset order, of which at most one batch is with a
listener; different lanes do not wait for each other. Order of the queue means one lane for the whole queue, and order
by key a lane for each key that has unfinished messages: the number of queues no longer limits the parallelism.

    lanes by key, put a1 b2 a3 c4:   a: 1 3   b: 2   c: 4
    next_batch(1) -> a1, then b2, then c4; a3 waits for a1
    requeue(a1) -> lane a is suspended, and a3 with it; b and c go on
    finish a1     -> next_batch(1) -> a3

Messages come into their lanes only when a batch is to be dispatched. While all unfinished ones wait, a run (`next_run`)
in offset order keeps every order, and a listener that does not wait costs no lanes.

RocketMQ: ProcessQueue's side map `consumingMsgOrderlyTreeMap` (one lane); the article on key order routes a message to
the thread `hash(key) % threads`, where keys of one thread wait for each other, and a key without messages costs a
thread. Lanes need neither.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from client.pull.process_queue import ProcessQueue
from model.message import MessageExt

LaneOf = Callable[[MessageExt], str | int]
"""Message -> key of its lane. Messages of one lane are consumed one after the other."""


def whole_queue(message: MessageExt) -> str | int:
    """The lane of a message if the whole queue is one lane."""
    return ""


def by_key(message: MessageExt) -> str | int:
    """A lane for each key: the first of the message's keys. A message without a key has its own lane: no order."""
    return message.keys[0] if message.keys else message.offset


@dataclass(slots=True, eq=False)
class _Lane:
    """One ordered sub-queue; `waiting` is in offset order, and `in_line` a lane that has something to dispatch."""

    waiting: deque[MessageExt] = field(default_factory=deque)
    dispatched: dict[int, MessageExt] = field(default_factory=dict)
    held: dict[int, MessageExt] = field(default_factory=dict)
    """Processed by a listener that has not committed them yet (manual commit)."""
    not_before: float | None = None
    """Suspended until then, seconds; None while it is not suspended."""
    in_line: bool = False


class OrderedProcessQueue(ProcessQueue):
    """See the module header; the protocol of use is that of `ProcessQueue`, with one difference.

    A batch has messages of one lane, and the lane waits until all of them are finished, held or requeued. `finish` may
    make another batch ready.
    """

    __slots__ = ("_dispatched", "_lane_of", "_lanes", "_ready", "_suspended")

    def __init__(self, start_offset: int, lane_of: LaneOf, **limits: int) -> None:
        """Make an empty queue; the limits are those of `ProcessQueue`."""
        super().__init__(start_offset, **limits)
        self._lane_of = lane_of
        self._lanes: dict[str | int, _Lane] = {}
        self._ready: deque[_Lane] = deque()  # those with something to dispatch, longest waiting first
        # Heap of (not before, first offset, lane's key); an entry whose lane says otherwise is stale.
        self._suspended: list[tuple[float, int, str | int]] = []
        self._dispatched = 0

    @property
    def dispatched(self) -> int:
        """Messages that a listener has now; held ones do not count, because no listener works on them."""
        return self._dispatched + len(self._run)

    def put(self, messages: Iterable[MessageExt]) -> None:
        """Add the messages of a pull; see `ProcessQueue.put`."""
        super().put(messages)
        if self._lanes:  # what waits outside of the lanes comes after all that is in them
            self._sort()

    def end_run(self, finished: int, dispatched: int = 0) -> None:
        """End the run, all of whose batches have messages of one lane each; see `ProcessQueue.end_run`."""
        batch = self._run[finished : finished + dispatched]
        super().end_run(finished, dispatched)
        if batch:
            self._lanes[self._lane_of(batch[0])] = _Lane(dispatched={message.offset: message for message in batch})
            self._dispatched += len(batch)
            self._sort()

    def next_batch(self, max_messages: int, now: float) -> list[MessageExt]:
        """Dispatch the next messages of one lane, which then waits until they are finished, held or requeued.

        Lanes whose suspension has ended come first, because they hold the committed offset back.
        """
        if self.dropped:
            return []
        self._sort()
        self._resume(now)
        if not self._ready:
            return []
        lane = self._ready.popleft()
        lane.in_line = False
        batch = [lane.waiting.popleft() for _ in range(min(max_messages, len(lane.waiting)))]
        lane.dispatched = {message.offset: message for message in batch}
        self._dispatched += len(batch)
        return batch

    def ready(self, now: float) -> bool:
        """Whether `next_batch` would return a message."""
        if self.dropped:
            return False
        if self._ready or self._waiting:
            return True
        deadline = self.next_retry_deadline()
        return deadline is not None and deadline <= now

    def finish(self, messages: Iterable[MessageExt]) -> int:
        """Finish messages that were dispatched or held; others are ignored. Returns the new `commit_offset`."""
        for message in messages:
            key = self._lane_of(message)
            lane = self._lanes.get(key)
            if lane is not None and self._withdraw(lane, message.offset):
                self._end(message.offset)
                self._end_batch(key, lane)
        return self._trim_order()

    def hold(self, messages: Iterable[MessageExt]) -> None:
        """Hold messages that were processed and not committed: without `finish_held` they are redelivered."""
        for message in messages:
            key = self._lane_of(message)
            lane = self._lanes.get(key)
            if lane is not None and message.offset in lane.dispatched:
                lane.held[message.offset] = lane.dispatched.pop(message.offset)
                self._dispatched -= 1
                self._end_batch(key, lane)

    def finish_held(self, message: MessageExt) -> int:
        """Finish every held message of the lane of a message; returns the new `commit_offset`."""
        key = self._lane_of(message)
        lane = self._lanes.get(key)
        if lane is not None:
            for offset in lane.held:
                self._end(offset)
            lane.held = {}
            self._end_batch(key, lane)
        return self._trim_order()

    def requeue(self, messages: Iterable[MessageExt], not_before: float) -> None:
        """Put failed messages back at the head of their lane, `times_delivered` one higher; suspend it until then."""
        by_lane: dict[str | int, list[MessageExt]] = {}
        for message in messages:
            lane = self._lanes.get(self._lane_of(message))
            if lane is not None and message.offset in lane.dispatched:
                del lane.dispatched[message.offset]
                self._dispatched -= 1
                retried = self._taken[message.offset]._replace(times_delivered=message.times_delivered + 1)
                self._taken[message.offset] = retried
                by_lane.setdefault(self._lane_of(message), []).append(retried)
        for key, failed in by_lane.items():
            self._suspend(key, failed, not_before)

    def roll_back(self, message: MessageExt, not_before: float) -> None:
        """Requeue the held messages of the lane of a message at its head, and suspend it until then.

        Rolling back is not a failure: `times_delivered` stays. RocketMQ: ProcessQueue.rollback.
        """
        key = self._lane_of(message)
        lane = self._lanes.get(key)
        if lane is not None and lane.held:
            held_messages = list(lane.held.values())
            lane.held = {}
            self._suspend(key, held_messages, not_before)

    def next_retry_deadline(self) -> float | None:
        """The time at which the first suspended lane may go on, in seconds; None without such a lane."""
        while self._suspended and self._is_stale(self._suspended[0]):
            heapq.heappop(self._suspended)
        return self._suspended[0][0] if self._suspended and not self.dropped else None

    def _is_stale(self, entry: tuple[float, int, str | int]) -> bool:
        lane = self._lanes.get(entry[2])
        return lane is None or lane.not_before != entry[0]

    # --- lanes -------------------------------------------------------------------------------------------------------

    def _sort(self) -> None:
        """Put the messages that wait outside into their lanes."""
        unfinished, order, lanes, lane_of = self._taken, self._order, self._lanes, self._lane_of
        for message in self._waiting:
            offset = message.offset
            unfinished[offset] = message
            order.append(offset)
            key = lane_of(message)
            lane = lanes.get(key)
            if lane is None:
                lane = lanes[key] = _Lane()
            lane.waiting.append(message)
            if not lane.in_line and not lane.dispatched and lane.not_before is None:
                self._line_up(lane)
        self._waiting.clear()

    def _suspend(self, key: str | int, retried: list[MessageExt], not_before: float) -> None:
        lane = self._lanes[key]
        if lane.in_line:
            self._ready.remove(lane)
            lane.in_line = False
        lane.waiting = deque(sorted([*retried, *lane.waiting], key=lambda message: message.offset))
        if lane.not_before is None or lane.not_before < not_before:
            lane.not_before = not_before
            heapq.heappush(self._suspended, (not_before, lane.waiting[0].offset, key))

    def _resume(self, now: float) -> None:
        due: list[_Lane] = []
        while (deadline := self.next_retry_deadline()) is not None and deadline <= now:
            lane = self._lanes[heapq.heappop(self._suspended)[2]]
            lane.not_before = None
            if not lane.dispatched:
                lane.in_line = True
                due.append(lane)
        self._ready.extendleft(reversed(due))

    def _line_up(self, lane: _Lane) -> None:
        lane.in_line = True
        self._ready.append(lane)

    def _withdraw(self, lane: _Lane, offset: int) -> bool:
        if lane.dispatched.pop(offset, None) is not None:
            self._dispatched -= 1
            return True
        return lane.held.pop(offset, None) is not None

    def _end(self, offset: int) -> None:
        self.size_bytes -= len(self._taken.pop(offset).body)

    def _end_batch(self, key: str | int, lane: _Lane) -> None:
        """Let a lane go on, or remove it if it is empty, once its listener has none of its messages."""
        if lane.dispatched or lane.not_before is not None:
            return
        if lane.waiting:
            if not lane.in_line:
                self._line_up(lane)
        elif not lane.held:
            self._lanes.pop(key, None)

    def _trim_order(self) -> int:
        order = self._order
        while order and order[0] not in self._taken:
            order.popleft()
        return self.commit_offset
