"""The half messages that are not ended, and the times at which producers are asked about them. Pure.

A half message is known by its offset in the half queue. Batches arrive in the order of their offsets, and become due
together, so the heap has one entry for a batch and not for a message.

    t=0    halves 0 and 1 arrive      open, due at 6
    t=2    0 is committed             `begin_end`, the log is written, `ended`
    t=6    1 is due                   CHECK; `checked` makes it due at 36
    t=36   it is still open           CHECK again, up to 15 times; then GIVE_UP
    t=36   its group has no producer  `wait`: not counted; due at 66, or as soon as one comes

The end of a half message is not final until the log has it. Between `begin_end` and `ended` the message is not open, so
no producer is asked about it, and not forgotten, because a failed write opens it again. A second end changes nothing.

RocketMQ: TransactionalMessageServiceImpl, which reads all open half messages in each check, and writes each one that it
has asked about again at the end of the queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from model.errors import ConfigError, SystemBusy
from model.limits import (
    MAX_OPEN_TRANSACTIONS,
    MAX_TRANSACTION_CHECKS,
    TRANSACTION_CHECK_INTERVAL_S,
    TRANSACTION_KEEP_H,
    TRANSACTION_TIMEOUT_S,
)
from remoting.overload.shares import NO_SHARER, ShareBook, Sharer


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOptions:
    """When a broker asks about transactions, and when it abandons them.

    Attributes:
        timeout_s: time after which a half message is asked about first, unless it has one of its own.
        check_interval_s: time until it is asked about again.
        max_checks: how often it is asked about.
        keep_h: hours after which it is abandoned, asked about or not.

    Raises:
        ConfigError: a value that is not positive.
    """

    timeout_s: float = TRANSACTION_TIMEOUT_S
    check_interval_s: float = TRANSACTION_CHECK_INTERVAL_S
    max_checks: int = MAX_TRANSACTION_CHECKS
    keep_h: float = TRANSACTION_KEEP_H

    def __post_init__(self) -> None:
        for name in ("timeout_s", "check_interval_s", "max_checks", "keep_h"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ConfigError(f"transaction_{name}={value}: it must be positive")


class AbandonReason(StrEnum):
    """The reason to abandon a half message that is due; `NOT_YET`: none, so a producer is asked about it."""

    NOT_YET = ""
    CHECKS = "checks"
    AGE = "age"


@dataclass(slots=True)
class OpenHalf:
    """A half message that is not ended. Times are loop time in seconds."""

    group: str
    cause: str
    client: int  # number of the client that sent it, 0 if that was to an earlier run
    born: float
    due: float
    checks: int = 0
    waits: bool = False  # for a producer of its group
    sharer: int = 0  # number of the sender, see `remoting/overload/shares.py`


def producers_to_ask(producers: Sequence[int], half: OpenHalf, offset: int) -> list[int]:
    """Return the numbers of a group's producers, in the order in which they are to be tried for the next check.

    The producer that sent the message comes first, because it knows whether its local transaction still runs. Each
    further check begins with the next producer.
    """
    first = producers.index(half.client) if half.client in producers else offset % len(producers)
    turn = (first + half.checks) % len(producers)
    return [*producers[turn:], *producers[:turn]]


class DueHalf(NamedTuple):
    """A half message whose time has come: to be asked about, or abandoned."""

    offset: int
    half: OpenHalf
    give_up: AbandonReason


_TAKEN = float("inf")
"""The due time of a half message that `remove_due` has returned, until the caller sets another time."""
_Batch = tuple[float, int, Sequence[int]]
"""The due time, a number that makes entries comparable, and the offsets."""


class TransactionTable:
    """The open half messages of one broker, by offset."""

    def __init__(
        self, options: TransactionOptions, max_open: int = MAX_OPEN_TRANSACTIONS, shares: ShareBook | None = None
    ) -> None:
        self.options = options
        self._keep_s = options.keep_h * 3600
        self._max_open = max_open
        self.shares = (shares or ShareBook()).of("open transactions", max_open, "end some, or retry later")
        self._open: dict[int, OpenHalf] = {}  # in the order of the offsets, but for those that were put back
        self._ending: dict[int, OpenHalf] = {}
        self._heap: list[_Batch] = []
        self._pushed = 0
        self._waiting: dict[str, dict[int, None]] = {}  # group -> offsets that wait for a producer of it

    def __len__(self) -> int:
        return len(self._open) + len(self._ending)

    def __iter__(self) -> Iterator[tuple[int, OpenHalf]]:
        """All half messages whose end is not in the log, in no particular order."""
        yield from self._open.items()
        yield from self._ending.items()

    def get(self, offset: int) -> OpenHalf | None:
        """The half message at an offset, if it is open."""
        return self._open.get(offset)

    def waiting(self) -> dict[str, int]:
        """Group -> how many of its half messages are due, and wait for a producer that can be asked."""
        return {group: len(offsets) for group, offsets in self._waiting.items()}

    def first(self) -> int | None:
        """The lowest offset of a half message whose end is not in the log."""
        return min((offset for offset, _ in self), default=None)

    # --- arrival and end ---------------------------------------------------------------------------------------------

    def check_room(self, n: int, sharer: Sharer = NO_SHARER) -> None:
        """Check that there is room for more.

        Raises:
            SystemBusy: there are too many, in all or of this sharer.
        """
        if len(self) + n > self._max_open:
            raise SystemBusy(
                f"this broker has {len(self)} open transactions, at most {self._max_open}: end some, or retry later"
            )
        self.shares.check(sharer, n)

    def add(self, offset: int, half: OpenHalf) -> None:
        """Add one half message, with an entry of its own in the heap."""
        self._open[offset] = half
        self.shares.add(half.sharer)
        self._push(half.due, (offset,))

    def add_batch(self, first: int, n: int, half: OpenHalf) -> None:
        """Add half messages with consecutive offsets that are all alike; each is due at the same time."""
        offsets = range(first, first + n)
        # One record for all of them, until one is due: then it gets its own. Most are ended before.
        self._open.update(dict.fromkeys(offsets, half))
        self.shares.add(half.sharer, n)
        self._push(half.due, offsets)

    def begin_end(self, offset: int) -> None:
        """Take an open half message whose end is being written; `ended` or `reopen` follows."""
        half = self._ending[offset] = self._open.pop(offset)
        if half.waits:
            self._stop_waiting(offset, half)

    def ended(self, offsets: Iterable[int]) -> None:
        """Forget half messages: their end is written."""
        for offset in offsets:
            self.shares.remove(self._ending.pop(offset).sharer)

    def reopen(self, offsets: Sequence[int], now: float) -> None:
        """Open half messages again: their end could not be written."""
        due = now + self.options.check_interval_s
        for offset in offsets:
            self._open[offset] = replace(self._ending.pop(offset), due=due)
        self._push(due, offsets)

    # --- checks ------------------------------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return a time before which no half message is due; None without open half messages."""
        return self._heap[0][0] if self._heap else None

    def remove_due(self, now: float, limit: int) -> list[DueHalf]:
        """Return half messages that are due, at most `limit`.

        Each is then `checked`, ended, or passed to `wait`; those behind the limit stay due.
        """
        due: list[DueHalf] = []
        while len(due) < limit and self._heap and self._heap[0][0] <= now:
            due_at, _, offsets = heapq.heappop(self._heap)
            for n, offset in enumerate(offsets):
                if len(due) == limit:
                    self._push(due_at, offsets[n:])
                    break
                half = self._open.get(offset)
                if half is not None and half.due == due_at:  # otherwise it has ended, or is due at another time
                    # A record of its own, which is not due: another entry of the heap may have the same time.
                    half = self._open[offset] = replace(half, due=_TAKEN)
                    due.append(DueHalf(offset, half, self._judge(half, now)))
        return due

    def _judge(self, half: OpenHalf, now: float) -> AbandonReason:
        if now - half.born >= self._keep_s:
            return AbandonReason.AGE
        return AbandonReason.CHECKS if half.checks >= self.options.max_checks else AbandonReason.NOT_YET

    def checked(self, offsets: Sequence[int], now: float) -> None:
        """Count a check of open half messages; they are due again after the interval."""
        due = now + self.options.check_interval_s
        for offset in offsets:
            half = self._open[offset]
            half.checks += 1
            half.due = due
            if half.waits:
                self._stop_waiting(offset, half)
        self._push(due, offsets)

    def wait(self, offsets: Sequence[int], now: float) -> None:
        """Let half messages wait for a producer of their group; that counts as no check."""
        due = now + self.options.check_interval_s
        for offset in offsets:
            half = self._open[offset]
            half.due = due
            if not half.waits:
                half.waits = True
                self._waiting.setdefault(half.group, {})[offset] = None
        self._push(due, offsets)

    def later(self, offsets: Sequence[int], due: float) -> None:
        """Let half messages be due again at another time; that counts as no check."""
        for offset in offsets:
            self._open[offset].due = due
        self._push(due, offsets)

    def producer_joined(self, group: str, now: float) -> bool:
        """Make what waits for a producer of this group due; returns whether anything did."""
        offsets = self._waiting.pop(group, None)
        if offsets is None:
            return False
        for offset in offsets:
            half = self._open[offset]
            half.waits, half.due = False, now
        self._push(now, tuple(offsets))
        return True

    def _stop_waiting(self, offset: int, half: OpenHalf) -> None:
        half.waits = False
        waiting = self._waiting[half.group]
        del waiting[offset]
        if not waiting:
            del self._waiting[half.group]

    def _push(self, due: float, offsets: Sequence[int]) -> None:
        if offsets:
            self._pushed += 1
            heapq.heappush(self._heap, (due, self._pushed, offsets))
