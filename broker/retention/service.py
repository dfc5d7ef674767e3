"""Deletes old segments, every few seconds and when one is finished; `broker/retention/plan.py` decides which.

It runs on the event loop, because readers and writers must not see half of a deletion. Only the removed files are
closed in a thread, which returns their space: that takes 10 or 20 ms for 64 MiB, and everything else about one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from functools import partial

from broker.durability.metadata import Table
from broker.feature import Core, Feature
from broker.groups.members import Groups
from broker.leases.service import Leases
from broker.retention.clock import Jump, WallClock
from broker.retention.needs import Need, needs_of_groups
from broker.retention.plan import RetentionOptions, TrimPlan, TrimReason, plan_trim, soft_end
from broker.store.disk.errors import StoreError
from broker.store.disk.files import Files
from broker.store.disk.options import MIB
from broker.store.message_store import SegmentSpan
from broker.store.segments.index import LogKey
from broker.topics.service import Topics
from model.events import EventKind
from model.limits import CLOCK_SAVED_MS, MAX_SEGMENTS_PER_TRIM, RETENTION_CHECK_S, RETENTION_INTERVAL_S

logger = logging.getLogger(__name__)

_SCHEMA = "create table if not exists clock_jumps (before_ms integer primary key, size_ms integer not null);"
_SEEN = "clock_seen_ms"
_HOUR_MS = 3_600_000


class Retention(Feature):
    """The retention of one broker; `files` closes removed files, which returns their space."""

    def __init__(
        self, core: Core, topics: Topics, groups: Groups, leases: Leases, options: RetentionOptions, files: Files
    ) -> None:
        self._core = core
        self._store = store = core.store
        self._topics = topics.table
        self._groups = groups.table
        self._leases = leases
        self._options = options
        self._files = files
        now = core.loop.time()
        self._look_at = now + RETENTION_CHECK_S
        self._next_at = now + RETENTION_INTERVAL_S
        self._newest_base = store.newest_base_position
        # A delayed or staged message is needed until its delivery is synced, not only written. `_noted` is (first
        # offsets that are needed, end of the log then); `_waiting_from` is the newest of these notes that is synced.
        self._waiting_from = core.features.kept_from()
        self._noted = (self._waiting_from, store.written_position)
        self._reported_holder: tuple[str, str] | None = None
        core.metadata.add_tables(_SCHEMA)
        self._jumps = Table(core.metadata, "clock_jumps")
        self._clock = WallClock(Jump(*row) for row in self._jumps.rows())
        self._saved_ms = 0
        self._start_clock()

    def _start_clock(self) -> None:
        now_ms = int(self._core.clock_ms())
        # The clock was seen when it was stored, and by each message of an earlier run; the last segment is of this one.
        seen_ms = max(self._core.metadata.number(_SEEN), *(span.newest_ms for span in self._store.spans()[:-1]), 0)
        self._note_jump(self._clock.start(seen_ms or now_ms, now_ms, self._core.loop.time() * 1000))
        self._save_clock(now_ms)

    def _look_at_clock(self, now_ms: int, spans: list[SegmentSpan]) -> list[SegmentSpan]:
        """The spans, with their times on the clock as it is set now."""
        self._note_jump(self._clock.look(now_ms, self._core.loop.time() * 1000))
        self._clock.forget_before(spans[0].newest_ms)
        if abs(now_ms - self._saved_ms) >= CLOCK_SAVED_MS:
            self._save_clock(now_ms)
        return [span._replace(newest_ms=self._clock.stored_ms(span.newest_ms)) for span in spans]

    def _note_jump(self, jump_ms: int) -> None:
        if not jump_ms:
            return
        logger.warning(
            "broker %s: the clock shows %.1f hours %s than it should: it was set, or the machine slept, or this broker "
            "was away; retention does not count that as the age of messages",
            *(self._core.name, abs(jump_ms) / _HOUR_MS, "more" if jump_ms > 0 else "less"),
        )
        self._jumps.replace_all(self._clock.jumps)

    def _save_clock(self, now_ms: int) -> None:
        self._saved_ms = now_ms
        self._core.metadata.save_number(_SEEN, now_ms)
        self._core.barrier.metadata_changed()

    def close(self) -> None:
        """Store what the clock shows."""
        self._save_clock(int(self._core.clock_ms()))

    def next_deadline(self) -> float | None:
        """When to look whether a segment was finished."""
        return self._look_at

    def expire(self, now: float) -> None:
        """Delete what may be deleted when it is time, or when a segment was finished since the last look."""
        if now < self._look_at:
            return
        self._look_at = now + RETENTION_CHECK_S
        newest = self._store.newest_base_position
        # Not before the new segment is on the disk: as long as it is not, the one before it cannot go.
        finished = newest != self._newest_base and self._store.synced_position > newest
        if now >= self._next_at or finished:
            self._newest_base = newest
            self._next_at = now + RETENTION_INTERVAL_S
            self._act()

    def _act(self) -> None:
        now_ms = int(self._core.clock_ms())
        spans = self._look_at_clock(now_ms, self._store.spans())
        waiting_from = self._note_waiting()
        needed, need = self._needed_position(spans, now_ms)
        plan_up_to = partial(plan_trim, spans, now_ms, self._options, needed_position=needed)
        plan = plan_up_to(parked_position=spans[-1].end_position)
        if plan.reasons:
            # Asked only now, of the few segments that would go.
            plan = plan_up_to(parked_position=self._position_of(waiting_from, spans, plan.to_position))
        self._report_holder(plan, need)
        if plan.reasons:
            self._trim(plan, spans)

    def _note_waiting(self) -> dict[LogKey, int]:
        """Queue -> first offset of what the broker itself has still to do."""
        waiting_from, written = self._noted
        now = self._core.features.kept_from()
        if self._store.synced_position >= written:
            self._waiting_from = waiting_from
            self._noted = (now, self._store.written_position)
        earlier = self._waiting_from
        return {key: min(now.get(key, offset), earlier.get(key, offset)) for key, offset in (now | earlier).items()}

    def _needed_position(self, spans: list[SegmentSpan], now_ms: int) -> tuple[int, Need | None]:
        """Log position from which on groups need it, and who does."""
        before = soft_end(spans, now_ms, self._options)
        if before == spans[0].base_position:
            return spans[-1].end_position, None
        try:
            needs = needs_of_groups(self._groups, self._leases.offsets, self._topics, self._store)
            first = self._store.first_needed({key: need.offset for key, need in needs.items()}, before)
        except StoreError as error:
            logger.error("broker %s: retention skipped, needed offsets could not be read: %s", self._core.name, error)
            return spans[0].base_position, None
        if first is None:
            return spans[-1].end_position, None
        return first.position, needs[first.key]

    def _position_of(self, needs: Mapping[LogKey, int], spans: list[SegmentSpan], before: int) -> int:
        try:
            first = self._store.first_needed(needs, before)
        except StoreError as error:
            logger.error("broker %s: retention skipped, delayed messages could not be read: %s", self._core.name, error)
            return spans[0].base_position
        return spans[-1].end_position if first is None else first.position

    def _report_holder(self, plan: TrimPlan, need: Need | None) -> None:
        """Log once which group holds back segments that would be deleted: nothing else shows why a disk fills."""
        holder = (need.group, need.topic) if need is not None and plan.held else None
        if holder is not None and holder != self._reported_holder and need is not None:
            logger.warning(
                "broker %s: group %r has still to read topic %r from offset %d on, and holds back %d segments (%.1f "
                "MiB) that would be deleted; if nobody needs it any more: rlab group delete %s",
                *(self._core.name, need.group, need.topic, need.offset),
                *(plan.held, plan.held_bytes / MIB, need.group),
            )
        self._reported_holder = holder

    def _trim(self, plan: TrimPlan, spans: list[SegmentSpan]) -> None:
        core, store = self._core, self._store
        before = {key: store.min_offset(*key) for key in store.queues()}
        removed: list[int] = []
        try:
            store.trim(spans[min(len(plan.reasons), MAX_SEGMENTS_PER_TRIM) - 1].end_position, removed.append)
        except StoreError as error:
            logger.error("broker %s: %s", core.name, error)
        else:
            if len(plan.reasons) > MAX_SEGMENTS_PER_TRIM:
                self._next_at = core.loop.time()  # go on with the next look
        if removed:
            freeing = core.loop.run_in_executor(None, self._free, removed)
            freeing.add_done_callback(lambda done: done.cancelled() or done.exception())
        left = {span.base_position for span in store.spans()}
        gone = [span for span in spans if span.base_position not in left]
        if not gone:
            return
        messages = sum(store.min_offset(*key) - low for key, low in before.items())
        why = "+".join(dict.fromkeys(plan.reasons[: len(gone)]))
        logger.log(
            logging.WARNING if TrimReason.HARD_LIMIT in plan.reasons else logging.INFO,
            "broker %s deleted %d messages: %d segments, %.1f MiB (%s)",
            *(core.name, messages, len(gone)),
            *((gone[-1].end_position - gone[0].base_position) / MIB, why),
        )
        self._leases.moves.cause = core.emit(EventKind.MESSAGES_DELETED, n=messages, detail=why)

    def _free(self, removed: list[int]) -> None:
        """Close removed files, which returns their space; runs in a thread."""
        for fd in removed:
            with contextlib.suppress(OSError):
                self._files.close(fd)
