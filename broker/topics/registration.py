"""Registers a broker with every name server: on a timer, at once on a change, at once after a lost connection.

RocketMQ: BrokerController.registerBrokerAll, BrokerOuterAPI. Each name server has a task of its own, so that an
absent one does not delay the others.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import anyio
import msgpack
from anyio.abc import TaskGroup

from model.errors import (
    BrokerNameTaken,
    ConfigError,
    ConnectFailed,
    NegativeAnswer,
    NotMaster,
    RlabError,
    UsageError,
)
from model.limits import REGISTER_RETRY_MAX_S, REQUEST_TIMEOUT_S
from model.topic_route import BrokerData, Perm, TopicConfig, TopicRoute
from remoting.address import format_address, is_loopback, parse_address
from remoting.client import Backoff, RemotingClient
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.security.key import Key

logger = logging.getLogger(__name__)

ANY_HOST = ("0.0.0.0", "::", "")


class Announcement(NamedTuple):
    """The data of a broker in its registrations, and how often it registers.

    `version` is the version of the first registration of this run. It is the wall clock in milliseconds, so it also
    grows over restarts.
    `data_id` is a random number of the data directory, by which name servers distinguish two brokers of one name.
    """

    name: str
    cluster: str
    broker_id: int
    name_servers: tuple[str, ...]
    advertise: str | None
    register_interval_s: float
    expiry_s: float
    version: int
    is_first_run: bool = False  # whether this is the first run of its data directory
    data_id: int = 0
    key: Key | None = None
    set_id: int = 0  # this field and the next four describe its set of replicas; 0 without one
    epoch: int = 0
    replica_id: int = 0
    role: str = ""
    lag_bytes: Callable[[], int] | None = None
    on_deposed: Callable[[NotMaster], object] | None = None  # called when a later mastership has registered


class RegisteredTopics(Protocol):
    """The topics of a broker."""

    def configs(self) -> Iterable[TopicConfig]:
        """The configs of all topics, at this moment."""
        ...


class NoTopics:
    """The topics that a replica registers: none, because only the topics of the master count."""

    def configs(self) -> Iterable[TopicConfig]:
        """No topics."""
        return ()


class Registration:
    """The registration of one broker with its name servers."""

    def __init__(self, announcement: Announcement, topics: RegisteredTopics) -> None:
        self._announcement = announcement
        self._topics = topics
        self._version = announcement.version  # one up for every change
        self._cause = ""
        self._was_registered = False
        self._name_taken: BrokerNameTaken | None = None
        self._wakes = {address: anyio.Event() for address in announcement.name_servers}
        self._attempted = {address: anyio.Event() for address in announcement.name_servers}
        self._announced: dict[str, str] = {}
        self._registered_at: dict[str, None] = {}  # the name servers that have accepted a registration
        self._registered = anyio.Event()  # set, and replaced, at each acceptance
        self._rng = random.Random(announcement.name)
        self._recall: Callable[[Connection, Command], object] | None = None
        forwarded = {RequestCode.RECALL_MESSAGE: self._forwarded}
        self._client = RemotingClient(forwarded, on_lost=self._wake, rng=self._rng, key=announcement.key)

    @property
    def registered_count(self) -> int:
        """How many name servers have accepted a registration."""
        return len(self._registered_at)

    def announce_change(self, cause: str) -> None:
        """Announce the topics again, now, to all name servers."""
        self._version += 1
        self._cause = cause
        for address in self._wakes:
            self._wake(address)

    def _wake(self, address: str) -> None:
        self._wakes[address].set()

    def serve_recalls(self, recall: Callable[[Connection, Command], object]) -> None:
        """Let a function answer the recalls that name servers forward."""
        self._recall = recall

    def _forwarded(self, address: str, request: Command) -> None:
        connection = self._client.connected(address)
        if connection is not None and self._recall is not None:
            self._recall(connection, request)

    async def recall(self, topic: str, handle: str) -> Command:
        """Recall a message of another broker, through the first name server that answers.

        Raises:
            RlabError: that broker refuses it, or no name server could be asked. Cancellation: it may be recalled.
        """
        return await self._ask(
            RequestCode.FORWARD_RECALL, {"topic": topic, "handle": handle}, "for the broker of a message"
        )

    def start(self, tasks: TaskGroup, listen: str) -> None:
        """Begin to register, and retry at each name server that cannot be reached. `listen` has the real port."""
        for address in self._wakes:
            tasks.start_soon(self._keep_registered, address, listen)

    async def wait_attempted(self) -> None:
        """Wait until each name server has answered once or could not be reached.

        Raises:
            ConfigError: another broker has the name, and this one was never registered in this run.

        Cancellation: harmless.
        """
        for attempted in self._attempted.values():
            await attempted.wait()
        if self._name_taken is not None:
            raise ConfigError(str(self._name_taken))

    async def wait_registered(self) -> None:
        """Wait until each name server has accepted a registration once. Cancellation: harmless."""
        while len(self._registered_at) < len(self._wakes):
            await self._registered.wait()

    async def _keep_registered(self, address: str, listen: str) -> None:
        backoff = Backoff()
        while True:
            # Replaced before the request: a change during the request wakes this task again at once.
            self._wakes[address] = anyio.Event()
            try:
                await self._register(address, listen)
            except RlabError as error:
                if isinstance(error, BrokerNameTaken) and not self._was_registered:
                    self._name_taken = error
                if isinstance(error, NotMaster) and self._announcement.on_deposed is not None:
                    self._announcement.on_deposed(error)
                logger.warning("%s: not registered with name server %s: %s", self._announcement.name, address, error)
                # The back-off of the client counts only failed connections. This one also counts a name server that
                # answers with a refusal.
                now = anyio.current_time()
                backoff.failed(now, self._rng)
                wait_s = min(max(backoff.wait_s(now), self._client.backoff_s(address)), REGISTER_RETRY_MAX_S)
                if self._client.connected(address) is None:
                    self._client.drop(address)  # forgets its back-off, which may exceed the maximum above
                self._attempted[address].set()
                # A change does not end this wait: else each new topic would cause an attempt. The next attempt has all
                # changes.
                await anyio.sleep(wait_s)
                continue
            self._was_registered = True
            backoff = Backoff()
            self._attempted[address].set()
            with anyio.move_on_after(self._announcement.register_interval_s):
                await self._wakes[address].wait()

    async def _register(self, address: str, listen: str) -> None:
        broker = self._announcement
        connection = await self._client.connect(address)
        advertised = broker.advertise or _seen_from(connection.local_host, listen)
        if address not in self._announced and _is_local_only(advertised, connection.local_host):
            logger.warning(
                "%s: name server %s is on another machine, and sends clients to this broker at %s, where only "
                "this machine reaches it: use --listen 0.0.0.0:%d or another address of this machine, or --advertise",
                *(broker.name, address, advertised, parse_address(advertised)[1]),
            )
        self._announced[address] = advertised
        # INHERIT stays in `perm`: producers recognise the template topic by it.
        topics = [topic for topic in self._topics.configs() if topic.perm & (Perm.READ | Perm.WRITE)]
        header = {
            "cluster": broker.cluster,
            "broker_name": broker.name,
            "broker_id": broker.broker_id,
            "address": advertised,
            "version": self._version,
            "expiry_ms": int(broker.expiry_s * 1000),
            "newcomer": broker.is_first_run and address not in self._registered_at,
            "data_id": broker.data_id,
            "cause": self._cause,
            **self._replica_fields(),
        }
        if any(topic.message_type for topic in topics):
            header["message_types"] = "".join(str(int(topic.message_type)) for topic in topics)
        body = msgpack.packb([topic.to_wire() for topic in topics])
        await self._client.request(address, RequestCode.REGISTER_BROKER, header, body)
        self._registered_at[address] = None
        self._registered.set()
        self._registered = anyio.Event()

    def _replica_fields(self) -> dict[str, object]:
        broker = self._announcement
        if not broker.set_id:
            return {}
        fields: dict[str, object] = {"set_id": broker.set_id, "replica_id": broker.replica_id, "role": broker.role}
        if broker.epoch:
            fields["epoch"] = broker.epoch
        if broker.lag_bytes is not None:
            fields["lag_bytes"] = broker.lag_bytes()
        return fields

    @property
    def has_name_servers(self) -> bool:
        """Whether there is a name server to register with."""
        return bool(self._announcement.name_servers)

    def own_route(self, config: TopicConfig, address: str) -> TopicRoute:
        """The route of a topic with only this broker, at its advertised address, or at `address` without one."""
        broker = self._announcement
        return TopicRoute(
            topic=config.topic,
            queues=(config.at_broker(broker.name),),
            brokers=(
                BrokerData(
                    cluster=broker.cluster,
                    broker_name=broker.name,
                    addresses={broker.broker_id: broker.advertise or address},
                ),
            ),
        )

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic, from the first name server that answers.

        Raises:
            TopicNotExist: the topic has no route.
            RlabError: no name server could be asked.

        Cancellation: harmless.
        """
        answer = await self._ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, f"for the route of {topic!r}")
        return TopicRoute.from_wire(msgpack.unpackb(answer.body or b""))

    async def _ask(self, code: RequestCode, header: dict[str, object], why: str) -> Command:
        """The answer of the first name server that has one; a refusal for which the caller is to blame is one."""
        failure: RlabError = ConnectFailed(f"{self._announcement.name} has no name server to ask {why}")
        for address in self._announcement.name_servers:
            try:
                return await self._client.request(address, code, header)
            except (UsageError, NegativeAnswer):
                raise
            except RlabError as error:
                failure = error
        raise failure

    async def stop(self) -> None:
        """Unregister from every name server, then close.

        A name server that cannot be reached removes the broker after `expiry_s`.

        Cancellation: harmless.
        """
        broker = self._announcement
        with anyio.move_on_after(REQUEST_TIMEOUT_S / 3):  # a name server that does not answer must not delay the stop
            async with anyio.create_task_group() as tasks:
                for address, advertised in self._announced.items():
                    header = {"broker_name": broker.name, "broker_id": broker.broker_id, "address": advertised}
                    tasks.start_soon(self._unregister, address, header)
        await self._client.aclose()

    async def _unregister(self, address: str, header: dict[str, object]) -> None:
        if self._client.connected(address) is None:
            return
        try:
            await self._client.request(address, RequestCode.UNREGISTER_BROKER, header)
        except RlabError as error:
            logger.warning("%s could not unregister from %s: %s", self._announcement.name, address, error)


def _is_local_only(advertised: str, local_host: str) -> bool:
    """Whether only processes of this machine reach the address, although the name server is on another machine."""
    return is_loopback(parse_address(advertised)[0]) and not is_loopback(local_host)


def _seen_from(local_host: str, listen: str) -> str:
    """The listening address. If it is that of all interfaces, the host is that of the connection to the name server."""
    host, port = parse_address(listen)
    return format_address(local_host if host in ANY_HOST else host, port)
