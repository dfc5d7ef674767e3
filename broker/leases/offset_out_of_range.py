"""Reports pulls and pops that miss messages: one OFFSET_MOVED event for each, repeats suppressed. Pure.

Such a request names an offset at which the broker has no message, or damaged messages follow its offset. The answer of
a pull is PULL_OFFSET_MOVED with the offset at which the consumer continues, which is all that it needs. The event is
for operators, who have to see that a group skipped messages.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from broker.store.read_result import ReadResult, ReadStatus
from model.event_log import EventLog
from model.events import EventKind
from model.limits import MAX_REPORTED_MOVES
from model.log_lines import LogLines

logger = logging.getLogger(__name__)

REPORT_AGAIN_S = 60.0
"""After this time a consumer is reported again if it has the same offset still, or was reset to it."""


class OffsetOutOfRangeReporter:
    """Reports for one broker, and remembers its recent reports."""

    def __init__(self, broker_name: str, events: EventLog) -> None:
        self.cause = ""  # id of the event of the newest deletion, "" if there was none since the start
        self._broker_name = broker_name
        self._events = events
        self._lines = LogLines()
        # (group, topic, queue id) -> (offset asked for, offset to go on from, when it was reported), the newest last
        self._reported: dict[tuple[str, str, int], tuple[int, int, float]] = {}

    def record(self, header: Mapping[str, Any], result: ReadResult, now: float) -> None:
        """Record a pull, by its request header, that was answered with another offset."""
        if self._is_repeated(header, result, now):
            return
        group, topic, queue_id, asked_offset = header["group"], header["topic"], header["queue_id"], header["offset"]
        deleted = result.status is ReadStatus.OFFSET_TOO_SMALL
        skipped = result.next_offset - asked_offset if deleted else 0
        if deleted:
            text = (
                "broker %s: group %r is behind the deleted messages on %s:%d: it continues at %d, not %d, and misses %d"
            )
            values: tuple[object, ...] = (result.next_offset, asked_offset, skipped)
        else:
            text = "broker %s: group %r asked %s:%d for offset %d, which is beyond its end: it continues at %d"
            values = (asked_offset, result.next_offset)
        self._lines.warning(logger, now, text, self._broker_name, group, topic, queue_id, *values)
        self._emit(
            header,
            result,
            cause=self.cause if deleted else "",
            n=skipped,
            detail="deleted" if deleted else "beyond the end",
        )

    def record_damaged(self, header: Mapping[str, Any], result: ReadResult, damaged: int, now: float) -> None:
        """Record a pull that was answered with an offset after damaged messages."""
        if self._is_repeated(header, result, now):
            return
        text = "broker %s: group %r misses %d of offsets %d to %d of %s:%d, which are damaged or missing"
        offsets, queue = (header["offset"], result.next_offset - 1), (header["topic"], header["queue_id"])
        self._lines.warning(logger, now, text, self._broker_name, header["group"], damaged, *offsets, *queue)
        self._emit(header, result, cause="", n=damaged, detail="damaged")

    def _is_repeated(self, header: Mapping[str, Any], result: ReadResult, now: float) -> bool:
        """Whether this move was reported a short time ago; if not, it is recorded as reported now."""
        key, asked_offset = (header["group"], header["topic"], header["queue_id"]), header["offset"]
        last_report = self._reported.pop(key, None)
        if (
            last_report is not None
            and last_report[:2] == (asked_offset, result.next_offset)
            and now - last_report[2] < REPORT_AGAIN_S
        ):
            self._reported[key] = last_report
            return True
        self._reported[key] = (asked_offset, result.next_offset, now)
        if len(self._reported) > MAX_REPORTED_MOVES:
            del self._reported[next(iter(self._reported))]
        return False

    def _emit(self, header: Mapping[str, Any], result: ReadResult, *, cause: str, n: int, detail: str) -> None:
        self._events.emit(
            EventKind.OFFSET_MOVED,
            cause=cause,
            group=header["group"],
            topic=header["topic"],
            broker=self._broker_name,
            queue_id=header["queue_id"],
            client=header.get("client_id") or "",
            offset=result.next_offset,
            n=n,
            detail=detail,
        )
