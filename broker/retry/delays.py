"""Delivers delayed messages when they are due: delayed sends, and failed messages that are tried again.

RocketMQ: ScheduleMessageService, which reads one queue per delay level every 100 ms; here one timer waits for the next
message, and a delay is any number of milliseconds. Delayed messages are stored in the log (`model/names.py`:
SCHEDULE_TOPIC): queue 0 holds the messages, queue 1 a mark for each that was delivered. A delivery and its mark are
written together, so a crash between them can only deliver a message twice, never lose it.

A clock that is set back makes no delay longer: the messages that wait are due as much earlier. One that is set ahead
makes them due.

    delayed message  msgpack [due_ms, topic, queue id, tag hash, times delivered, payload]
    mark             msgpack [offset of the delayed message]
"""

from __future__ import annotations

import logging
from typing import Any

import msgpack

from broker.feature import Core, Feature
from broker.retry.delay_table import DelayTable, LowWater
from broker.store.disk.errors import StoreError
from broker.store.records import records_from
from broker.store.segments.index import LogKey
from broker.topics.service import Topics
from broker.topics.table import queue_that_is_left
from model.errors import RlabError
from model.limits import CLOCK_JUMP_MS
from model.log_lines import LogLines
from model.names import SCHEDULE_TOPIC

logger = logging.getLogger(__name__)

DELAYED, MARKS = 0, 1
"""Queues of the schedule topic."""
_AT_ONCE = 256
_BYTES_AT_ONCE = 16 * 1024 * 1024
"""Messages are delivered until they have so many bytes, and the others in the next event-loop iteration."""
_RETRY_MS = 1_000


