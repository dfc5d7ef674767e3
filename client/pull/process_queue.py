"""The unfinished messages of one owned queue, between their pull and the commit. Pure.

Messages arrive in offset order, are dispatched to listeners in that order, and finish in any order. The offset to
commit is the smallest unfinished one: all below it are processed, so a new owner that starts there misses nothing.

    put 5 6 7 8, next_batch(3) -> 5 6 7            commit_offset 5
    finish 6, finish 7                             commit_offset 5: it is unfinished, so 6 and 7 may be redelivered
    finish 5                                       commit_offset 8: the one that waits for its dispatch
    next_batch(9) -> 8, finish 8                   commit_offset 9: nothing left, the next one to come

Invariant: `commit_offset` never goes back, never passes an unfinished message, and never passes `pull_offset`.

Every message a consumer reads goes through here, so each step is O(1) per message: arrivals are a deque, dispatches a
dict plus a deque of their offsets (ascending by construction), of which finished ones leave when they reach the head.
RocketMQ keeps a TreeMap instead and takes its first key.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from operator import attrgetter

from model.counted import plural
from model.limits import (
    MAX_PROCESS_QUEUE_BYTES,
    MAX_PROCESS_QUEUE_COUNT,
    MAX_PROCESS_QUEUE_SPAN,
    MAX_PULL_BYTES,
)
from model.message import MessageExt

_body_of = attrgetter("body")


def _body_bytes(messages: Iterable[MessageExt]) -> int:
    return sum(map(len, map(_body_of, messages)))


class ProcessQueue:
    """The window of one queue: waiting, dispatched and requeued messages, and the offset to commit.

    RocketMQ: ProcessQueue.

    Protocol of use:

    - the pull task asks `flow_control_reason()`, pulls at `pull_offset`, then calls `put(messages)` and
      `advance(next_offset)` with the answer of the broker;
    - workers call `next_batch` while `ready`, and for each dispatched message either `finish` (processed, or stored
      elsewhere for a retry: commit the returned offset) or `requeue` (failed here: dispatched again);
    - a worker whose listener does not wait takes a run of batches with `next_run` and ends it with `end_run`, before
      anything else happens here: the counts of each message are then kept once for the run;
    - when nothing is `ready`, wait for a `put` or for `next_retry_deadline()`;
    - to revoke the queue: `drop()`, wait until `dispatched` is 0 (or a timeout), commit `commit_offset`. An owner
      that gets the queue back makes a new one, so late results of old workers cannot reach it.

    All `now` and deadlines are the same monotonic clock in seconds. Thread-bound, like everything on the loop.
    """

    __slots__ = (
        "_highest",
        "_max_bytes",
        "_max_count",
        "_max_span",
        "_order",
        "_retries",
        "_retry_at",
        "_run",
        "_taken",
        "_waiting",
        "dropped",
        "pull_offset",
        "size_bytes",
    )

    def __init__(
        self,
        start_offset: int,
        *,
        max_count: int = MAX_PROCESS_QUEUE_COUNT,
        max_bytes: int = MAX_PROCESS_QUEUE_BYTES,
        max_span: int = MAX_PROCESS_QUEUE_SPAN,
    ) -> None:
        """Make an empty queue that is pulled from `start_offset` on; above any limit flow control pauses the pulls.

        `max_bytes` counts bodies, `max_span` is the distance from the oldest unfinished to the newest offset.
        """
        assert start_offset >= 0, f"an unknown offset must not become a number: {start_offset}"
        self.pull_offset = start_offset
        """The next offset to pull; every message below it has been put, or was passed over by the broker's filter."""
        self.size_bytes = 0
        """Bytes of the bodies of all unfinished messages."""
        self.dropped = False
        """Whether the queue is being revoked: nothing more is dispatched."""
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._max_span = max_span
        self._highest = start_offset
        self._waiting: deque[MessageExt] = deque()  # never dispatched; all above every offset in _order
        self._taken: dict[int, MessageExt] = {}  # dispatched and unfinished: with a listener, or requeued
        self._order: deque[int] = deque()  # offsets ever dispatched, from the smallest unfinished one on
        self._run: list[MessageExt] = []  # with a listener that does not wait; above every offset in _order
        self._retry_at: dict[int, float] = {}  # the part of _taken that was requeued: offset -> not before
        self._retries: list[tuple[float, int]] = []  # heap over _retry_at; entries that are not there are stale

    @property
    def commit_offset(self) -> int:
        """The offset at which a new owner must start: the smallest unfinished one, else `pull_offset`.

        RocketMQ has two rules for a queue without unfinished messages: the highest offset seen + 1, or the next offset
        of a pull without messages. Here `advance` covers both, so a filter that skips the rest of a batch moves the
        commit as well.
        """
        if self._order:
            return self._order[0]
        return self._run[0].offset if self._run else self.position

    @property
    def position(self) -> int:
        """The first offset that was not dispatched yet."""
        return self._waiting[0].offset if self._waiting else self.pull_offset

    @property
    def count(self) -> int:
        """Unfinished messages."""
        return len(self._waiting) + len(self._taken) + len(self._run)

    @property
    def span(self) -> int:
        """Distance from the oldest unfinished to the newest offset put: the range that a crash would redeliver.

        RocketMQ measures to the newest *unfinished* one, so that a stuck message lets the rest of the queue run on and
        the part to be redelivered grows without bound. Here that part is bounded, and the queue stops visibly.
        """
        return self._highest - self.commit_offset if self.count else 0

    @property
    def dispatched(self) -> int:
        """Messages that a listener has now; 0 means that a dropped queue can be released."""
        return len(self._taken) - len(self._retry_at) + len(self._run)

    def oldest(self) -> MessageExt | None:
        """The message that holds the committed offset back, or None if all are finished."""
        if self._order:
            return self._taken[self._order[0]]
        if self._run:
            return self._run[0]
        return self._waiting[0] if self._waiting else None

    def flow_control_reason(self) -> str | None:
        """The reason why flow control holds back the next pull, for logs; None if it does not.

        RocketMQ: DefaultMQPushConsumerImpl.pullMessage, which rounds bytes down to whole MiB; this does not.
        """
        if self.count > self._max_count:
            return f"{plural(self.count, 'message', 'is', 'are')} unfinished, more than {self._max_count}"
        if self.size_bytes > self._max_bytes:
            return f"{self.size_bytes} bytes are unfinished, more than {self._max_bytes}"
        if self.span > self._max_span:
            return f"unfinished messages span {self.span} offsets, more than {self._max_span}"
        return None

    def pull_size(self, batch: int, lagging: int) -> int:
        """The size of the next pull: `batch`, or up to `lagging` messages if the queue has room for them.

        A pull of `batch` messages may exceed a limit, because flow control stops only the next pull. A larger one never
        does.
        """
        if lagging <= batch or self.size_bytes + MAX_PULL_BYTES > self._max_bytes:
            return batch
        return max(batch, min(lagging, self._max_count - self.count, self._max_span - self.span))

    def put(self, messages: Iterable[MessageExt]) -> None:
        """Add the messages of a pull, in ascending order of their offsets.

        A message below `pull_offset` was added before, because two pulls overlapped; it is ignored.
        """
        new = messages if isinstance(messages, list) else list(messages)
        if not new:
            return
        first, last = new[0].offset, new[-1].offset
        if first < self.pull_offset or last - first >= len(new):  # or a filter has left some out
            new_by_offset = {message.offset: message for message in new if message.offset >= self.pull_offset}
            new = list(new_by_offset.values())
        if new:
            self._waiting.extend(new)
            self.size_bytes += _body_bytes(new)
            self._highest = last
            self.pull_offset = last + 1

    def advance(self, next_offset: int) -> None:
        """Skip to the offset that the broker returns for the next pull; it has no message below it. Never goes back."""
        self.pull_offset = max(self.pull_offset, next_offset)

    def ready(self, now: float) -> bool:
        """Whether `next_batch` would return a message."""
        return not self.dropped and (bool(self._waiting) or self._retry_due(now))

    def next_batch(self, max_messages: int, now: float) -> list[MessageExt]:
        """Dispatch messages; they stay dispatched until `finish` or `requeue`. Empty if nothing is ready.

        Failed messages whose wait has ended come first, because they hold the committed offset back; then new ones in
        order.
        """
        batch: list[MessageExt] = []
        if self.dropped:
            return batch
        while len(batch) < max_messages and self._retry_due(now):
            offset = heapq.heappop(self._retries)[1]
            del self._retry_at[offset]
            batch.append(self._taken[offset])
        for _ in range(min(max_messages - len(batch), len(self._waiting))):
            message = self._waiting.popleft()
            self._taken[message.offset] = message
            self._order.append(message.offset)
            batch.append(message)
        return batch

    def can_run(self) -> bool:
        """Whether `next_run` would return a message."""
        return bool(self._waiting) and not self._retry_at and not self.dropped

    def next_run(self, max_messages: int) -> list[MessageExt]:
        """Dispatch new messages to a listener that may not wait, until `end_run`; empty while requeued ones wait."""
        waiting = self._waiting
        if not self.can_run():
            return []
        if len(waiting) <= max_messages:
            self._run = run = list(waiting)
            waiting.clear()
        else:
            popleft = waiting.popleft
            self._run = run = [popleft() for _ in range(max_messages)]
        return run

    def end_run(self, finished: int, dispatched: int = 0) -> None:
        """End the run: its first messages are finished, the next ones stay dispatched, the rest waits again."""
        run, self._run = self._run, []
        after = finished + dispatched
        self.size_bytes -= _body_bytes(run[:finished])
        for message in run[finished:after]:
            self._taken[message.offset] = message
            self._order.append(message.offset)
        self._waiting.extendleft(reversed(run[after:]))

    def finish(self, messages: Iterable[MessageExt]) -> int:
        """Finish messages that were dispatched, and return the new `commit_offset`.

        A message that is finished already, or unknown here, is ignored. A requeued message may be finished too: its
        listener has succeeded after its timeout.
        """
        unfinished, order = self._taken, self._order
        for message in messages:
            if unfinished.pop(message.offset, None) is not None:
                self.size_bytes -= len(message.body)
                if self._retry_at:
                    self._retry_at.pop(message.offset, None)
        while order and order[0] not in unfinished:
            order.popleft()
        return self.commit_offset

    def requeue(self, messages: Iterable[MessageExt], not_before: float) -> None:
        """Take back failed messages: dispatched again no sooner than `not_before`, `times_delivered` one higher."""
        for message in messages:
            offset = message.offset
            if offset in self._taken and offset not in self._retry_at:
                self._taken[offset] = message._replace(times_delivered=message.times_delivered + 1)
                self._retry_at[offset] = not_before
                heapq.heappush(self._retries, (not_before, offset))

    def next_retry_deadline(self) -> float | None:
        """The time at which the first requeued message may be dispatched, in seconds; None without one."""
        while self._retries and self._retries[0][1] not in self._retry_at:
            heapq.heappop(self._retries)
        return self._retries[0][0] if self._retries and not self.dropped else None

    def drop(self) -> None:
        """Dispatch nothing more; dispatched messages may still finish and move the offset to commit."""
        self.dropped = True

    def _retry_due(self, now: float) -> bool:
        deadline = self.next_retry_deadline()
        return deadline is not None and deadline <= now
