"""Decides which of the oldest segments retention deletes, and why. Pure.

RocketMQ: CleanCommitLogService, which deletes by age alone, also messages that are not consumed yet (fileReservedTime).
Kafka has a size limit as well (retention.bytes), and also deletes unread messages. Here these two limits are soft: they
never delete messages that a group has still to read. A group that has stopped reading would then fill the disk, and
producers would be refused. For operators who prefer that such a group misses messages there is a hard limit. Not even
the hard limit deletes a delayed or staged message that has not been delivered to its topic yet. Delayed ones are copied
to the end of the log instead, if that frees more than it writes (`broker/store/segments/moving.py`).

    segments          A 100 MiB, 5 days    B 100 MiB, 4 days    C 100 MiB, 1 day    D, being written
    keep 72 h         A and B go
    a group is in B   A goes; B is held back, which is logged
    hard limit 150 M  A and B go, then C as well: 100 MiB and the messages in D remain

Only the oldest segments go, never one from the middle, and never the one that is being written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from model.errors import ConfigError

if TYPE_CHECKING:
    from broker.store.message_store import SegmentSpan

RETAIN_MS = 72 * 3600 * 1000
"""Three days. RocketMQ: fileReservedTime."""


class TrimReason(StrEnum):
    """Why a segment is deleted."""

    AGE = "age"
    SIZE = "size"
    HARD_LIMIT = "hard limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """How much of the log is kept. Bytes are those of the log, without its indexes.

    Attributes:
        retain_ms: soft: segments whose newest message is older go; None keeps them for ever.
        retain_bytes: soft: the oldest segments go while the log is longer; None for any length.
        retain_bytes_max: hard: the oldest segments go while the log is longer, also if groups have still to read them;
            None for any length.

    Raises:
        ConfigError: a limit that is not positive, or a hard one below the soft one.
    """

    retain_ms: int | None = RETAIN_MS
    retain_bytes: int | None = None
    retain_bytes_max: int | None = None

    def __post_init__(self) -> None:
        for name in ("retain_ms", "retain_bytes", "retain_bytes_max"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name}={value}: a limit must be positive; leave it out to keep everything")
        soft, hard = self.retain_bytes, self.retain_bytes_max
        if soft is not None and hard is not None and hard < soft:
            raise ConfigError(
                f"retain_bytes_max={hard} is less than retain_bytes={soft}: the hard limit would always come first; "
                "raise it, or leave the soft one out"
            )

    def check_segments(self, segment_bytes: int) -> None:
        """Refuse a hard limit that segments of this size cannot keep.

        Raises:
            ConfigError: it is less than two of them: the one that is written, and one that can go.
        """
        hard = self.retain_bytes_max
        if hard is not None and hard < 2 * segment_bytes:
            raise ConfigError(
                f"retain_bytes_max={hard} is less than two segments of {segment_bytes} bytes, and whole segments are "
                "removed: make the segments smaller, or the limit larger"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimPlan:
    """The segments to delete now."""

    to_position: int  # log position; segments that end at or before it go
    reasons: tuple[TrimReason, ...]  # why, one for each segment that goes, oldest first
    held: int  # number of further segments that the soft limits would delete if no group had to read them
    held_bytes: int  # bytes of these segments
    hard_position: int  # log position up to which the hard limit takes segments; 0 if it takes none


def soft_end(segments: Sequence[SegmentSpan], now_ms: int, options: RetentionOptions) -> int:
    """Return the log position up to which the soft limits would delete segments if no group had to read them."""
    end = segments[0].base_position
    for segment in segments[:-1]:
        if _soft_reason(segment, segments[-1].end_position, now_ms, options) is None:
            break
        end = segment.end_position
    return end


def plan_trim(
    segments: Sequence[SegmentSpan],
    now_ms: int,
    options: RetentionOptions,
    *,
    needed_position: int,
    parked_position: int,
) -> TrimPlan:
    """Decide which segments go; the last of them, of which there is at least one, is being written.

    `needed_position` is the log position of the first segment that a group has still to read, or any greater one;
    `parked_position` is the same for delayed and staged messages that are not delivered yet.

    Returns:
        The plan; nothing is to be removed when `to_position` is where the log begins.
    """
    log_end = segments[-1].end_position
    to_position = segments[0].base_position
    hard_position = 0
    reasons: list[TrimReason] = []
    for segment in segments[:-1]:
        reason = _soft_reason(segment, log_end, now_ms, options)
        if reason is None or segment.end_position > needed_position:
            reason = TrimReason.HARD_LIMIT if _is_over(options.retain_bytes_max, log_end, segment) else None
        if reason is None or segment.end_position > parked_position:
            break
        reasons.append(reason)
        to_position = segment.end_position
        if _is_over(options.retain_bytes_max, log_end, segment):
            hard_position = to_position
    wanted_end = soft_end(segments, now_ms, options)
    n_held = sum(to_position < segment.end_position <= wanted_end for segment in segments)
    held_bytes = max(0, wanted_end - to_position)
    return TrimPlan(
        to_position=to_position,
        reasons=tuple(reasons),
        held=n_held,
        held_bytes=held_bytes,
        hard_position=hard_position,
    )


def _soft_reason(segment: SegmentSpan, log_end: int, now_ms: int, options: RetentionOptions) -> TrimReason | None:
    if options.retain_ms is not None and now_ms - segment.newest_ms > options.retain_ms:
        return TrimReason.AGE
    return TrimReason.SIZE if _is_over(options.retain_bytes, log_end, segment) else None


def _is_over(limit: int | None, log_end: int, oldest: SegmentSpan) -> bool:
    """Whether the log is longer than a limit when it begins with this segment."""
    return limit is not None and log_end - oldest.base_position > limit
