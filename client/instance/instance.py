"""The instance that the producers and consumers of one process and instance name share.

RocketMQ: MQClientInstance. One connection per broker, one rebalance loop, one heartbeat, one route table. Its
background tasks are independent of each other: RocketMQ runs them on one thread, where a broker that does not answer
delays routes, heartbeats and commits of every group.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import anyio

from client.config import ClientConfig, SpokenDialect
from client.instance.background import BackgroundTasks
from client.instance.broker_reconnector import BrokerReconnector
from client.instance.heartbeats import Heartbeats
from client.instance.member import CheckingProducer, GroupMember, Resident, fail_all
from client.instance.name_servers import NameServers
from client.instance.passes import PassRunner
from client.instance.refusals import Refusals
from client.instance.routes import RouteCache, RouteRemovalGrace
from client.instance.user_code import observing
from client.instance.views import GroupViews
from client.trigger import Trigger
from model.errors import ConnectFailed, IllegalOperation, NetworkError, RlabError, SystemBusy
from model.event_log import EventLog, encode_events
from model.events import EventKind
from model.limits import CONNECT_TIMEOUT_S, MAX_CLIENT_RUN, TRACE_FLUSH_INTERVAL_S
from model.message import Message, encode_payload
from model.message_queue import MessageQueue
from model.names import TRACE_TOPIC, check_id
from model.quirks import Quirk
from remoting.address import parse_addresses
from remoting.client import PushHandler, RemotingClient, raise_for_code
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.tasks import run_together

logger = logging.getLogger(__name__)

FIRST_ROUTE_POLL_S = 1.0
"""The retry topic of a new group is made by the first heartbeat, so the first poll comes early."""


class ClientInstance:
    """One running client; made by `client/instance/registry.py`."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.client_id = ""  # `ip@instance`; set by `start`
        self.routes = RouteCache()
        self.remoting = RemotingClient(
            self.handlers(),
            on_lost=self._connection_lost,
            rng=config.rng,
            key=config.key,
            codec_of=config.dialect.codec_of(),
        )
        addresses = parse_addresses(config.name_servers)
        self.name_servers = NameServers(self.remoting, addresses, config.rng, config.request_timeout_s)
        any_of = config.rng if Quirk.RANDOM_VIEW in config.quirks else None
        self.views = GroupViews(self.remoting, self.routes, config.request_timeout_s, any_of)
        sink = config.event_sink and observing(config.event_sink, "event_sink")
        self.events = EventLog("", config.clock_ms, sink=sink, buffered=config.trace)
        self.residents: dict[Resident, None] = {}
        self.members: dict[str, GroupMember] = {}  # the consumers among the residents, by group
        # broker name -> open connection to its master, for frequent requests; see `_forget_old_masters`
        self.masters: dict[str, Connection] = {}
        self.broker_returned = anyio.Event()  # set, and replaced, when a lost broker is back and knows us
        self.background = BackgroundTasks("client instance", partial(fail_all, self.residents))
        self.heartbeats = Heartbeats(self)
        self.refusals = Refusals()
        self._passes = PassRunner(self)
        self._reconnector = BrokerReconnector(self, self.heartbeats)
        self.removal_grace = RouteRemovalGrace()

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reach a name server, take a client id, start the background tasks; see `acquire_instance`."""
        try:
            host = self.config.client_ip
            if host is None or self.config.dialect is SpokenDialect.AUTO:
                dialect, own_address = await self.name_servers.find_dialect(self.config.dialect)
                self.config = replace(self.config, dialect=dialect)
                self.events.buffered = self.config.trace
                host = host or own_address
            name = self.config.instance_name or f"{os.getpid()}#{self.config.rng.getrandbits(48):012x}"
            self.client_id = check_id("client id", f"{host}@{name}")
            self.events.node = self.client_id
            run_id = self.config.rng.getrandbits(64)
            self.heartbeats.epoch = f"{run_id:016x}"
            self.events.begin_run(1 + run_id % MAX_CLIENT_RUN)
            await self.background.start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.remoting.aclose()
            raise
        config = self.config
        first_poll_s = min(FIRST_ROUTE_POLL_S, config.route_poll_interval_s)
        self.background.start_soon(self._passes.run)
        self.background.start_soon(self._every, config.route_poll_interval_s, self.poll_routes, first_poll_s)
        self.background.start_soon(self.heartbeats.keep_alive)
        self.background.start_soon(self._every, config.offset_persist_interval_s, self._persist_offsets)
        if config.trace:
            self.background.start_soon(self._every, TRACE_FLUSH_INTERVAL_S, self._send_trace)

    async def stop(self) -> None:
        """Send the rest of the trace, stop the tasks, close the connections, also if cancelled. Idempotent."""
        try:
            with anyio.move_on_after(1.0), suppress(RlabError):
                if self.config.trace and not self.routes.publish_queues(TRACE_TOPIC):
                    await self.update_routes((TRACE_TOPIC,))  # it stops before the first poll
                await self._send_trace()
        finally:
            await self.background.stop()
            with anyio.CancelScope(shield=True):
                await self.remoting.aclose()

    async def _every(
        self, interval_s: float, work: Callable[[], Awaitable[None]], first_s: float | None = None
    ) -> None:
        await anyio.sleep(interval_s if first_s is None else first_s)
        while True:
            try:
                await work()
            except RlabError as error:
                logger.warning("%s: %s", self.client_id, error)
            await anyio.sleep(interval_s)

    # --- residents ---------------------------------------------------------------------------------------------------

    def register(self, resident: Resident) -> None:
        """Add a client: heartbeats and route polls include it; passes of a consumer begin with `start_rebalancing`.

        Raises:
            IllegalOperation, InvalidParameter: it has a consumer of that group already, or a group too many.
        """
        self.heartbeats.check_room(resident)
        if isinstance(resident, GroupMember):
            if resident.group in self.members:
                raise IllegalOperation(
                    f"this client instance has a consumer of group {resident.group!r} already: give the second one "
                    "another instance_name (or none)"
                )
            self.members[resident.group] = resident
            self.heartbeats.joining(resident.group)
        self.residents[resident] = None

    def start_rebalancing(self, member: GroupMember, cause: str) -> None:
        """Run a pass of a consumer that every broker knows now; the first call begins its timer as well.

        Passes begin no sooner: the notification of its own join would set off one that other brokers refuse.
        """
        self._passes.add(member)
        self.wake(member.group, Trigger.START, cause)

    def unregister(self, resident: Resident) -> None:
        """Remove a client: no more passes and heartbeats for it, and no routes of topics that only it used."""
        if resident not in self.residents:
            return
        del self.residents[resident]
        if isinstance(resident, GroupMember):
            del self.members[resident.group]
            self._passes.remove(resident.group)
            self.views.forget(resident.group)
        for topic in dict.fromkeys(resident.topics()).keys() - self._topics().keys():
            self.routes.forget(topic)
            self.removal_grace.forget(topic)

    def _topics(self) -> dict[str, None]:
        topics = dict.fromkeys(topic for resident in self.residents for topic in resident.topics())
        if self.config.trace:
            topics[TRACE_TOPIC] = None
        return topics

    # --- routes ------------------------------------------------------------------------------------------------------

    async def poll_routes(self) -> None:
        """Ask for the route of every topic in use, unless none has changed; see `update_routes`."""
        topics = tuple(self._topics())
        has_all = all(self.routes.route_of(topic) is not None for topic in topics) and not self.removal_grace.waits
        if topics and has_all and not await self.name_servers.any_changed(topics[0]):
            self._forget_old_masters()
            return
        self.name_servers.begin_poll()
        await self.update_routes(topics)

    async def look_for_brokers(self) -> None:
        """Get changed routes after a failed connection: its broker may have moved. ConnectFailed: no server answers."""
        topics = tuple(self._topics())
        if topics and await self.name_servers.any_changed(topics[0]):
            self.name_servers.begin_poll()
            await self.update_routes(topics, absence_counts=False)

    async def update_routes(self, topics: tuple[str, ...], cause: str = "", *, absence_counts: bool = True) -> None:
        """Ask for the routes of some topics, all at once.

        A change first registers us at brokers that are new in it, and only then wakes the groups: they ask those
        brokers for members, and would not find themselves. Without a cause, the first change is a root.

        Raises:
            ConnectFailed: no name server answers.
        """
        changed, new = dict[str, None](), dict[str, None]()
        failures: list[RlabError] = []

        async def update(topic: str) -> None:
            try:
                route = await self.name_servers.route(topic)
            except RlabError as error:
                # Out of a task group it would come as an ExceptionGroup, and pass every handler of RlabError.
                failures.append(error)
                return
            used, now = self.routes.route_of(topic), anyio.current_time()
            lost = {self.routes.broker_at(address): at for address, at in self._reconnector.lost_at.items()}
            route = self.removal_grace.confirm(topic, used, route, now, lost, absence_counts=absence_counts)
            if route != used:
                # New by this update alone: others run at the same time, and each new broker gets one heartbeat.
                known = set(self.addresses())
                if self.routes.update(topic, route):
                    changed[topic] = None
                new.update((address, None) for address in self.addresses() if address not in known)
            self._forget_old_masters()

        if topics:
            await update(topics[0])  # the first one alone: it finds a name server that answers, for all of them
        if not failures:
            await run_together([partial(update, topic) for topic in topics[1:]])
        await self._routes_changed(changed, list(new), cause)
        if failures:
            raise failures[0]

    async def learn_routes(self, topics: tuple[str, ...], cause: str) -> None:
        """Get the routes of topics that have none here. No pass may fail for one that does not exist."""
        unknown = tuple(topic for topic in topics if self.routes.route_of(topic) is None)
        if unknown:
            with suppress(NetworkError):
                await self.update_routes(unknown, cause)

    async def _routes_changed(self, changed: dict[str, None], new: list[str], cause: str) -> None:
        """Register at new addresses of brokers, then wake the groups whose topics changed."""
        for topic in changed:
            n, client = len(self.routes.subscribe_queues(topic)), self.client_id
            cause = self.events.emit(EventKind.ROUTE_CHANGED, cause=cause, topic=topic, client=client, n=n)
        if new and not changed:
            await self._reconnector.moved(new)
        elif new:
            await self.heartbeats.send(cause, new)
        for group, member in self.members.items():
            if any(topic in changed for topic in member.topics()):
                self.wake(group, Trigger.ROUTE, cause)

    async def connect_master(self, broker_name: str, timeout_s: float) -> Connection:
        """The open connection to the master of a broker, made if need be; in `masters` from then on.

        ConnectFailed: it has no master now, or cannot be reached; nothing was sent. Cancellation: harmless.
        """
        address = self.routes.address_of(broker_name, master_only=True)
        if address is None:
            raise ConnectFailed(f"broker {broker_name!r} has no master now; nothing was sent")
        try:
            connection = self.remoting.connected(address) or await self.remoting.connect(address, timeout_s)
        except NetworkError:
            self.broker_lost(address, "")
            raise
        self.masters[broker_name] = connection
        return connection

    async def request_master(
        self, broker_name: str, code: RequestCode, header: dict[str, object], body: bytes | None = None
    ) -> Command:
        """Request something of the master of a broker, with the timeout of the options.

        NetworkError: it has no master now, or does not answer. Cancellation: it may have executed the request.
        """
        connection = await self.connect_master(broker_name, CONNECT_TIMEOUT_S)
        return raise_for_code(await connection.request(code, header, body, self.config.request_timeout_s))

    def busy_wait_s(self, broker_name: str, error: RlabError) -> float:
        """Seconds before a broker may be asked again that has refused a request; 0 if it did not ask to wait.

        All callers of this instance wait in one row: each call takes its place.
        """
        address = self.routes.address_of(broker_name, master_only=True)
        if address is None or not isinstance(error, SystemBusy) or not error.retry_after_s:
            return 0.0
        self.remoting.refused(address, error)
        return self.remoting.retry_wait_s(address)

    def _forget_old_masters(self) -> None:
        """Forget connections that were lost, or lead to where a master is no more.

        Only those: a send that is on its way to another master would fail, and its producer would avoid that broker.
        """
        for broker_name, connection in list(self.masters.items()):
            address = self.routes.address_of(broker_name, master_only=True)
            if address is None or self.remoting.connected(address) is not connection:
                del self.masters[broker_name]

    def addresses(self) -> list[str]:
        """Every address of every known broker."""
        return [address for addresses in self.routes.brokers().values() for address in addresses.values()]

    # --- rebalance ---------------------------------------------------------------------------------------------------

    def wake(self, group: str, trigger: Trigger, cause: str = "") -> None:
        """Ask for a pass of a group."""
        self._passes.wake(group, trigger, cause)

    def handlers(self) -> dict[RequestCode, PushHandler]:
        """Request code -> handler of the requests that brokers push."""
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.NOTIFY_QUEUES_RELEASED: self._queues_released,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._offsets_reset,
            RequestCode.NOTIFY_GROUP_SETTINGS: self._settings_changed,
            RequestCode.CHECK_TRANSACTION_STATE: self._transaction_checked,
        }

    def _members_changed(self, address: str, command: Command) -> None:
        group, version = str(command.header.get("group")), command.header.get("version", -1)
        cause = str(command.header.get("cause", ""))
        known = version != -1 and self.views.known_version(group, address) >= version
        detail = "known" if known else ""
        self.events.emit(
            EventKind.NOTIFY_RECEIVED, cause=cause, group=group, client=self.client_id, version=version, detail=detail
        )
        if not known:
            self.views.notified(group, address, cause, command.header.get("since"), command.body)
            self.wake(group, Trigger.NOTIFY, cause)

    def _queues_released(self, address: str, command: Command) -> None:
        self.wake(str(command.header.get("group")), Trigger.LOCK, str(command.header.get("cause", "")))

    def _offsets_reset(self, address: str, command: Command) -> None:
        header = command.header
        if (member := self.members.get(header["group"])) is not None:
            queues = [MessageQueue(header["topic"], header["broker_name"], n) for n in header["queue_ids"]]
            member.offsets_reset(queues, header["token"], header.get("cause") or "")

    def _settings_changed(self, address: str, command: Command) -> None:
        self.heartbeats.attempts_set(address, command.header["group"], command.header["max_attempts"])

    def _transaction_checked(self, address: str, command: Command) -> None:
        group, connection = command.header["group"], self.remoting.connected(address)
        of_group = (each for each in self.residents if isinstance(each, CheckingProducer) and each.group == group)
        if connection is not None and (producer := next(of_group, None)) is not None:
            producer.check_asked(connection, self.routes.broker_at(address), command)

    def max_attempts(self, group: str, broker_name: str, own: int) -> int:
        """The retries of a failed message of a broker: as operators have set them there, or as the member's option."""
        address = self.routes.address_of(broker_name, master_only=True) or ""
        return self.heartbeats.max_attempts.get((address, group), own)

    # --- connections -------------------------------------------------------------------------------------------------

    def _connection_lost(self, address: str) -> None:
        self._forget_old_masters()
        self.broker_lost(address, "")

    def broker_lost(self, address: str, cause: str) -> None:
        """Try a broker that does not answer until it is back."""
        self._reconnector.keep_trying(address, cause)

    def on_broker_returned(self, cause: str) -> None:
        """Wake all tasks that wait for a broker, and the passes of every group."""
        self.broker_returned.set()
        self.broker_returned = anyio.Event()
        for group in self.members:
            self.wake(group, Trigger.RECONNECT, cause)

    # --- small tasks -------------------------------------------------------------------------------------------------

    async def _persist_offsets(self) -> None:
        await run_together([member.persist_offsets for member in self.members.values()])

    async def _send_trace(self) -> None:
        """Send the events since the last call to SYS_TRACE on any broker; they stay here when that fails."""
        events = self.events.take()
        queues = self.routes.publish_queues(TRACE_TOPIC)
        address = self.routes.address_of(queues[0].broker_name) if queues else None
        if not events or address is None:
            self.events.put_back(events)
            return
        message = Message(TRACE_TOPIC, encode_events(events), tags="client")
        payload = encode_payload(message, int(self.config.clock_ms()), events[0].id)
        header = {"topic": TRACE_TOPIC, "queue_id": queues[0].queue_id, "tag_hash": 0}
        try:
            await self.remoting.request(address, RequestCode.SEND_MESSAGE, header, payload)
        except RlabError as error:
            self.events.put_back(events)
            logger.debug("%s: events are kept: %s", self.client_id, error)
