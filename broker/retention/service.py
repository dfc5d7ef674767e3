"""Deletes old segments, every few seconds and when one is finished; `broker/retention/plan.py` decides which.

It runs on the event loop, because readers and writers must not see half of a deletion. Only the removed files are
closed in a thread, which returns their space: that takes 10 or 20 ms for 64 MiB, and everything else about one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from broker.durability.metadata import StoredNumber, Table
from broker.feature import Core, Feature
from broker.groups.members import Groups
from broker.leases.service import Leases
from broker.retention.clock import ClockJump, WallClock
from broker.retention.needs import NeededOffset, needs_of_groups
from broker.retention.plan import RetentionOptions, TrimPlan, TrimReason, plan_trim, soft_end
from broker.store.disk.errors import StoreError
from broker.store.disk.files import Files
from broker.store.disk.options import MIB
from broker.store.message_store import SegmentSpan
from broker.store.segments.index import LogKey
from broker.topics.service import Topics
from model.counted import plural
from model.events import EventKind
from model.limits import CLOCK_SAVED_MS, MAX_SEGMENTS_PER_TRIM, RETENTION_CHECK_S, RETENTION_INTERVAL_S

logger = logging.getLogger(__name__)

_SCHEMA = "create table if not exists clock_jumps (before_ms integer primary key, size_ms integer not null);"
_HOUR_MS = 3_600_000


class HeldSegments(NamedTuple):
    """Segments that the limits would delete, and that are kept because a message in them is still needed."""

    segments: int
    size_bytes: int
    holder: tuple[str, str]  # group, or "" for the broker itself, and topic
    what: str  # begins the sentence about it
    remedy: str

    @property
    def text(self) -> str:
        """One sentence, with the amount."""
        return f"{self.what} {plural(self.segments, 'segment')} ({self.size_bytes / MIB:.1f} MiB) that would be deleted"


NO_HELD_SEGMENTS = HeldSegments(0, 0, ("", ""), "", "")


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
        self._check_at = now + RETENTION_CHECK_S
        self._next_at = now + RETENTION_INTERVAL_S
        self._newest_base = store.newest_base_position
        # A delayed or staged message is needed until its delivery is synced, not only written. `_unsynced_needs` is the
        # first offsets that were needed at one moment, with the end of the log then; `_waiting_from` has the offsets of
        # the newest such moment up to which the log is synced.
        self._waiting_from = core.features.needed_from()
        self._unsynced_needs = (self._waiting_from, store.written_position)
        self._reported: dict[tuple[str, str], None] = {}  # holders that were logged, until nothing is held
        self.held = NO_HELD_SEGMENTS
        core.metadata.add_tables(_SCHEMA)
        # Not replicated, because another replica has another clock.
        self._seen = StoredNumber(core.metadata, "clock_seen_ms", replicated=False)
        self._jumps = Table(core.metadata, "clock_jumps", replicated=False)
        self._clock = WallClock(ClockJump(*row) for row in self._jumps.rows())
        self._saved_ms = 0
        self._start_clock()

    def _start_clock(self) -> None:
        now_ms = int(self._core.clock_ms())
        # The newest known time of earlier runs: stored by the last run, or of a message before this run's segment.
        seen_ms = max(self._seen.read(), *(span.newest_ms for span in self._store.spans()[:-1]), 0)
        self._log_clock_jump(self._clock.start(seen_ms or now_ms, now_ms, self._core.loop.time() * 1000))
        self._save_clock(now_ms)

    def _check_clock(self, now_ms: int, spans: list[SegmentSpan]) -> list[SegmentSpan]:
        """The spans, with their times on the clock as it is set now."""
        self._log_clock_jump(self._clock.check(now_ms, self._core.loop.time() * 1000))
        self._clock.forget_before(spans[0].newest_ms)
        if abs(now_ms - self._saved_ms) >= CLOCK_SAVED_MS:
            self._save_clock(now_ms)
        return [span._replace(newest_ms=self._clock.stored_ms(span.newest_ms)) for span in spans]

    def _log_clock_jump(self, jump_ms: int) -> None:
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
        self._seen.save(now_ms)
        self._core.barrier.metadata_changed()

    def close(self) -> None:
        """Store the time of the wall clock, for the next start."""
        self._save_clock(int(self._core.clock_ms()))

    def next_deadline(self) -> float | None:
        """When to look whether a segment was finished."""
        return self._check_at

    def expire(self, now: float) -> None:
        """Delete the segments of the plan, when a check is due or a segment was finished since the last check."""
        if now < self._check_at:
            return
        self._check_at = now + RETENTION_CHECK_S
        newest = self._store.newest_base_position
        # Wait until the new segment is on the disk: before that, the one before it cannot be deleted.
        finished = newest != self._newest_base and self._store.synced_position > newest
        if now >= self._next_at or finished:
            self._newest_base = newest
            self._next_at = now + RETENTION_INTERVAL_S
            self._act()

    def _act(self) -> None:
        now_ms = int(self._core.clock_ms())
        spans = self._check_clock(now_ms, self._store.spans())
        waiting_from = self._needed_by_features()
        needed, need = self._needed_position(spans, now_ms)
        plan_up_to = partial(plan_trim, spans, now_ms, self._options, needed_position=needed)
        plan = full_plan = plan_up_to(parked_position=spans[-1].end_position)
        needed_queue: LogKey | None = None
        if plan.reasons:
            # Asked only now, of the few segments that would go.
            position, needed_queue = self._first_needed(waiting_from, spans, plan.to_position)
            plan = plan_up_to(parked_position=position)
        self.held = self._held(plan, full_plan, need, needed_queue)
        self._report()
        is_beyond = needed_queue is not None and full_plan.hard_position > plan.to_position
        if (
            needed_queue is not None
            and is_beyond
            and self._core.features.copy_forward(needed_queue, full_plan.hard_position)
        ):
            self._next_at = self._core.loop.time()  # the next check goes on, or deletes the segments that are free then
        if plan.reasons:
            self._trim(plan, spans)

    def _needed_by_features(self) -> dict[LogKey, int]:
        """Queue -> first offset that the broker itself still needs."""
        waiting_from, written_position = self._unsynced_needs
        now = self._core.features.needed_from()
        if self._store.settled_position >= written_position:
            self._waiting_from = waiting_from
            self._unsynced_needs = (now, self._store.written_position)
        earlier = self._waiting_from
        return {key: min(now.get(key, offset), earlier.get(key, offset)) for key, offset in {**now, **earlier}.items()}

    def _needed_position(self, spans: list[SegmentSpan], now_ms: int) -> tuple[int, NeededOffset | None]:
        """Log position of the oldest segment that a group needs, and that group."""
        end_position = soft_end(spans, now_ms, self._options)
        if end_position == spans[0].base_position:
            return spans[-1].end_position, None
        try:
            needs = needs_of_groups(self._groups, self._leases.offsets, self._topics, self._store)
            first = self._store.first_needed({key: need.offset for key, need in needs.items()}, end_position)
        except StoreError as error:
            logger.error("broker %s: retention skipped, needed offsets could not be read: %s", self._core.name, error)
            return spans[0].base_position, None
        if first is None:
            return spans[-1].end_position, None
        return first.position, needs[first.key]

    def _first_needed(
        self, needs: Mapping[LogKey, int], spans: list[SegmentSpan], end_position: int
    ) -> tuple[int, LogKey | None]:
        """Log position of the oldest segment that the broker itself needs, and the queue for which it does."""
        try:
            first = self._store.first_needed(needs, end_position)
        except StoreError as error:
            logger.error("broker %s: retention skipped, delayed messages could not be read: %s", self._core.name, error)
            return spans[0].base_position, None
        return (spans[-1].end_position, None) if first is None else first

    def _held(
        self, plan: TrimPlan, full_plan: TrimPlan, need: NeededOffset | None, needed_queue: LogKey | None
    ) -> HeldSegments:
        """The holder of segments that would be deleted; the broker before a group, because it holds back more."""
        if plan.to_position < full_plan.to_position:
            blocker = None if needed_queue is None else self._core.features.needed_message(needed_queue)
            if blocker is not None:
                segments = len(full_plan.reasons) - len(plan.reasons)
                reason = f"{blocker.what} holds back"
                return HeldSegments(
                    segments, full_plan.to_position - plan.to_position, ("", blocker.topic), reason, blocker.remedy
                )
        elif need is not None and plan.held:
            where = f"topic {need.topic!r} from offset {need.offset} on"
            reason = f"group {need.group!r} has still to read {where}, and holds back"
            remedy = f"if the group is no longer needed: rlab group delete {need.group}"
            return HeldSegments(plan.held, plan.held_bytes, (need.group, need.topic), reason, remedy)
        return NO_HELD_SEGMENTS

    def _report(self) -> None:
        """Log each holder of segments that would be deleted, once: nothing else shows why a disk fills."""
        held_segments = self.held
        if not held_segments.segments:
            self._reported.clear()
        elif held_segments.holder not in self._reported:
            self._reported[held_segments.holder] = None
            logger.warning("broker %s: %s; %s", self._core.name, held_segments.text, held_segments.remedy)

    def _trim(self, plan: TrimPlan, spans: list[SegmentSpan]) -> None:
        core, store = self._core, self._store
        first_offsets = {key: store.min_offset(*key) for key in store.queues()}
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
            freeing.add_done_callback(lambda future: future.cancelled() or future.exception())
        remaining_bases = {span.base_position for span in store.spans()}
        removed_spans = [span for span in spans if span.base_position not in remaining_bases]
        if not removed_spans:
            return
        messages = sum(store.min_offset(*key) - low for key, low in first_offsets.items())
        why = "+".join(dict.fromkeys(plan.reasons[: len(removed_spans)]))
        logger.log(
            logging.WARNING if TrimReason.HARD_LIMIT in plan.reasons else logging.INFO,
            "broker %s deleted %d messages: %d segments, %.1f MiB (%s)",
            *(core.name, messages, len(removed_spans)),
            *((removed_spans[-1].end_position - removed_spans[0].base_position) / MIB, why),
        )
        self._leases.moves.cause = core.emit(EventKind.MESSAGES_DELETED, n=messages, detail=why)

    def _free(self, removed: list[int]) -> None:
        """Close removed files, which returns their space; runs in a thread."""
        for fd in removed:
            with contextlib.suppress(OSError):
                self._files.close(fd)
