"""Admission: which requests a server that is late serves next, which it refuses, and which it forgets. Pure.

The queue of a single-threaded server is in its sockets, where it cannot be sorted. So a late server reads first: it
puts arriving requests here, and serves a slice of them per event-loop iteration, small enough that the next read is not
late. While the server is on time nothing is put here, and no request pays for any of this.

- Requests that keep a group alive (heartbeats, releases, commits; `Rank.KEEPALIVE`) never wait: they are served when
  they are read. So the deadline of a session counts from the last heartbeat that the server has read.
- Requests for the state of a group (leases, lists, routes; `Rank.CONTROL`) go before new work (sends, pulls;
  `Rank.DATA`), which still has a quarter of each slice: a storm of one kind must not starve the other.
- A request whose sender no longer waits is forgotten. The field `wait_ms` has the time for which the sender waits.
- Other requests may wait as long as the queue is a burst. If the queue has not been empty for an interval it is a
  standing queue, which delays every request and speeds up none. Then requests that have waited longer than a small
  target are refused: SYSTEM_BUSY, with the time to wait, which grows while the queue stands. This is CoDel (Nichols,
  Jacobson: Controlling Queue Delay, ACM Queue 2012; RFC 8289) in the form for servers (Maurer: Fail at Scale, ACM Queue
  2015).

    admission.record_iteration(0.2, now=10.0)                    engaged: 0.2 s is late
    admission.arrive(10.0, HEART_BEAT, 3.0, 0, a) -> None        serve it at once
    admission.arrive(10.0, SEND_MESSAGE, None, 9, b) -> WAITS
    admission.next_slice(10.1) -> serve [b]                      nothing is left, so it is no longer engaged
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from model.limits import (
    LATE_S,
    MAX_RETRY_AFTER_S,
    MAX_SLICE_REQUESTS,
    MAX_WAITING_BYTES,
    MAX_WAITING_REQUESTS,
    MIN_RETRY_AFTER_S,
    MIN_SLICE_REQUESTS,
    SLICE_S,
    STANDING_QUEUE_S,
)
from remoting.wire.field import Rank
from remoting.wire.schema import SCHEMA

Item = TypeVar("Item")

WAITS = -1.0
"""The answer of `arrive` for a request that was put into the queue."""


_RANKS: dict[int, Rank] = {int(code): schema.rank for code, schema in SCHEMA.items()}


def request_rank(code: int) -> Rank:
    """Return the rank of a request code."""
    return _RANKS.get(code, Rank.CONTROL)


def is_new_work(code: int) -> bool:
    """Whether a request begins new work: such requests are refused first."""
    return request_rank(code) is Rank.DATA


class SliceDecision(NamedTuple, Generic[Item]):
    """The decisions of one `next_slice`."""

    serve: list[Item]
    refuse: list[Item]
    forget: list[Item]
    retry_after_s: float  # for the refused requests


@dataclass(slots=True)
class _Lane(Generic[Item]):
    """The requests of one rank, oldest first."""

    target_s: float
    empty_at: float = 0.0
    # arrival, end of the sender's wait, bytes, the request
    waiting: deque[tuple[float, float, int, Item]] = field(default_factory=deque)


class Admission(Generic[Item]):
    """The waiting requests of one server. `engaged`: whether new requests have to be put here."""

    def __init__(self) -> None:
        self.engaged = False
        # A member's pass is several requests, one after the other; refusing the last one wastes the others.
        self._lanes: dict[Rank, _Lane[Item]] = {Rank.CONTROL: _Lane(0.25), Rank.DATA: _Lane(0.1)}
        self._slice = MAX_SLICE_REQUESTS
        self._n = 0
        self._bytes = 0
        self._on_time = True

    def __len__(self) -> int:
        return self._n

    def record_iteration(self, seconds: float, *, now: float, serving_s: float = 0.0) -> None:
        """Record how long the last event-loop iteration handled requests, and how much of that was a slice."""
        # After being late, the server has to read all that has arrived before it knows that nothing waits.
        self._on_time = seconds <= LATE_S
        if seconds > LATE_S and not self.engaged:
            self.engaged = True
            self._slice = MIN_SLICE_REQUESTS  # the cost of one is unknown: short rounds measure it soon
            for lane in self._lanes.values():
                lane.empty_at = now
        # A slice takes at least as long as the reading, or the server would only read and refuse.
        goal_s = min(LATE_S, max(SLICE_S, seconds - serving_s))
        if serving_s > 2 * goal_s:
            self._slice = max(MIN_SLICE_REQUESTS, self._slice // 2)
        elif serving_s < goal_s:
            self._slice = min(MAX_SLICE_REQUESTS, self._slice + MIN_SLICE_REQUESTS)

    def arrive(self, now: float, code: int, wait_s: float | None, size: int, item: Item) -> float | None:
        """Decide about a request that was read while engaged.

        Args:
            now: the loop's time, seconds.
            code: its request code.
            wait_s: how long its sender waits for the answer; None if that is not known.
            size: bytes of its body.
            item: returned by `next_slice`.

        Returns:
            None: serve it at once. `WAITS`: a later `next_slice` returns it. A number: refuse it, with these seconds to
            wait.
        """
        rank = request_rank(code)
        if rank is Rank.KEEPALIVE:
            return None
        lane = self._lanes[rank]
        if self._n >= MAX_WAITING_REQUESTS or self._bytes + size > MAX_WAITING_BYTES:
            return _retry_after_s(lane, now)
        lane.waiting.append((now, float("inf") if wait_s is None else now + wait_s, size, item))
        self._n += 1
        self._bytes += size
        return WAITS

    def next_slice(self, now: float) -> SliceDecision[Item]:
        """Remove the requests of the next slice, and all that are refused or forgotten instead."""
        control, data = self._lanes[Rank.CONTROL], self._lanes[Rank.DATA]
        decision: SliceDecision[Item] = SliceDecision(
            [], [], [], max(_retry_after_s(control, now), _retry_after_s(data, now))
        )
        kept_for_data = min(len(data.waiting), self._slice // 4)
        self._take(control, now, self._slice - kept_for_data, decision)
        self._take(data, now, self._slice, decision)
        if not self._n and self._on_time:
            self.engaged = False
        return decision

    def _take(self, lane: _Lane[Item], now: float, up_to: int, decision: SliceDecision[Item]) -> None:
        serve, waiting = decision.serve, lane.waiting
        standing = now - lane.empty_at > STANDING_QUEUE_S
        allowed_s = lane.target_s if standing else STANDING_QUEUE_S
        while waiting:
            arrived, retry_ends_at, size, item = waiting[0]
            if retry_ends_at <= now:
                decision.forget.append(item)
            elif now - arrived > min(allowed_s, (retry_ends_at - arrived) / 2):
                # Half of the sender's time has to be left for the work itself and for the answer to arrive.
                decision.refuse.append(item)
            elif len(serve) < up_to:
                serve.append(item)
            else:
                return
            waiting.popleft()
            self._n -= 1
            self._bytes -= size
        lane.empty_at = now


def _retry_after_s(lane: _Lane[Item], now: float) -> float:
    """The pause for refused requests: the time for which the queue has stood, because a long overload ends slowly."""
    return min(MAX_RETRY_AFTER_S, max(MIN_RETRY_AFTER_S, now - lane.empty_at))
