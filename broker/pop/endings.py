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
from broker.pop.ledger import PopLedger, PopWindow
from broker.pop.reads import read_records
from broker.topics.table import TopicEntry
from model.errors import RlabError
from model.events import EventKind
from model.limits import MAX_PULL_BYTES
from model.names import dlq_topic, is_retry_topic, retry_topic
from model.record import MAX_TIMES_DELIVERED

if TYPE_CHECKING:
    from broker.broker import Broker

logger = logging.getLogger(__name__)

COPY_TIMEOUT_S = 30.0
"""How long a copy may take to be written before it is tried again."""
_COPIES_PER_TURN = 256


class PopEndings:
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
        new_token: Callable[[PopWindow], int],
        changed: Callable[[PopWindow], None],
    ) -> None:
        self._broker = broker
        self._ledger = ledger
        self._new_token = new_token
        self._changed = changed

    def is_draining(self, window: PopWindow) -> bool:
        """Whether a member still waits to pull from the queue; those that are none any more are forgotten."""
        info = self._broker.groups.get(window.key.group)
        members = info.members if info is not None else {}
        for client_id in [client_id for client_id in window.waiters if client_id not in members]:
            del window.waiters[client_id]
        return bool(window.waiters)

    def due(self, window: PopWindow, max_n: int, max_attempts: int) -> list[int]:
        """Messages to be delivered again; those that were delivered too often become dead letters.

        Args:
            window: of which queue.
            max_n: so many at most.
            max_attempts: deliveries after which a message is dead.

        Raises:
            RlabError: the dead could not be read, or their topic not be made.
        """
        while True:
            offsets, attempts = window.queue.due(max_n)
            before = self._delivered_before(window, offsets)
            dead = [
                offset for offset, n in zip(offsets, attempts, strict=True) if n + before.get(offset, 0) >= max_attempts
            ]
            if not dead:
                return offsets
            self._copy(window, dead, is_dead=True)

    def to_retry(self, window: PopWindow) -> None:
        """Move what is due to the retry topic: the queue is being handed over, and nothing is delivered from it."""
        try:
            while window.queue.due_count:
                self._copy(window, window.queue.due(_COPIES_PER_TURN).offsets, is_dead=False)
        except RlabError as error:
            logger.error("messages of %s:%d could not be moved to the retry topic: %s", *window.key[1:], error)
        self._changed(window)  # some may not have been there any more

    def _delivered_before(self, window: PopWindow, offsets: Sequence[int]) -> dict[int, int]:
        """How often messages of a retry topic were delivered before they came there."""
        entry = self._broker.topics.get(window.key.topic)
        if entry is None or not is_retry_topic(window.key.topic):
            return {}
        store, queue_id = self._broker.store, window.key.queue_id
        records, _ = read_records(store, entry.topic_id, queue_id, offsets, max_bytes=MAX_PULL_BYTES)
        return {record.queue_offset: record.times_delivered for record in records}

    def _copy(self, window: PopWindow, offsets: Sequence[int], *, is_dead: bool) -> None:
        broker, ledger, key = self._broker, self._ledger, window.key
        entry = broker.topics.existing(key.topic)
        records, read = read_records(broker.store, entry.topic_id, key.queue_id, offsets, max_bytes=MAX_PULL_BYTES)
        if read.gone:
            ledger.skip(window, read.gone)
            broker.barrier.metadata_changed()
        if not records:
            if not read.gone:
                raise AssertionError(f"messages {offsets} of {key} are neither there nor gone")
            return
        target = self._target(key.group, is_dead=is_dead)
        for record in records:
            times = record.times_delivered + window.queue.attempts_of(record.queue_offset)
            times = min(times, MAX_TIMES_DELIVERED)
            broker.store.append(target.topic_id, 0, record.payload, record.tag_hash, times_delivered=times)
        token, now = self._new_token(window), broker.loop.time()
        ledger.deliver(
            window,
            read.offsets,
            upto=window.queue.next_offset,
            token=token,
            client_id="",
            times=Times(now, broker.config.clock_ms()),
            invisible_s=COPY_TIMEOUT_S,
        )
        broker.driver.wake_by(now + COPY_TIMEOUT_S)
        written = partial(self._written, window, token, read.offsets, is_dead)
        broker.barrier.after_append(written, target.config.topic, 0)

    def _target(self, group: str, *, is_dead: bool) -> TopicEntry:
        topics = self._broker.topics
        new = topics.ensure_dlq_topic(group) if is_dead else topics.ensure_retry_topic(group)
        if new is not None:
            self._broker.topic_changed(new)
            return new
        return topics.existing(dlq_topic(group) if is_dead else retry_topic(group))

    def _written(
        self, window: PopWindow, token: int, offsets: Sequence[int], is_dead: bool, failure: RlabError | None
    ) -> None:
        broker, key = self._broker, window.key
        if failure is not None:
            logger.error("messages of %s:%d could not be copied: %s", *key[1:], failure)
            return
        if self._ledger.windows.get(key) is not window:
            return  # the group, the topic or what was in flight was forgotten meanwhile
        self._ledger.ack(window, token, offsets)
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
        self._changed(window)
