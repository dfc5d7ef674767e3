"""Delivers delayed messages when they are due: delayed sends, and failed messages that are tried again.

RocketMQ: ScheduleMessageService, which reads one queue per delay level every 100 ms; here one timer waits for the next
message, and a delay is any number of milliseconds. Delayed messages are stored in the log (`model/names.py`:
SCHEDULE_TOPIC): queue 0 holds the messages, queue 1 a mark for each that was delivered. A delivery and its mark are
written together, so a crash between them can only deliver a message twice, never lose it.

A message whose topic is deleted is dropped: a mark names it at once. So it neither keeps the log until it is due, nor
is delivered to a later topic of the same name. Beyond the hard limit of the log, messages that wait are copied to its
end, with a mark for the original, so that a message with a delay of weeks does not keep the whole log behind it.

If the wall clock is set back, no delay becomes longer: the due times of the waiting messages are moved back by as much.
If it is set ahead, messages become due earlier.

    delayed message  msgpack [due_ms, topic, queue id, tag hash, times delivered, payload]
    mark             msgpack [offset of the delayed message], or of several that went with their topic; of a message
                     that its producer has recalled: [offset, offset before it was copied, -1]

The record of a delayed message has the number of its sharer in the place of the tag hash, by which nothing filters
here: the array has a fixed length, which brokers of earlier commits unpack. A failed message has the complement of the
number, so 0 and -1 mean no sharer.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import msgpack

from broker.durability.answers import WriteCallback
from broker.durability.metadata import StoredNumber
from broker.feature import Core, Destination, Feature, NeededMessage
from broker.retry.delay_table import DelayTable, LowWaterMarks, Sharing
from broker.store.disk.errors import StoreError
from broker.store.records import records_from
from broker.store.segments.index import LogKey
from broker.store.segments.moving import worth_moving
from broker.store.segments.remains import read_remains
from broker.topics.service import Topics
from broker.topics.table import remaining_queue
from model.errors import RlabError
from model.limits import CLOCK_JUMP_MS, MAX_DAMAGE_OWNERS, MAX_DELAYED_MESSAGES, MAX_DELAYED_SENDS
from model.log_lines import LogLines
from model.names import RETRY_PREFIX, SCHEDULE_TOPIC, is_retry_topic
from remoting.overload.shares import Sharer

logger = logging.getLogger(__name__)

DELAYED, MARKS = 0, 1
"""Queues of the schedule topic."""
_AT_ONCE = 256
_BYTES_AT_ONCE = 16 * 1024 * 1024
"""Messages are delivered until they exceed this many bytes, and the others in the next event-loop iteration."""
_RETRY_MS = 1_000
RECALLED = -1
"""The end of the mark of a message that its producer has recalled."""
_LAST_DATE_S = 253_402_300_799
"""The end of the year 9999, beyond which no date is written."""


class Delays(Feature):
    """The delayed messages of one broker; `table` has those that wait."""

    def __init__(self, core: Core, topics: Topics) -> None:
        self._core = core
        self._store = core.store
        self._topics = topics.table
        self.topic_id = self._topics.existing(SCHEDULE_TOPIC).topic_id
        self._dropped = LogLines()
        self._clock_ahead_ms = self._ahead_ms()  # the clock minus the loop's time
        self._low_delayed = StoredNumber(core.metadata, "delay_parked", replicated=True)
        self._low_marks = StoredNumber(core.metadata, "delay_marks", replicated=True)
        low = self._load_low_water()
        self.table = DelayTable(low, MAX_DELAYED_MESSAGES, MAX_DELAYED_SENDS, core.shares)
        self._lost: dict[int, None] = {}  # offsets that the start could not read, and that no mark names
        # Copied or recalled, and not marked yet; with its due time if that has passed.
        self._leaving: dict[int, int | None] = {}
        self._delivering: dict[int, None] = {}  # and not marked yet
        self._recover(low, topics_are_complete=not topics.recreated)

    def __len__(self) -> int:
        return len(self.table)

    def needed_from(self) -> dict[LogKey, int]:
        """The first message that is not delivered; the marks that matter were written after it."""
        return {(self.topic_id, DELAYED): self.table.low_water().delayed}

    def is_waiting(self, offset: int) -> bool:
        """Whether the delayed message at an offset of the schedule topic is still to be delivered."""
        return offset in self.table

    def delay(
        self,
        payload: bytes,
        *,
        topic: str,
        queue_id: int,
        tag_hash: int,
        times_delivered: int,
        due_ms: int,
        sharer: Sharer,
        is_retry: bool = False,
    ) -> int:
        """Store a message until it is due, and deliver it to a queue then; the barrier writes it. Returns its offset.

        Raises:
            SystemBusy: there are too many delayed messages, in all or of this sharer.
        """
        self.table.check_room(sharer, is_retry=is_retry)
        self._check_clock()
        packed = msgpack.packb([due_ms, topic, queue_id, tag_hash, times_delivered, payload])
        sharing = Sharing(sharer.number, is_retry)
        offset = self._store.append(self.topic_id, DELAYED, packed, _tag_of(sharing))
        self.table.hold(sharing)

        def written(failure: RlabError | None) -> None:
            self.table.unhold(sharing)
            if failure is None:
                self.table.add(offset, due_ms, topic, sharing)
                self._core.driver.wake_by(self._loop_time_of(due_ms))

        self._core.barrier.after_append(written, SCHEDULE_TOPIC, DELAYED)
        return offset

    # --- recalled messages -------------------------------------------------------------------------------------------

    def can_leave(self, offset: int) -> bool:
        """Whether a message waits, and is neither copied, recalled nor delivered at the moment."""
        return offset in self.table and offset not in self._leaving and offset not in self._delivering

    def is_leaving(self, offset: int) -> bool:
        """Whether a message is copied or recalled at the moment."""
        return offset in self._leaving

    def leave(self, offset: int, original: int, then: WriteCallback) -> None:
        """Drop a message that can leave; `then` is called once its mark is written, or with the error of the write."""
        self._leaving[offset] = None
        mark = self._store.append(self.topic_id, MARKS, msgpack.packb([offset, original, RECALLED]), 0)

        def written(failure: RlabError | None) -> None:
            overdue = self._leaving.pop(offset)
            if failure is None:
                self.table.done(offset, mark)
            elif overdue is not None:
                self._try_later(offset)
            then(failure)

        self._core.barrier.after_append(written, SCHEDULE_TOPIC, MARKS)

    def read(self, offset: int) -> list[Any] | None:
        """The record of a delayed message, see the module header; None if it is not stored. Raises `StoreError`."""
        record = self._store.read_one(self.topic_id, DELAYED, offset)
        delayed: Any = None if record is None else msgpack.unpackb(record.payload)
        return None if delayed is None else list(delayed)

    # --- deleted topics ----------------------------------------------------------------------------------------------

    def topic_deleted(self, topic: str, cause: str) -> None:
        """Drop the messages that wait for a deleted topic, some at a time, beginning now."""
        if n := self.table.delete_topic(topic):
            text = "broker %s: %d delayed messages for topic %r are dropped: the topic was deleted"
            logger.warning(text, self._core.name, n, topic)
            self._core.driver.wake_by(self._core.loop.time())

    def _drop(self, offsets: list[int]) -> None:
        mark = self._store.append(self.topic_id, MARKS, msgpack.packb(offsets), 0)

        def written(failure: RlabError | None) -> None:
            for offset in offsets:
                if failure is None:
                    self.table.done(offset, mark)
                else:
                    self._try_later(offset)

        self._core.barrier.after_append(written, SCHEDULE_TOPIC, MARKS)

    # --- what keeps the log ------------------------------------------------------------------------------------------

    def needed_message(self, key: LogKey) -> NeededMessage | None:
        """The oldest message that waits."""
        if key != (self.topic_id, DELAYED) or not len(self.table):
            return None
        try:
            delayed = self._read(self.table.low_water().delayed)
        except StoreError:
            delayed = None
        if delayed is None:
            return None
        due_ms, topic, *_ = delayed
        due = datetime.fromtimestamp(min(due_ms / 1000, _LAST_DATE_S), UTC)
        of_group = f"a failed message of group {topic.removeprefix(RETRY_PREFIX)!r}"
        whose = of_group if is_retry_topic(topic) else f"a message for topic {topic!r}"
        return NeededMessage(
            topic,
            f"{whose} that is delayed until {due:%Y-%m-%d %H:%M:%S} UTC",
            "delayed messages go with their topic, and beyond --retain-size-max they are copied to the end of the log",
        )

    def destination_of(self, key: LogKey, offset: int) -> Destination | None:
        """The topic that a damaged message waited for, if it was not delivered before."""
        if key != (self.topic_id, DELAYED):
            return None
        if offset in self.table:
            return Destination("delayed messages", self.table.topic_of(offset) or "")
        if offset not in self._lost:
            return None
        topic: Any = ""
        try:
            remains: Any = msgpack.unpackb(read_remains(self._store.log, key, offset))
            topic = remains[1]
        except (ValueError, TypeError, LookupError, msgpack.UnpackException):
            pass  # the damage is where the names are
        is_known = isinstance(topic, str) and self._topics.get(topic) is not None
        return Destination("delayed messages", topic if is_known else "")

    def copy_forward(self, key: LogKey, end_position: int) -> bool:
        """Copy the messages that wait in the oldest segments, if that frees more than it writes; some at a time."""
        if key != (self.topic_id, DELAYED):
            return False
        bytes_left = _BYTES_AT_ONCE
        try:
            offsets = worth_moving(self._store.log, key, self.table.waiting(), end_position)
            due_times = self.table.due_times(offsets)
            for offset in offsets:
                if offset in due_times and offset not in self._leaving and bytes_left > 0:
                    delayed = self._read(offset)
                    if delayed is not None:
                        bytes_left -= len(delayed[-1])
                        self._move(offset, due_times[offset], delayed)
        except StoreError as error:
            logger.error("broker %s: delayed messages could not be copied forward: %s", self._core.name, error)
            return False
        return bool(offsets)

    def _move(self, offset: int, due_ms: int, delayed: list[Any]) -> None:
        """Copy one message to the end of the log, and mark the original; in this order, so that a crash loses none."""
        self._leaving[offset] = None
        # The time of the table: a clock that was set back has made it another one than that of the original.
        sharing = self.table.sharing_of(offset)
        packed = msgpack.packb([due_ms, *delayed[1:]])
        copy = self._store.append(self.topic_id, DELAYED, packed, _tag_of(sharing))
        mark = self._store.append(self.topic_id, MARKS, msgpack.packb([offset]), 0)

        def written(failure: RlabError | None) -> None:
            overdue = self._leaving.pop(offset)
            if failure is None:
                self.table.add(copy, due_ms, self.table.topic_of(offset), sharing)
                self.table.done(offset, mark)
                self._core.driver.wake_by(self._loop_time_of(due_ms))
            elif overdue is not None:
                self._try_later(offset)

        self._core.barrier.after_append(written, SCHEDULE_TOPIC, DELAYED)

    # --- delivering --------------------------------------------------------------------------------------------------

    def _loop_time_of(self, due_ms: int) -> float:
        return self._core.loop.time() + max(0.0, due_ms - self._core.clock_ms()) / 1000

    def next_deadline(self) -> float | None:
        """When the next message is due, loop time in seconds."""
        due_ms = self.table.next_due_ms()
        return None if due_ms is None else self._loop_time_of(due_ms)

    def expire(self, now: float) -> None:
        """Deliver the messages that are due, some at a time."""
        self._check_clock()
        bytes_left = _BYTES_AT_ONCE
        dropped: list[int] = []
        for due_ms, offset in self.table.remove_due(int(self._core.clock_ms()), _AT_ONCE):
            if offset in self._leaving:
                self._leaving[offset] = due_ms  # its copy is delivered, or it is if that cannot be written
                continue
            if self.table.topic_of(offset) is None:
                dropped.append(offset)
                continue
            if bytes_left <= 0:
                self.table.requeue(offset, due_ms)
                continue
            try:
                delayed = self._read(offset)
            except StoreError as error:
                logger.error("a delayed message could not be read: %s", error)
                self._try_later(offset)
                continue
            if delayed is not None:
                bytes_left -= len(delayed[-1])
                self._deliver_one(offset, delayed)
        if dropped:
            self._drop(dropped)

    def _ahead_ms(self) -> float:
        return self._core.clock_ms() - self._core.loop.time() * 1000

    def _check_clock(self) -> None:
        """Correct the due times if the clock was set back, before a message is added with a time of the new clock."""
        ahead_ms, self._clock_ahead_ms = self._clock_ahead_ms, self._ahead_ms()
        if self._clock_ahead_ms < ahead_ms - CLOCK_JUMP_MS:
            self.table.shift(int(self._clock_ahead_ms - ahead_ms))

    def _try_later(self, offset: int) -> None:
        retry_ms = int(self._core.clock_ms()) + _RETRY_MS
        self.table.requeue(offset, retry_ms)
        self._core.driver.wake_by(self._loop_time_of(retry_ms))

    def _deliver_one(self, offset: int, delayed: list[Any]) -> None:
        _, topic, queue_id, tag_hash, times_delivered, payload = delayed
        entry = self._topics.get(topic)
        self._delivering[offset] = None
        if entry is not None:
            queue_id = remaining_queue(entry.config, queue_id)
            self._store.append(entry.topic_id, queue_id, payload, tag_hash, times_delivered=times_delivered)
        else:
            text = "a delayed message for topic %r is dropped: the topic was deleted"
            self._dropped.warning(logger, self._core.loop.time(), text, topic)
        mark = self._store.append(self.topic_id, MARKS, msgpack.packb([offset]), 0)

        def written(failure: RlabError | None) -> None:
            self._delivering.pop(offset, None)
            if failure is None:
                self.table.done(offset, mark)
            else:
                self._try_later(offset)

        self._core.barrier.after_append(written, topic if entry is not None else SCHEDULE_TOPIC, queue_id)

    def _read(self, offset: int) -> list[Any] | None:
        delayed = self.read(offset)
        if delayed is None:
            logger.error("delayed message %d is no longer stored", offset)
            self.table.forget(offset)  # otherwise retention would keep every later message
        return delayed

    # --- restart -----------------------------------------------------------------------------------------------------

    def _load_low_water(self) -> LowWaterMarks:
        """The stored low water, lowered to the ends of the queues: a power cut may have taken messages.

        The lowered numbers are stored with the next commit, before any new message is acknowledged: it gets the offset
        of a lost one, and the next start would not read it otherwise.
        """
        stored = LowWaterMarks(self._low_delayed.read(), self._low_marks.read())
        low = LowWaterMarks(
            min(stored.delayed, self._store.max_offset(self.topic_id, DELAYED)),
            min(stored.marks, self._store.max_offset(self.topic_id, MARKS)),
        )
        if low != stored:
            logger.warning("delayed messages were lost with the end of the log: %s was stored, it has %s", stored, low)
            self._save(low)
        return low

    def _recover(self, low: LowWaterMarks, *, topics_are_complete: bool) -> None:
        """Find the messages still to be delivered: those from the low water on that have no mark.

        With `topics_are_complete`, an unknown topic was deleted, perhaps just before a crash, so its messages are
        dropped.
        """
        now_ms = int(self._core.clock_ms())
        expected = max(low.delayed, self._store.min_offset(self.topic_id, DELAYED))
        for record in records_from(self._store, self.topic_id, DELAYED, low.delayed):
            self._report_lost(expected, record.queue_offset)
            expected = record.queue_offset + 1
            delayed: Any = msgpack.unpackb(record.payload)
            due_ms: int = delayed[0]
            if due_ms > record.stored_ms > now_ms:
                due_ms = now_ms + due_ms - record.stored_ms  # the clock was set back since
            topic = delayed[1]
            is_there = not topics_are_complete or self._topics.get(topic) is not None
            sharing = _sharing_of_tag(record.tag_hash)
            self.table.add(record.queue_offset, due_ms, topic if is_there else None, sharing)
        self._report_lost(expected, self._store.max_offset(self.topic_id, DELAYED))
        for record in records_from(self._store, self.topic_id, MARKS, low.marks):
            mark: Any = msgpack.unpackb(record.payload)
            for offset in mark:
                if offset != RECALLED:
                    self.table.done(offset, record.queue_offset)
                    self._lost.pop(offset, None)

    def _report_lost(self, first: int, end: int) -> None:
        self._lost.update(dict.fromkeys(range(first, min(end, first + MAX_DAMAGE_OWNERS))))

    def close(self) -> None:
        """Store the offsets from which a restart has to read."""
        self._save(self.table.low_water())

    def _save(self, low: LowWaterMarks) -> None:
        self._low_delayed.save(low.delayed)
        self._low_marks.save(low.marks)
        self._core.barrier.metadata_changed()


def _tag_of(sharing: Sharing) -> int:
    return ~sharing.sharer if sharing.is_retry else sharing.sharer


def _sharing_of_tag(tag: int) -> Sharing:
    return Sharing(~tag, True) if tag < 0 else Sharing(tag, False)
