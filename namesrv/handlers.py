"""The handlers of a name server: one method per request code, all of them instant, except that which asks a broker.

A poll of a route, which thousands of clients send every 30 s, costs two dictionary lookups and one frame; a poll that
asks whether any route has changed costs a comparison.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgpack

from model.errors import ServiceNotAvailable, TopicNotExist
from model.log_lines import LogLines
from model.names import check_id
from model.recall import parse_recall_handle
from namesrv.beginning import Beginning
from namesrv.registration import checked_address, parse_registration
from namesrv.route_table import RouteTable
from namesrv.route_watchers import RouteWatchers
from remoting.command import Command, Reply, error_of_response
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

logger = logging.getLogger(__name__)


class NameServerHandlers:
    """The handlers of one name server; created in its running loop.

    `name` returns the name for health checks, `connection` an open connection by its number.
    """

    def __init__(
        self,
        table: RouteTable,
        watchers: RouteWatchers,
        name: Callable[[], str],
        connection: Callable[[int | None], Connection | None],
    ) -> None:
        self._table = table
        self._name = name
        self._connection = connection
        self._now = asyncio.get_running_loop().time
        self._started = self._now()
        self._beginning = Beginning(self._started)
        self._watchers = watchers
        self._moves = LogLines()
        self._comings = LogLines()
        self._full = LogLines()

    def by_code(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {
            RequestCode.REGISTER_BROKER: self.register_broker,
            RequestCode.UNREGISTER_BROKER: self.unregister_broker,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.get_route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.get_cluster_info,
            RequestCode.GET_ABSENT_BROKERS: self.get_absent_brokers,
            RequestCode.FORGET_BROKER: self.forget_broker,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.get_all_topics,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.set_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.set_write_perm,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.GET_SERVER_STATE: self.get_state,
            RequestCode.FORWARD_RECALL: self.forward_recall,
        }

    def register_broker(self, connection: Connection, request: Command) -> Reply:
        """Register a broker; see `RouteTable.register_broker`."""
        registration = parse_registration(request)
        key, address = registration.key, registration.address
        now = self._now()
        old_address = self._table.address_of(*key)
        changed = self._table.register_broker(registration, connection.number, now)
        self._beginning.registered(key, newcomer=registration.newcomer, now=now)
        if registration.set_id and (old_address is None or old_address != address):
            text = "broker %s id %d at %s registered as %s of set %d, epoch %d, %d routes changed"
            of_set = (registration.role or "replica", registration.set_id, registration.epoch)
            self._comings.info(logger, now, text, *key, address, *of_set, len(changed))
        elif old_address is not None and old_address != address:
            text = "broker %s id %d moved from %s to %s: if both run, they need two names"
            self._moves.warning(logger, now, text, *key, old_address, address)
        elif old_address is None or changed:
            cause = request.header.get("cause") or "none"
            text = "broker %s id %d at %s registered version %d, %d routes changed, cause %s"
            values = (*key, address, registration.version, len(changed), cause)
            self._comings.info(logger, now, text, *values)
        return Reply({"changed": bool(changed)})

    def unregister_broker(self, connection: Connection, request: Command) -> Reply:
        """Unregister a broker."""
        name, broker_id = check_id("broker name", request.header["broker_name"]), request.header["broker_id"]
        address = checked_address(request.header["address"])
        is_known = self._table.address_of(name, broker_id) == address
        changed = self._table.unregister_broker(name, broker_id, address, self._now())
        if is_known:
            text = "broker %s id %d at %s unregistered, %d routes changed"
            values = (name, broker_id, address, len(changed))
            self._comings.info(logger, self._now(), text, *values)
        return Reply({})

    def get_route(self, connection: Connection, request: Command) -> Reply:
        """Answer with the route of a topic, or that no route has changed since the caller fetched all of them.

        ServiceNotAvailable: the topic is not known yet, because this name server has just started; ask again.
        """
        version = self._table.version
        if request.header.get("notify") and not self._watchers.watch(connection.number, request.header["topic"]):
            text = "%s is notified of no change of topic %s, because %d connections watch as many topics as they may"
            self._full.info(logger, self._now(), text, connection.peer, request.header["topic"], len(self._watchers))
        if request.header.get("known_version") == version:
            return Reply({"version": version, "unchanged": True})
        try:
            return Reply({"version": version}, self._table.encoded_route(request.header["topic"]))
        except TopicNotExist:
            now = self._now()
            if self._beginning.is_complete(now):
                raise
            raise ServiceNotAvailable(
                f"topic {request.header['topic']!r} is not known yet: this name server started "
                f"{now - self._started:.1f} s ago, and brokers may be about to register; ask again"
            ) from None

    def get_cluster_info(self, connection: Connection, request: Command) -> Reply:
        """List all brokers."""
        brokers = self._table.clusters()
        body = msgpack.packb([[each.cluster, each.broker_name, list(each.addresses.items())] for each in brokers])
        sets = [
            [
                *(each.broker_name, each.set_id, each.epoch),
                [[r.broker_id, r.replica_id, r.role, r.lag_bytes] for r in self._table.live_of(each.broker_name)],
            ]
            for each in brokers
            if each.set_id
        ]
        return Reply({"sets": sets} if sets else {}, body)

    def get_absent_brokers(self, connection: Connection, request: Command) -> Reply:
        """List the brokers that left without unregistering, of all topics or of one."""
        now = self._now()
        absent = self._table.absent.listed(now, request.header.get("topic"))
        return Reply({"uptime_s": now - self._started}, msgpack.packb([broker.to_wire() for broker in absent]))

    def forget_broker(self, connection: Connection, request: Command) -> Reply:
        """Forget an absent broker; harmless when none has that name."""
        name = check_id("broker name", request.header["broker_name"])
        forgotten = self._table.forget(name)
        if forgotten:
            logger.info("broker %s is forgotten: it is no longer listed as absent", name)
        return Reply({"n": forgotten})

    def get_all_topics(self, connection: Connection, request: Command) -> Reply:
        """List all topics."""
        return Reply({}, msgpack.packb(self._table.topics()))

    def set_write_perm(self, connection: Connection, request: Command) -> Reply:
        """Make producers leave a broker, or let them use it again."""
        name, wiped = request.header["broker_name"], request.code == RequestCode.WIPE_WRITE_PERM_OF_BROKER
        changed = self._table.set_write_perm(name, wiped=wiped)
        verb = "wiped" if wiped else "restored"
        logger.info("write permission of broker %s %s on %d topics", name, verb, len(changed))
        return Reply({"n": len(changed)})

    def delete_topic(self, connection: Connection, request: Command) -> Reply:
        """Forget a topic; harmless when it is not known."""
        if self._table.delete_topic(request.header["topic"]):
            logger.info("topic %s deleted", request.header["topic"])
        return Reply({})

    async def forward_recall(self, connection: Connection, request: Command) -> Reply:
        """Have the broker of a handle recall a message. Cancellation: it may be recalled."""
        header = request.header
        broker = parse_recall_handle(header["handle"]).broker
        registered = self._connection(self._table.connection_of(broker))
        if registered is None:
            raise ServiceNotAvailable(
                f"broker {broker[:100]!r}, which has the message, is not registered here: try again"
            )
        message_header = {"topic": header["topic"], "handle": header["handle"]}
        answer = await registered.request(RequestCode.RECALL_MESSAGE, message_header)
        if answer.code:
            raise error_of_response(answer)
        return Reply({"message_id": answer.header["message_id"]})

    def get_state(self, connection: Connection, request: Command) -> Reply:
        """Answer a health check."""
        return Reply({"kind": "namesrv", "name": self._name(), "uptime_s": self._now() - self._started})
