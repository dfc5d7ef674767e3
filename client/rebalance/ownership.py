"""QueueOwnership, the protocol of the ways to own queues; and the context that each of them gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from client.instance.background import BackgroundTasks
from client.instance.instance import ClientInstance
from client.instance.schedule import RebalancePass
from client.options import ConsumerOptions
from client.pull.owned_queue import OwnedQueue
from model.message_queue import MessageQueue
from model.subscription import SubscriptionData


def _ignore(owned: OwnedQueue) -> None:
    pass


@dataclass(slots=True)
class MissedMessages:
    """Counts of messages that a consumer skipped, because its brokers no longer have them."""

    deleted: int = 0  # by retention, before they were read
    damaged: int = 0  # damaged or missing in the brokers' files


@dataclass(frozen=True, slots=True)
class MemberContext:
    """The parts of a consumer that every way to own queues needs."""

    instance: ClientInstance
    group: str
    options: ConsumerOptions
    background: BackgroundTasks
    """Runs the tasks that end with the consumer: pull loops, pops, releases."""
    subscription_of: Callable[[str], SubscriptionData | None]
    arrived: Callable[[OwnedQueue], None] = _ignore
    """Called when a queue has messages to dispatch."""
    started: Callable[[OwnedQueue], None] = _ignore
    """Called with each queue before it is first pulled."""
    missed: MissedMessages = field(default_factory=MissedMessages)


class QueueOwnership(Protocol):
    """A way to own queues: under leases (`leased_queues.py`), without them (`unleased_queues.py`), or none (POP)."""

    @property
    def owned(self) -> Mapping[MessageQueue, OwnedQueue]:
        """The queues that are pulled and dispatched now."""
        ...

    @property
    def topics_of_others(self) -> tuple[str, ...]:
        """Topics whose routes the target depends on, although the consumer does not subscribe to them."""
        ...

    async def rebalance(self, due: RebalancePass, topics: tuple[str, ...]) -> bool:
        """Run one pass over the subscribed topics, sorted; returns whether the member owns its target now."""
        ...

    async def persist(self) -> object:
        """Commit the offsets that are not committed yet."""
        ...

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """Apply a reset of the group's offsets of these queues."""
        ...

    async def close(self, cause: str) -> None:
        """Release everything. Cancellation: leases that are not released yet end with the membership."""
        ...


class Popping(Protocol):
    """The POP side of a member whose queues a broker assigns; `PopConsumption` is one."""

    def pop_from(self, queues: Collection[MessageQueue]) -> None:
        """Pop exactly these queues from now on."""
        ...

    async def close(self, cause: str) -> None:
        """Leave: see `PopConsumption.close`."""
        ...
