"""Where a message goes that is not delivered from its queue again: to the dead letters, or to the retry topic.

A copy is appended, and the message is ended once that is written. Until then it is in flight for nobody, under a token
that nobody knows: if the copy fails or the broker dies meanwhile, its time ends like that of any other delivery, and it
is tried again. So a crash in between can only copy twice, never lose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.pop.journal import Times
from broker.pop.ledger import GroupQueue, PopLedger
from broker.pop.reads import read_records
from broker.topics.table import TopicEntry
from model.errors import RlabError
from model.events import EventKind
from model.limits import MAX_PULL_BYTES
from model.names import is_retry_topic
from model.record import MAX_TIMES_DELIVERED

if TYPE_CHECKING:
    from broker.broker import Broker

logger = logging.getLogger(__name__)

COPY_TIMEOUT_S = 30.0
"""How long a copy may take to be written before it is tried again."""
_COPIES_PER_TURN = 256


class PopForwarder:
    """Copies of one broker.

    Args:
        broker: its tables.
        ledger: what is in flight.
        new_token: makes up a token.
        changed: called when messages of a window were ended.
    """

    def __init__(
        self,
        broker: Broker,
        ledger: PopLedger,
        new_token: Callable[[GroupQueue], int],
        changed: Callable[[GroupQueue], None],
    ) -> None:
        self._broker = broker
        self._ledger = ledger
        self._new_token = new_token
        self._changed = changed

    def is_draining(self, queue: GroupQueue) -> bool:
        """Whether a member still waits to pull from the queue; those that are none any more are forgotten."""
        info = self._broker.groups.get(queue.key.group)
        members = info.members if info is not None else {}
        for client_id in [client_id for client_id in queue.waiters if client_id not in members]:
            del queue.waiters[client_id]
        return bool(queue.waiters)

    def due(self, queue: GroupQueue, max_n: int, max_attempts: int) -> list[int]:
        """The first messages to be redelivered; those that were delivered `max_attempts` times go to the DLQ instead.

        Raises:
            RlabError: the latter could not be read, or their topic not be created.
        """
        while True:
            offsets, attempts = queue.window.due(max_n)
            before = self._delivered_before(queue, offsets)
            dead = [
                offset for offset, n in zip(offsets, attempts, strict=True) if n + before.get(offset, 0) >= max_attempts
            ]
            if not dead:
                return offsets
            self._copy(queue, dead, is_dead=True)

    def to_retry(self, queue: GroupQueue) -> None:
        """Move what is due to the retry topic: the queue is being handed over, and nothing is delivered from it."""
        try:
            while queue.window.due_count:
                self._copy(queue, queue.window.due(_COPIES_PER_TURN).offsets, is_dead=False)
        except RlabError as error:
            logger.error("messages of %s:%d could not be moved to the retry topic: %s", *queue.key[1:], error)
        self._changed(queue)  # some may not have been there any more

    def _delivered_before(self, queue: GroupQueue, offsets: Sequence[int]) -> dict[int, int]:
        """How often messages of a retry topic were delivered before they came there."""
        entry = self._broker.topics.get(queue.key.topic)
        if entry is None or not is_retry_topic(queue.key.topic):
            return {}
        store, queue_id = self._broker.store, queue.key.queue_id
        records, _ = read_records(store, entry.topic_id, queue_id, offsets, max_bytes=MAX_PULL_BYTES)
        return {record.queue_offset: record.times_delivered for record in records}

    def _copy(self, queue: GroupQueue, offsets: Sequence[int], *, is_dead: bool) -> None:
        broker, ledger, key = self._broker, self._ledger, queue.key
        entry = broker.topics.existing(key.topic)
        records, read = read_records(broker.store, entry.topic_id, key.queue_id, offsets, max_bytes=MAX_PULL_BYTES)
        if read.gone:
            ledger.skip(queue, read.gone)
            broker.barrier.metadata_changed()
        if not records:
            if not read.gone:
                raise AssertionError(f"messages {offsets} of {key} are neither there nor gone")
            return
        target = self._target(key.group, is_dead=is_dead)
        for record in records:
            times = record.times_delivered + queue.window.attempts_of(record.queue_offset)
            times = min(times, MAX_TIMES_DELIVERED)
            broker.store.append(target.topic_id, 0, record.payload, record.tag_hash, times_delivered=times)
        token, now = self._new_token(queue), broker.loop.time()
        ledger.deliver(
            queue,
            read.offsets,
            upto=queue.window.next_offset,
            token=token,
            client_id="",
            times=Times(now, broker.config.clock_ms()),
            invisible_s=COPY_TIMEOUT_S,
        )
        broker.driver.wake_by(now + COPY_TIMEOUT_S)
        written = partial(self._written, queue, token, read.offsets, is_dead)
        broker.barrier.after_append(written, target.config.topic, 0)

    def _target(self, group: str, *, is_dead: bool) -> TopicEntry:
        topics = self._broker.topic_service
        return topics.ensure_dlq(group) if is_dead else topics.ensure_retry(group)

    def _written(
        self, queue: GroupQueue, token: int, offsets: Sequence[int], is_dead: bool, failure: RlabError | None
    ) -> None:
        broker, key = self._broker, queue.key
        if failure is not None:
            logger.error("messages of %s:%d could not be copied: %s", *key[1:], failure)
            return
        if self._ledger.queues.get(key) is not queue:
            return  # the group, the topic or what was in flight was forgotten meanwhile
        self._ledger.ack(queue, token, offsets)
        broker.barrier.metadata_changed()
        if is_dead:
            broker.events.emit(
                EventKind.DEAD_LETTER,
                group=key.group,
                topic=key.topic,
                broker=broker.config.name,
                queue_id=key.queue_id,
                offset=offsets[0],
                n=len(offsets),
            )
        self._changed(queue)
