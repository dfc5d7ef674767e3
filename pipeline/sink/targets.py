"""Picks the queue of each row. Pure.

A queue number in column `queue_id` selects that queue; the rest is for rows without one.

At least once, the key of a row selects one of all queues of the topic, as for a producer
(`client/produce/queue_picker.py`), and rows without a key use the queues in turn.

Exactly once, each broker publishes its part of a batch separately, and skips the part when the batch is run again. So a
row must go to the same broker in every run, whatever its partition and order: the CRC of its key, or else of its body,
selects one of the brokers of the batch, and then one of the queues that this broker has now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from model.errors import MessageIllegal, TopicNotExist
from model.message_queue import MessageQueue
from pipeline.sink.options import Partitioning


class Targets:
    """The queues of one topic that rows can go to.

    `queues` are writable and sorted. `brokers` are the brokers of the batch, sorted; None if rows need not go to the
    same broker in every run. Rows without a key begin at queue `start`, which differs between tasks, because otherwise
    all tasks would begin at the first queue.

    Raises:
        TopicNotExist: the topic has no queue, or has none on one of the brokers.
    """

    def __init__(
        self,
        topic: str,
        queues: Sequence[MessageQueue],
        brokers: Sequence[str] | None,
        partitioning: Partitioning,
        start: int = 0,
    ) -> None:
        self.queues = list(queues)
        self._topic = topic
        self._brokers = sorted({queue.broker_name for queue in queues}) if brokers is None else list(brokers)
        self._partitioning = partitioning
        self._is_fixed = brokers is not None
        self._turn = start
        self._numbers: dict[str, list[MessageQueue]] = {
            name: [queue for queue in queues if queue.broker_name == name] for name in self._brokers
        }
        missing = [name for name, numbers in self._numbers.items() if not numbers]
        if missing or not self.queues:
            broker_text = f" on broker {missing[0]!r}, where rows of this batch have to go" if missing else ""
            raise TopicNotExist(
                f"topic {topic!r} has no queue that can be written{broker_text}: create it with 'rlab topic create', "
                "or wait until its broker is back"
            )

    def pick(self, key: str, body: bytes, queue_id: int | None) -> MessageQueue:
        """Pick the queue of one row; a `queue_id` of None leaves the choice to the partitioner.

        Raises:
            MessageIllegal: the row names a queue that its broker does not have, or none with the partitioner queueId.
        """
        if queue_id is not None or self._partitioning is Partitioning.QUEUE_ID:
            return self._named(key, body, queue_id)
        by_key = key if self._partitioning is Partitioning.KEY_HASH else ""
        if not self._is_fixed:
            turn = crc32(key.encode("utf-8", "surrogatepass")) if by_key else self._next_turn()
            return self.queues[turn % len(self.queues)]
        hashed, own_queues = self._on_broker(key, body)
        turn = hashed // len(self._brokers) if by_key else self._next_turn()
        return own_queues[turn % len(own_queues)]

    def pick_all(self, keys: Sequence[bytes] | None, bodies: Any, queue_ids: Sequence[int | None] | None) -> Any:
        """Pick the queues of many rows like `pick`; returns their positions in `queues` as an array of numpy.

        `bodies` is an Arrow array; `keys` is None without keys, and `queue_ids` if no row names a queue.

        Raises:
            MessageIllegal: as for `pick`.
        """
        n = len(bodies)
        if queue_ids is not None or self._partitioning is Partitioning.QUEUE_ID:
            return self._pick_each(keys or [b""] * n, bodies.to_pylist(), queue_ids or [None] * n)
        is_keyed, hashes = np.zeros(n, np.bool_), np.zeros(n, np.int64)
        if keys is not None:
            is_keyed = np.fromiter(map(len, keys), np.int64, n) > 0
            hashes = np.fromiter(map(crc32, keys), np.int64, n)
        # A row is sent to a queue of one part: the whole topic, or its queues on one broker.
        parts = [self._numbers[name] for name in self._brokers] if self._is_fixed else [self.queues]
        if len(parts) > 1 and not is_keyed.all():
            hashes = np.where(is_keyed, hashes, np.fromiter(map(crc32, bodies.to_pylist()), np.int64, n))
        broker_index = hashes % len(parts)
        if self._partitioning is not Partitioning.KEY_HASH:
            is_keyed[:] = False
        # The turn of a row, reduced by its number of queues, because the first turn may exceed 64 bits.
        turns = np.array([self._turn % len(part) for part in parts])[broker_index] + np.cumsum(~is_keyed) - 1
        self._turn += int(n - is_keyed.sum())
        picked = np.where(is_keyed, hashes // len(parts), turns) % np.array([len(part) for part in parts])[broker_index]
        return np.array([self.queues.index(part[0]) for part in parts])[broker_index] + picked

    def _pick_each(self, keys: Sequence[bytes], bodies: Sequence[bytes], queue_ids: Sequence[int | None]) -> Any:
        numbers = {queue: number for number, queue in enumerate(self.queues)}
        rows = zip(keys, bodies, queue_ids, strict=True)
        return np.array([numbers[self.pick(key.decode(), body, queue_id)] for key, body, queue_id in rows], np.int64)

    def _next_turn(self) -> int:
        self._turn += 1
        return self._turn - 1

    def _on_broker(self, key: str, body: bytes) -> tuple[int, list[MessageQueue]]:
        hashed = crc32(key.encode("utf-8", "surrogatepass") if key else body)
        return hashed, self._numbers[self._brokers[hashed % len(self._brokers)]]

    def _named(self, key: str, body: bytes, queue_id: int | None) -> MessageQueue:
        own_queues = self._on_broker(key, body)[1]
        queues_text = f"topic {self._topic!r} has 0 to {len(own_queues) - 1} on broker {own_queues[0].broker_name!r}"
        if queue_id is None:
            raise MessageIllegal(
                f"column queue_id is null in a row, and partitioner queueId needs a queue: {queues_text}"
            )
        if not 0 <= queue_id < len(own_queues):
            raise MessageIllegal(
                f"column queue_id names queue {queue_id} in a row; {queues_text}. Leave the column out, or make it "
                "null, where the key picks the queue"
            )
        return own_queues[queue_id]
