"""QueueOwnership: what a consumer has of its group's messages, whichever way it came to have it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from client.instance.schedule import RebalancePass
from client.pull.owned_queue import OwnedQueue
from model.message_queue import MessageQueue


class QueueOwnership(Protocol):
    """Queues under leases (`leased_queues.py`), without them (`unleased_queues.py`), or none (`pop/consumption.py`).

    Attributes:
        owned: the queues it has now.
        topics_of_others: whose routes it needs to tell its share, although it does not subscribe to them.
    """

    owned: dict[MessageQueue, OwnedQueue]
    topics_of_others: tuple[str, ...]

    async def rebalance(self, due: RebalancePass, topics: tuple[str, ...]) -> bool:
        """Run one pass over the subscribed topics, sorted; returns whether it has what it should have now."""
        ...

    async def persist(self) -> object:
        """Commit what is not committed yet."""
        ...

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """The group's offset was set for these queues."""
        ...

    async def close(self, cause: str) -> None:
        """Release everything. Cancellation: what is not released yet ends with the membership."""
        ...


class Popping(Protocol):
    """The POP side of a member whose queues a broker assigns; `PopConsumption` is one."""

    def pop_from(self, queues: Collection[MessageQueue]) -> None:
        """Pop exactly these queues from now on."""
        ...

    async def close(self, cause: str) -> None:
        """Leave: see `PopConsumption.close`."""
        ...
