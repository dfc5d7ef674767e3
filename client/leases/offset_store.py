"""Stores the offsets of a consumer without leases: the interface, and the store that keeps them at the brokers.

RocketMQ: OffsetStore, RemoteBrokerOffsetStore. The other store is `client/leases/local_offset_store.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Protocol

from client.instance.instance import ClientInstance
from client.leases.offsets_to_commit import OffsetsToCommit
from client.leases.queue_offsets import QueueOffsets
from client.leases.requests import Commit, LeaseRequests
from client.leases.wanted_topic import WantedTopic
from model.errors import RlabError
from model.message_queue import MessageQueue
from model.topic_incarnation import TopicIncarnation
from remoting.tasks import run_together

NO_LEASE = -1
"""Token of a commit for a queue that is read without a lease; accepted while no member has one."""


class OffsetStore(Protocol):
    """Offsets of the queues of one consumer, which is the only one that stores them."""

    def begin(self, topic: str, now_ms: int, loop_ms: float | None = None) -> bool:
        """Record that a topic is wanted from now on, by the wall clock and by the loop time, both in milliseconds.

        Returns whether it was not wanted before.
        """
        ...

    def wanted_topic(self, topic: str) -> WantedTopic | None:
        """Return the record of a wanted topic, which the caller only reads; None if the topic is not wanted."""
        ...

    def record(
        self, topic: str, broker: str, incarnation: TopicIncarnation | None, clocks: Mapping[str, float]
    ) -> bool:
        """Record what a broker has answered about a topic: its incarnation, and the time (see `WantedTopic.since`).

        Returns whether it has another incarnation than before; then the offsets of its queues at this broker are
        dropped.
        """
        ...

    def end(self, topic: str) -> None:
        """Forget a topic that is no longer wanted."""
        ...

    async def read(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The stored offset of each queue, None where there is none. A queue that is missing could not be read now.

        Cancellation: harmless.
        """
        ...

    def offset_of(self, queue: MessageQueue) -> int | None:
        """The offset of a queue; None if it is not known here."""
        ...

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Move a queue forward."""
        ...

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """Put a queue at any offset."""
        ...

    def forget(self, queue: MessageQueue) -> None:
        """Drop the offset in memory; the stored one stays."""
        ...

    async def persist(self) -> dict[MessageQueue, RlabError]:
        """Store what changed; returns what could not be stored. Cancellation: some of it may have been stored."""
        ...


class CommittedOffsetStore(OffsetsToCommit):
    """Offsets committed at the brokers, without leases: an `OffsetStore`.

    A commit is refused while a member of the group has the queue under a lease.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        super().__init__()
        self._group = group
        self._requests = LeaseRequests(instance, group)
        self._ask = QueueOffsets(instance)
        self._wanted: dict[str, WantedTopic] = {}

    def begin(self, topic: str, now_ms: int, loop_ms: float | None = None) -> bool:
        """See `OffsetStore`."""
        if topic in self._wanted:
            return False
        self._wanted[topic] = WantedTopic(now_ms, loop_ms)
        return True

    def wanted_topic(self, topic: str) -> WantedTopic | None:
        """See `OffsetStore`."""
        return self._wanted.get(topic)

    def record(
        self, topic: str, broker: str, incarnation: TopicIncarnation | None, clocks: Mapping[str, float]
    ) -> bool:
        """See `OffsetStore`. The broker itself drops the offsets that were committed in a topic that is deleted."""
        wanted_topic = self._wanted.get(topic)
        if wanted_topic is None:
            return False
        is_other = wanted_topic.is_other(broker, incarnation)
        if is_other:
            for queue in self.queues():
                if (queue.topic, queue.broker_name) == (topic, broker):
                    self.forget(queue)
        if incarnation is not None:
            wanted_topic.record_incarnation(broker, incarnation)
        wanted_topic.record_clock(broker, clocks)
        return is_other

    def end(self, topic: str) -> None:
        """See `OffsetStore`."""
        self._wanted.pop(topic, None)

    async def read(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        """See `OffsetStore`."""
        offsets: dict[MessageQueue, int | None] = {}

        async def read_one(queue: MessageQueue) -> None:
            local = self.offset_of(queue)
            try:
                offsets[queue] = local if local is not None else await self._ask.committed(queue, self._group)
            except RlabError:
                # Unknown, and not None: a queue must not begin again because its broker does not answer.
                return

        await run_together([partial(read_one, queue) for queue in queues])
        return offsets

    async def persist(self) -> dict[MessageQueue, RlabError]:
        """See `OffsetStore`."""
        failures: dict[MessageQueue, RlabError] = {}
        for reset, offsets in self.split_dirty():
            commits = [
                Commit(queue, offset, NO_LEASE, self._incarnation_of(queue)) for queue, offset in offsets.items()
            ]
            failures |= await self._requests.commit(commits, reset=reset)
            self.confirm({queue: offset for queue, offset in offsets.items() if queue not in failures})
        return failures

    def _incarnation_of(self, queue: MessageQueue) -> TopicIncarnation | None:
        wanted_topic = self._wanted.get(queue.topic)
        return None if wanted_topic is None else wanted_topic.incarnations.get(queue.broker_name)
