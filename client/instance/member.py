"""The interfaces between clients and their client instance.

`ClientLifecycle` has the states from start to shutdown of every client. `Resident`, `CheckingProducer` and
`GroupMember` are the methods of clients that an instance calls; `InstanceHost` has the methods of an instance that its
own parts call.

RocketMQ: ServiceState, MQConsumerInner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection
from enum import StrEnum
from typing import Protocol, Self

import anyio

from client.config import ClientConfig
from client.instance.background import BackgroundTasks
from client.instance.routes import RouteCache, RouteRemovalGrace
from client.instance.schedule import RebalancePass
from client.trigger import Trigger
from model.errors import IllegalOperation, UsageError
from model.event_log import EventLog
from model.heartbeat import ConsumerData
from model.message_queue import MessageQueue
from remoting.client import RemotingClient
from remoting.command import Command
from remoting.connection import Connection
from remoting.tasks import OwningLoop


class ServiceState(StrEnum):
    """A client goes through these once; a new start needs a new client."""

    CREATE_JUST = "CREATE_JUST"
    RUNNING = "RUNNING"
    SHUTDOWN_ALREADY = "SHUTDOWN_ALREADY"
    START_FAILED = "START_FAILED"


class ClientLifecycle(ABC):
    """The life of a client: started once, shut down once, and an asynchronous context manager."""

    _state = ServiceState.CREATE_JUST
    _home: OwningLoop | None = None
    """The process and event loop in which it was started; see `OwningLoop`."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._home is not None and self._home.is_in_parent:
            return  # a fork leaves the block, in which the parent still is
        # Also on a cancellation: a consumer leaves its group properly, within its bounds.
        with anyio.CancelScope(shield=True):
            await self.shutdown()

    def _begin_start(self, kind: str) -> None:
        """Leave CREATE_JUST; the state is START_FAILED until the start has succeeded."""
        if self._state is not ServiceState.CREATE_JUST:
            raise IllegalOperation(f"this {kind} is {self._state}: make a new one to start again")
        self._state = ServiceState.START_FAILED
        self._home = OwningLoop()

    def _check_loop(self) -> None:
        """Raise IllegalOperation in a fork of the process, or in another event loop, than it was started in."""
        if self._home is not None:
            self._home.check()

    @abstractmethod
    async def start(self) -> None:
        """Start the client."""

    @abstractmethod
    async def shutdown(self) -> None:
        """Shut the client down. Idempotent."""


class Resident(ABC):
    """A client of a client instance: a producer, or as a `GroupMember` a consumer."""

    group: str

    @abstractmethod
    def topics(self) -> tuple[str, ...]:
        """Topics whose routes it needs, sorted."""

    @abstractmethod
    def instance_failed(self, reason: BaseException) -> None:
        """End, because the background of the client instance has ended without a shutdown."""


class CheckingProducer(Resident):
    """A producer that brokers may ask about transactions of its group. RocketMQ: MQProducerInner."""

    @abstractmethod
    def answer_check(self, connection: Connection, broker_name: str, command: Command) -> None:
        """Answer a check that came over a connection: CHECK_TRANSACTION_STATE."""


class GroupMember(Resident):
    """The methods of a consumer that its client instance calls. RocketMQ: MQConsumerInner."""

    rebalance_interval_s: float
    """Time between passes that no other trigger sets off."""
    session_timeout_s: float
    """How long brokers keep it without a heartbeat."""

    @abstractmethod
    def consumer_data(self) -> ConsumerData | None:
        """The part of a heartbeat about this member; None while it has no subscription."""

    @abstractmethod
    async def rebalance(self, due: RebalancePass) -> bool:
        """Run one pass; returns whether it is balanced."""

    @abstractmethod
    def refused(self, error: UsageError) -> None:
        """End, because a broker has refused the heartbeats for so long that the sessions at it have ended."""

    @abstractmethod
    async def persist_offsets(self) -> None:
        """Commit the offsets that are not committed yet."""

    @abstractmethod
    def offsets_reset(self, queues: Collection[MessageQueue], token: int, cause: str) -> None:
        """Drop those of these queues that are owned under this token or an earlier one, and begin them again."""


async def fail_all(residents: Collection[Resident], reason: BaseException, hurry: bool) -> bool:
    """End the residents of a client instance that has failed: they cannot go on without heartbeats and routes.

    It is the `OnFailure` of the instance: members raise the reason themselves if it ends the process.
    """
    failed = list(residents)
    for resident in failed:
        resident.instance_failed(reason)
    return any(isinstance(resident, GroupMember) for resident in failed)


class InstanceHost(Protocol):
    """The methods of the client instance that its heartbeats, passes and reconnector call."""

    client_id: str
    config: ClientConfig
    remoting: RemotingClient
    events: EventLog
    background: BackgroundTasks
    routes: RouteCache
    removal_grace: RouteRemovalGrace
    residents: dict[Resident, None]
    members: dict[str, GroupMember]

    broker_returned: anyio.Event
    poll_routes: Callable[[], Awaitable[None]]
    """Asks for the routes again."""
    poll_changed_routes: Callable[[], Awaitable[None]]
    """Asks for the routes because a broker cannot be reached."""

    def topics(self) -> tuple[str, ...]:
        """Every topic in use."""
        ...

    def addresses(self) -> list[str]:
        """The address of every master that a route names."""
        ...

    def wake(self, group: str, trigger: Trigger, cause: str = "") -> None:
        """Ask for a pass of a group."""
        ...

    def broker_lost(self, address: str, cause: str) -> None:
        """Called when a broker does not answer."""
        ...

    def on_broker_returned(self, cause: str) -> None:
        """Called when a broker is back and has answered a heartbeat."""
        ...
