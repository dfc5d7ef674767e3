"""ClientInstance: the part that all producers and consumers of one process and instance name share.

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

from client.config import ClientConfig, ServerDialect
from client.instance.background import BackgroundTasks
from client.instance.broker_reconnector import BrokerReconnector, Masters
from client.instance.heartbeats import Heartbeats, Refusals
from client.instance.member import CheckingProducer, GroupMember, Resident, fail_all
from client.instance.name_servers import NameServers
from client.instance.passes import PassRunner
from client.instance.route_updates import RouteUpdates
from client.instance.routes import RouteCache, RouteRemovalGrace
from client.instance.user_code import observing
from client.instance.views import GroupViews
from client.trigger import Trigger
from model.errors import IllegalOperation, NotMaster, RlabError
from model.event_log import EventLog, encode_events
from model.events import EventKind
from model.limits import MAX_CLIENT_RUN, TRACE_FLUSH_INTERVAL_S
from model.message import Message, encode_payload
from model.message_queue import MessageQueue
from model.names import TRACE_TOPIC, check_id
from model.quirks import Quirk
from remoting.address import parse_addresses
from remoting.client import PushHandler, RemotingClient
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.tasks import run_together

logger = logging.getLogger(__name__)

FIRST_ROUTE_POLL_S = 1.0
"""The retry topic of a new group is made by the first heartbeat, so the first poll comes early."""


class ClientInstance:
    """One running client instance; made by `client/instance/registry.py`."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.client_id = ""  # `ip@instance`; set by `start`
        self.routes = RouteCache()
        self.remoting = RemotingClient(
            self.handlers(),
            on_lost=self._connection_lost,
            on_not_master=self._not_master,
            rng=config.rng,
            key=config.key,
            codec_of=config.dialect.codec_of(),
        )
        addresses = parse_addresses(config.name_servers)
        self.name_servers = NameServers(self.remoting, addresses, config.rng, config.request_timeout_s, notified=True)
        any_of = config.rng if Quirk.RANDOM_VIEW in config.quirks else None
        self.views = GroupViews(self.remoting, self.routes, config.request_timeout_s, any_of)
        sink = config.event_sink and observing(config.event_sink, "event_sink")
        self.events = EventLog("", config.clock_ms, sink=sink, buffered=config.trace)
        self.residents: dict[Resident, None] = {}
        self.members: dict[str, GroupMember] = {}  # the consumers among the residents, by group
        self.broker_returned = anyio.Event()  # set, and replaced, when a lost broker is back and knows us
        self.background = BackgroundTasks("client instance", partial(fail_all, self.residents))
        self.heartbeats = Heartbeats(self)
        self.refusals = Refusals()
        self.removal_grace = RouteRemovalGrace()
        self._passes = PassRunner(self)
        self._reconnector = BrokerReconnector(self, self.heartbeats)
        self._masters = masters = Masters(self, self.heartbeats, self._reconnector.moved)
        self.masters = masters.connections
        self.connect_master, self.request_master = masters.connect, masters.request
        self.request_until = masters.request_until
        self.is_worth_waiting, self.wait_for_master = masters.is_worth_waiting, masters.wait
        self.busy_wait_s, self.pause_s, self.pause = masters.busy_wait_s, masters.pause_s, masters.pause
        self._updates = updates = RouteUpdates(self, self.name_servers, self.heartbeats, masters, self._reconnector)
        self.poll_routes, self.poll_changed_routes = updates.poll, updates.poll_changed_routes
        self.update_routes, self.fetch_missing_routes = updates.update, updates.fetch_missing

    # --- lifecycle ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reach a name server, take a client id, start the background tasks; see `acquire_instance`."""
        try:
            host = self.config.client_ip
            if host is None or self.config.dialect is ServerDialect.AUTO:
                dialect, own_address = await self.name_servers.find_dialect(self.config.dialect)
                self.config = replace(self.config, dialect=dialect)
                self.events.buffered = self.config.trace
                host = host or own_address
            name = self.config.instance_name or f"{os.getpid()}#{self.config.rng.getrandbits(48):012x}"
            self.client_id = check_id("client id", f"{host}@{name}")
            self.events.node = self.client_id
            run_id = self.config.rng.getrandbits(64)
            self.heartbeats.run_id = f"{run_id:016x}"
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

        Passes begin no sooner: the notification of its own join would start a pass whose requests other brokers refuse.
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
        for topic in set(resident.topics()).difference(self.topics()):
            self.routes.forget(topic)
            self.removal_grace.forget(topic)

    def topics(self) -> tuple[str, ...]:
        """Every topic in use."""
        topics = dict.fromkeys(topic for resident in self.residents for topic in resident.topics())
        if self.config.trace:
            topics[TRACE_TOPIC] = None
        return tuple(topics)

    def addresses(self) -> list[str]:
        """The address of the master of every known broker."""
        return list(self.routes.masters().values())

    # --- rebalance ---------------------------------------------------------------------------------------------------

    def wake(self, group: str, trigger: Trigger, cause: str = "") -> None:
        """Ask for a pass of a group."""
        self._passes.wake(group, trigger, cause)

    def handlers(self) -> dict[RequestCode, PushHandler]:
        """Request code -> handler of the requests that brokers and name servers push."""
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.NOTIFY_QUEUES_RELEASED: self._queues_released,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._offsets_reset,
            RequestCode.NOTIFY_GROUP_SETTINGS: self._settings_changed,
            RequestCode.CHECK_TRANSACTION_STATE: self._transaction_checked,
            RequestCode.NOTIFY_ROUTE_CHANGED: self._routes_notified,
        }

    def _members_changed(self, address: str, command: Command) -> None:
        group, version = str(command.header.get("group")), command.header.get("version", -1)
        cause = str(command.header.get("cause", ""))
        is_known = version != -1 and self.views.known_version(group, address) >= version
        detail = "known" if is_known else ""
        self.events.emit(
            EventKind.NOTIFY_RECEIVED, cause=cause, group=group, client=self.client_id, version=version, detail=detail
        )
        if not is_known:
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
            producer.answer_check(connection, self.routes.broker_at(address), command)

    def _routes_notified(self, address: str, command: Command) -> None:
        self._updates.notified(address, command)

    def max_attempts(self, group: str, broker_name: str, default: int) -> int:
        """The retries of a failed message of a broker: as operators have set them there, or as the member's option."""
        address = self.routes.address_of(broker_name) or ""
        return self.heartbeats.max_attempts.get((address, group), default)

    # --- connections -------------------------------------------------------------------------------------------------

    def _connection_lost(self, address: str) -> None:
        self._masters.forget_old()
        self.broker_lost(address, "")

    def _not_master(self, address: str, error: NotMaster) -> None:
        self._masters.refused(address, error)

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
        events = self.events.remove_all()
        queues = self.routes.publish_queues(TRACE_TOPIC)
        address = self.routes.address_of(queues[0].broker_name) if queues else None
        if not events or address is None:
            self.events.requeue(events)
            return
        message = Message(TRACE_TOPIC, encode_events(events), tags="client")
        payload = encode_payload(message, int(self.config.clock_ms()), events[0].id)
        header = {"topic": TRACE_TOPIC, "queue_id": queues[0].queue_id, "tag_hash": 0}
        try:
            await self.remoting.request(address, RequestCode.SEND_MESSAGE, header, payload)
        except RlabError as error:
            self.events.requeue(events)
            logger.debug("%s: events are kept: %s", self.client_id, error)
