"""Computes the offset to which a reset sets a group on a queue. RocketMQ: ResetOffsetByTimeCommand.

A queue has offsets from `low`, inclusive, to `high`, exclusive; a committed offset may be anywhere from `low` to
`high`. A reset beyond either end goes to that end, and `QueueReset.clamped` records that.

    low 10, high 50, committed 30     earliest 10   latest 50   offset 7 -> 10   shift -5 -> 25   shift +100 -> 50
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from model.arguments import short_repr
from model.errors import InvalidParameter
from model.message_queue import MessageQueue

MAX_VALUE = 2**63 - 1
"""The largest offset, time or distance that is accepted."""


class ResetKind(StrEnum):
    """Ways to name the new offset."""

    EARLIEST = "earliest"
    """The oldest message that is still stored."""
    LATEST = "latest"
    """After the newest message: everything that is stored now is skipped."""
    TIME = "time"
    """The first message that was stored at or after a time."""
    OFFSET = "offset"
    """This offset."""
    SHIFT = "shift"
    """A distance from the committed offset; backward if negative."""


@dataclass(frozen=True, slots=True)
class ResetTo:
    """The target of a reset.

    Attributes:
        value: wall clock in milliseconds, the offset, or the distance; 0 for the kinds that need none.

    Raises:
        InvalidParameter: a time or offset below 0, or a number too large.
    """

    kind: ResetKind
    value: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise InvalidParameter(f"the value of a reset must be a whole number, got {short_repr(self.value)}")
        if abs(self.value) > MAX_VALUE or (self.value < 0 and self.kind is not ResetKind.SHIFT):
            raise InvalidParameter(f"a reset to {self.kind} cannot have the value {self.value}")

    @classmethod
    def earliest(cls) -> ResetTo:
        """To the oldest message."""
        return cls(ResetKind.EARLIEST)

    @classmethod
    def latest(cls) -> ResetTo:
        """After the newest message."""
        return cls(ResetKind.LATEST)

    @classmethod
    def time(cls, timestamp_ms: int) -> ResetTo:
        """To the first message stored at or after a time, wall clock in milliseconds."""
        return cls(ResetKind.TIME, timestamp_ms)

    @classmethod
    def offset(cls, offset: int) -> ResetTo:
        """To an offset."""
        return cls(ResetKind.OFFSET, offset)

    @classmethod
    def shift(cls, by: int) -> ResetTo:
        """By a distance from the committed offset."""
        return cls(ResetKind.SHIFT, by)

    def offset_in(self, low: int, high: int, committed: int | None, offset_at: Callable[[int], int]) -> int:
        """Return the offset that the target means on one queue with offsets [low, high); it may be outside that range.

        `committed` is None if the group has committed nothing there; `offset_at` returns the first offset stored at or
        after a time in milliseconds, `high` if there is none.

        Raises:
            InvalidParameter: a shift of a group that has committed nothing.
        """
        match self.kind:
            case ResetKind.EARLIEST:
                return low
            case ResetKind.LATEST:
                return high
            case ResetKind.TIME:
                return offset_at(self.value)
            case ResetKind.OFFSET:
                return self.value
            case ResetKind.SHIFT:
                if committed is None:
                    raise InvalidParameter("the group has committed nothing there, so there is nothing to shift from")
                return committed + self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReset:
    """The effect of a reset on one queue.

    Attributes:
        before, after: the committed offsets before and after the reset; `before` is None if the group had none.
        clamped: whether the requested offset was beyond an end of the queue.
        owner: client id of the member that owned the queue; None without one.
    """

    queue: MessageQueue
    before: int | None
    after: int
    clamped: bool
    owner: str | None
