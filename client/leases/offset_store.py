"""Stores the offsets of a consumer without leases: the interface, and the store that keeps them at the brokers.

RocketMQ: OffsetStore, RemoteBrokerOffsetStore. The other one is `client/leases/local_offset_store.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Protocol

from client.instance.instance import ClientInstance
from client.leases.offsets_to_commit import OffsetsToCommit
from client.leases.queue_offsets import QueueOffsets
from client.leases.requests import Commit, LeaseRequests
from model.errors import RlabError
from model.message_queue import MessageQueue
from remoting.tasks import run_together

NO_LEASE = -1
"""Token of a commit for a queue that is read without a lease; taken while nobody has one."""


class OffsetStore(Protocol):
    """Offsets of the queues of one consumer, which is the only one that stores them."""

    def begin(self, topic: str, now_ms: int) -> bool:
        """Record that a topic is wanted from now on; returns whether it was not before."""
        ...

    def since_ms(self, topic: str) -> int:
        """Since when a topic that has begun is wanted, wall clock in milliseconds."""
        ...

    def end(self, topic: str) -> None:
        """Forget a topic that is not wanted any more."""
        ...

    async def read(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The stored offset of each queue, None where there is none. A queue that is missing could not be read now.

        Cancellation: harmless.
        """
        ...

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Move a queue forward."""
        ...

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """Put a queue at any offset."""
        ...

    def forget(self, queue: MessageQueue) -> None:
        """Drop what is only remembered here; what is stored stays stored."""
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
        self._since_ms: dict[str, int] = {}

    def begin(self, topic: str, now_ms: int) -> bool:
        """See `OffsetStore`."""
        if topic in self._since_ms:
            return False
        self._since_ms[topic] = now_ms
        return True

    def since_ms(self, topic: str) -> int:
        """See `OffsetStore`."""
        return self._since_ms[topic]

    def end(self, topic: str) -> None:
        """See `OffsetStore`."""
        self._since_ms.pop(topic, None)

    async def read(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        """See `OffsetStore`."""
        found: dict[MessageQueue, int | None] = {}

        async def read_one(queue: MessageQueue) -> None:
            known = self.offset_of(queue)
            try:
                found[queue] = known if known is not None else await self._ask.committed(queue, self._group)
            except RlabError:
                # Unknown, and not None: a queue must not begin again because its broker does not answer.
                return

        await run_together([partial(read_one, queue) for queue in queues])
        return found

    async def persist(self) -> dict[MessageQueue, RlabError]:
        """See `OffsetStore`."""
        failures: dict[MessageQueue, RlabError] = {}
        for reset, offsets in self.split_dirty():
            commits = [Commit(queue, offset, NO_LEASE) for queue, offset in offsets.items()]
            failures |= await self._requests.commit(commits, reset=reset)
            self.confirm({queue: offset for queue, offset in offsets.items() if queue not in failures})
        return failures