class Delays(Feature):
    """The delayed messages of one broker."""

    def __init__(self, core: Core, topics: Topics) -> None:
        self._core = core
        self._store = core.store
        self._topics = topics.table
        self._topic_id = self._topics.existing(SCHEDULE_TOPIC).topic_id
        self._dropped = LogLines()
        self._clock_ahead_ms = self._ahead_ms()  # of the loop's time
        low = self._load_low_water()
        self._table = DelayTable(low)
        self._recover(low)

    def __len__(self) -> int:
        return len(self._table)

    def kept_from(self) -> dict[LogKey, int]:
        """The first message that is not delivered; the marks that matter were written after it."""
        return {(self._topic_id, DELAYED): self._table.low_water().delayed}

    def is_waiting(self, offset: int) -> bool:
        """Whether the delayed message at an offset of the schedule topic is still to be delivered."""
        return offset in self._table

    def delay(
        self, payload: bytes, *, topic: str, queue_id: int, tag_hash: int, times_delivered: int, due_ms: int
    ) -> None:
        """Store a message until it is due, and deliver it to a queue then; the barrier writes it.

        Raises:
            SystemBusy: there are too many delayed messages.
        """
        self._table.check_room()
        self._look_at_clock()
        packed = msgpack.packb([due_ms, topic, queue_id, tag_hash, times_delivered, payload])
        offset = self._store.append(self._topic_id, DELAYED, packed, 0)

        def written(failure: RlabError | None) -> None:
            if failure is None:
                self._table.add(offset, due_ms)
                self._core.driver.wake_by(self._loop_time_of(due_ms))

        self._core.barrier.after_append(written, SCHEDULE_TOPIC, DELAYED)

    # --- delivering --------------------------------------------------------------------------------------------------

    def _loop_time_of(self, due_ms: int) -> float:
        return self._core.loop.time() + max(0.0, due_ms - self._core.clock_ms()) / 1000

    def next_deadline(self) -> float | None:
        """When the next message is due, loop time in seconds."""
        due_ms = self._table.next_due_ms()
        return None if due_ms is None else self._loop_time_of(due_ms)

    def expire(self, now: float) -> None:
        """Deliver the messages that are due, some at a time."""
        self._look_at_clock()
        room = _BYTES_AT_ONCE
        for due_ms, offset in self._table.take_due(int(self._core.clock_ms()), _AT_ONCE):
            if room <= 0:
                self._table.put_back(offset, due_ms)
                continue
            try:
                delayed = self._read(offset)
            except StoreError as error:
                logger.error("a delayed message could not be read: %s", error)
                self._try_later(offset)
                continue
            if delayed is not None:
                room -= len(delayed[-1])
                self._deliver_one(offset, delayed)

    def _ahead_ms(self) -> float:
        return self._core.clock_ms() - self._core.loop.time() * 1000

    def _look_at_clock(self) -> None:
        """Notice that the clock was set back, before a message is added whose time is one of the new clock."""
        before, self._clock_ahead_ms = self._clock_ahead_ms, self._ahead_ms()
        if self._clock_ahead_ms < before - CLOCK_JUMP_MS:
            self._table.shift(int(self._clock_ahead_ms - before))

    def _try_later(self, offset: int) -> None:
        retry_ms = int(self._core.clock_ms()) + _RETRY_MS
        self._table.put_back(offset, retry_ms)
        self._core.driver.wake_by(self._loop_time_of(retry_ms))

    def _deliver_one(self, offset: int, delayed: list[Any]) -> None:
        _, topic, queue_id, tag_hash, times_delivered, payload = delayed
        entry = self._topics.get(topic)
        if entry is not None:
            queue_id = queue_that_is_left(entry.config, queue_id)
            self._store.append(entry.topic_id, queue_id, payload, tag_hash, times_delivered=times_delivered)
        else:
            text = "a delayed message for topic %r is dropped: the topic was deleted"
            self._dropped.warning(logger, self._core.loop.time(), text, topic)
        mark = self._store.append(self._topic_id, MARKS, msgpack.packb([offset]), 0)

        def written(failure: RlabError | None) -> None:
            if failure is None:
                self._table.done(offset, mark)
            else:
                self._try_later(offset)

        self._core.barrier.after_append(written, topic if entry is not None else SCHEDULE_TOPIC, queue_id)

    def _read(self, offset: int) -> list[Any] | None:
        record = self._store.read_one(self._topic_id, DELAYED, offset)
        if record is None:
            logger.error("delayed message %d is no longer stored", offset)
            self._table.forget(offset)  # or retention would keep all that follows it
            return None
        delayed: Any = msgpack.unpackb(record.payload)
        return list(delayed)

    # --- restart -----------------------------------------------------------------------------------------------------

    def _load_low_water(self) -> LowWater:
        """The stored low water, lowered to the ends of the queues: a power cut may have taken messages.

        The lowered numbers are stored with the next commit, before any new message is acknowledged: it gets the offset
        of a lost one, and the next start would not read it otherwise.
        """
        noted = LowWater(self._core.metadata.number("delay_parked"), self._core.metadata.number("delay_marks"))
        low = LowWater(
            min(noted.delayed, self._store.max_offset(self._topic_id, DELAYED)),
            min(noted.marks, self._store.max_offset(self._topic_id, MARKS)),
        )
        if low != noted:
            logger.warning("delayed messages were lost with the end of the log: %s was stored, it has %s", noted, low)
            self._save(low)
        return low

    def _recover(self, low: LowWater) -> None:
        """Find the messages still to be delivered: those from the low water on that have no mark."""
        now_ms = int(self._core.clock_ms())
        for record in records_from(self._store, self._topic_id, DELAYED, low.delayed):
            delayed: Any = msgpack.unpackb(record.payload)
            due_ms: int = delayed[0]
            if due_ms > record.stored_ms > now_ms:
                due_ms = now_ms + due_ms - record.stored_ms  # the clock was set back since
            self._table.add(record.queue_offset, due_ms)
        for record in records_from(self._store, self._topic_id, MARKS, low.marks):
            mark: Any = msgpack.unpackb(record.payload)
            self._table.done(mark[0], record.queue_offset)

    def close(self) -> None:
        """Store from where on a restart has to look."""
        self._save(self._table.low_water())

    def _save(self, low: LowWater) -> None:
        self._core.metadata.save_number("delay_parked", low.delayed)
        self._core.metadata.save_number("delay_marks", low.marks)
        self._core.barrier.metadata_changed()
