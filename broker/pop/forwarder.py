"""Moves popped messages to the DLQ, or to the retry topic, when they are not redelivered from their queue.

A copy is appended, and the message is acknowledged once the copy is written. In between it is invisible under a token
that no client has. If the copy fails or the broker dies, its invisible time ends like that of any other delivery, and
it is copied again: a crash can only copy it twice, never lose it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from broker.durability.answers import WriteCallback
from broker.feature import Core
from broker.groups.members import Groups
from broker.pop.journal import Times
from broker.pop.ledger import GroupQueue, PopLedger
from broker.pop.reads import read_records
from broker.pop.tokens import Tokens
from broker.topics.service import Topics
from model.errors import RlabError
from model.events import EventKind
from model.limits import MAX_PULL_BYTES
from model.names import is_retry_topic
from model.record import MAX_TIMES_DELIVERED, StoredRecord

logger = logging.getLogger(__name__)

COPY_TIMEOUT_S = 30.0
"""How long a copy may take to be written before it is tried again."""
_COPIES_PER_READ = 256


class PopForwarder:
    """Forwards the messages of one broker; calls `forwarded` with a queue of which some have been acknowledged then."""

    def __init__(
        self,
        core: Core,
        topics: Topics,
        groups: Groups,
        ledger: PopLedger,
        tokens: Tokens,
        forwarded: Callable[[GroupQueue], None],
    ) -> None:
        self._core = core
        self._topics = topics
        self._groups = groups.table
        self._ledger = ledger
        self._tokens = tokens
        self._forwarded = forwarded

    def is_draining(self, queue: GroupQueue) -> bool:
        """Whether a member still waits for the lease of a queue; clients that have left the group wait no longer."""
        for client_id in list(queue.waiters):
            if self._groups.find(queue.key.group, client_id) is None:
                del queue.waiters[client_id]
        return bool(queue.waiters)

    def due(self, queue: GroupQueue, max_n: int, max_attempts: int) -> list[int]:
        """The first messages to be redelivered; those that were delivered `max_attempts` times go to the DLQ instead.

        Raises:
            RlabError: the latter could not be read, or their topic not be created.
        """
        while True:
            offsets, attempts = queue.window.due(max_n)
            earlier_attempts = self._delivered_before(queue, offsets)
            dead_offsets = [
                offset
                for offset, n in zip(offsets, attempts, strict=True)
                if n + earlier_attempts.get(offset, 0) >= max_attempts
            ]
            if not dead_offsets:
                return offsets
            self._copy(queue, dead_offsets, is_dead=True)

    def to_retry(self, queue: GroupQueue) -> None:
        """Move the messages that are due to the retry topic, because nothing is delivered from a queue that drains."""
        try:
            while queue.window.due_count:
                self._copy(queue, queue.window.due(_COPIES_PER_READ).offsets, is_dead=False)
        except RlabError as error:
            logger.error("messages of %s:%d could not be moved to the retry topic: %s", *queue.key[1:], error)

    def dead_letter(self, queue: GroupQueue, token: int, offset: int, on_moved: WriteCallback) -> bool:
        """Move one message to the DLQ because its consumer asks for it; returns whether its handle was good.

        `on_moved` is called once the copy is stored and the message acknowledged. If the copy fails, the message is
        visible at once.

        Raises:
            RlabError: it could not be read, or its DLQ not be created; the handle is as good as before.
        """
        core, key = self._core, queue.key
        if not queue.window.holds(token, offset):
            return False
        entry = self._topics.table.existing(key.topic)
        records, _ = read_records(core.store, entry.topic_id, key.queue_id, [offset], max_bytes=MAX_PULL_BYTES)
        if not records:
            return False  # retention has deleted it; the next pop acknowledges it
        target = self._append(queue, records, is_dead=True)
        times, own_token = Times(core.loop.time(), core.clock_ms()), self._tokens.new(queue)
        until = times.now + COPY_TIMEOUT_S
        self._ledger.extend(queue, token, offset, new_token=own_token, times=times, visible_at=until)
        core.driver.wake_by(until)
        core.barrier.after_append(partial(self._dead_letter_written, queue, own_token, offset, on_moved), *target)
        return True

    def _dead_letter_written(
        self, queue: GroupQueue, token: int, offset: int, on_moved: WriteCallback, failure: RlabError | None
    ) -> None:
        self._written(queue, token, [offset], True, failure)
        if failure is not None and self._ledger.queues.get(queue.key) is queue:
            now = self._core.loop.time()
            self._ledger.end_invisible(queue, token, Times(now, self._core.clock_ms()))
            self._core.barrier.metadata_changed()
            self._core.driver.wake_by(now)
        on_moved(failure)

    def _append(self, queue: GroupQueue, records: Sequence[StoredRecord], *, is_dead: bool) -> tuple[str, int]:
        """Append copies; returns topic and queue id of them."""
        key = queue.key
        target = self._topics.ensure_dlq(key.group) if is_dead else self._topics.ensure_retry(key.group)
        target_queue = 0 if is_dead else key.queue_id % self._topics.retry_queues(key.group)
        for record in records:
            times = min(record.times_delivered + queue.window.attempts_of(record.queue_offset), MAX_TIMES_DELIVERED)
            self._core.store.append(
                target.topic_id, target_queue, record.payload, record.tag_hash, times_delivered=times
            )
        return target.config.topic, target_queue

    def _delivered_before(self, queue: GroupQueue, offsets: Sequence[int]) -> dict[int, int]:
        """How often messages of a retry topic were delivered before they were moved to it."""
        entry = self._topics.table.get(queue.key.topic)
        if entry is None or not is_retry_topic(queue.key.topic):
            return {}
        store, queue_id = self._core.store, queue.key.queue_id
        records, _ = read_records(store, entry.topic_id, queue_id, offsets, max_bytes=MAX_PULL_BYTES)
        return {record.queue_offset: record.times_delivered for record in records}

    def _copy(self, queue: GroupQueue, offsets: Sequence[int], *, is_dead: bool) -> None:
        core, ledger, key = self._core, self._ledger, queue.key
        entry = self._topics.table.existing(key.topic)
        records, read = read_records(core.store, entry.topic_id, key.queue_id, offsets, max_bytes=MAX_PULL_BYTES)
        if read.gone:
            ledger.skip(queue, read.gone)
            core.barrier.metadata_changed()
        if not records:
            if not read.gone:
                raise AssertionError(f"messages {offsets} of {key} are neither there nor gone")
            return
        target = self._append(queue, records, is_dead=is_dead)
        token, now = self._tokens.new(queue), core.loop.time()
        ledger.deliver(
            queue,
            read.offsets,
            upto=queue.window.next_offset,
            token=token,
            client_id="",
            times=Times(now, core.clock_ms()),
            invisible_s=COPY_TIMEOUT_S,
        )
        core.driver.wake_by(now + COPY_TIMEOUT_S)
        on_written = partial(self._written, queue, token, read.offsets, is_dead)
        core.barrier.after_append(on_written, *target)

    def _written(
        self, queue: GroupQueue, token: int, offsets: Sequence[int], is_dead: bool, failure: RlabError | None
    ) -> None:
        core, key = self._core, queue.key
        if failure is not None:
            logger.error("messages of %s:%d could not be copied: %s", *key[1:], failure)
            return
        if self._ledger.queues.get(key) is not queue:
            return  # the group, the topic or this queue's window was forgotten since
        self._ledger.ack(queue, token, offsets)
        core.barrier.metadata_changed()
        if is_dead:
            core.emit_queue(EventKind.DEAD_LETTER, key.group, key[1:], offset=offsets[0], n=len(offsets))
        self._forwarded(queue)
