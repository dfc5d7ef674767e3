"""A client's life, and a consumer as its client instance sees it. RocketMQ: ServiceState, MQConsumerInner."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol

from client.instance.schedule import RebalancePass
from model.heartbeat import ConsumerData
from model.message_queue import MessageQueue


class ServiceState(StrEnum):
    """A client goes through these once; a new start needs a new client."""

    CREATE_JUST = "CREATE_JUST"
    RUNNING = "RUNNING"
    SHUTDOWN_ALREADY = "SHUTDOWN_ALREADY"
    START_FAILED = "START_FAILED"


class GroupMember(Protocol):
    """What a client instance needs of each of its consumers.

    Attributes:
        group: its consumer group.
        rebalance_interval_s: how often it looks when nothing wakes it.
        session_timeout_s: how long brokers keep it without hearing of it.
    """

    group: str
    rebalance_interval_s: float
    session_timeout_s: float

    def topics(self) -> tuple[str, ...]:
        """Topics whose routes it needs, sorted."""
        ...

    def consumer_data(self) -> ConsumerData | None:
        """Its part of a heartbeat; None while it has no subscription."""
        ...

    async def rebalance(self, due: RebalancePass) -> bool:
        """Run one pass; returns whether it is balanced."""
        ...

    async def persist_offsets(self) -> None:
        """Commit what is not committed yet."""
        ...

    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """Drop these queues, as far as they are held under this token or an earlier one, and begin them again."""
        ...
