"""Runs a name server: the tables behind a port, and their timers.

After each request, closed connection and expiry, the server checks whether routes have changed, and when the next
broker expires. One timer removes expired brokers; the other one notifies the clients that watch changed routes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from model.log_lines import LogLines
from namesrv.config import NameServerConfig
from namesrv.election_handlers import ElectionHandlers
from namesrv.elections import Elections, open_elections
from namesrv.handlers import NameServerHandlers
from namesrv.route_table import BrokerLost, RouteTable
from namesrv.route_watchers import RouteNotice, RouteWatchers, named_topics
from remoting.command import Command
from remoting.connection import Connection
from remoting.deadline_driver import DeadlineDriver
from remoting.request_code import RequestCode
from remoting.server import Handler, RemotingServer, serve
from remoting.tasks import background_tasks
from remoting.wire.field import Right
from rocketmq.dialects import name_server_dialects

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NameServer:
    """A running name server, with the `host:port` that it listens on; only requests change its table.

    `elections` is its register of replica sets, None without one.
    """

    address: str
    table: RouteTable
    server: RemotingServer
    elections: Elections | None = None


def announce(server: RemotingServer, notices: list[RouteNotice]) -> None:
    """Send NOTIFY_ROUTE_CHANGED to each connection, with the topics that its user may see; none of them: no message."""
    gate = server.gate
    for number, changed in notices:
        connection = server.connection(number)
        if connection is None:
            continue
        visible = tuple(topic for topic in changed if gate is None or gate.allows(connection.owner, Right.KNOW, topic))
        if visible:
            names = named_topics(visible)
            connection.notify(RequestCode.NOTIFY_ROUTE_CHANGED, {} if names is None else {"topics": names})


def follow_register(act: Callable[[], None], handler: Handler) -> Handler:
    """Return a handler that calls another one, and then `act`, unless the handler fails."""

    def handle(connection: Connection, request: Command) -> Any:
        reply = handler(connection, request)
        act()
        return reply

    return handle


@asynccontextmanager
async def run_name_server(config: NameServerConfig) -> AsyncIterator[NameServer]:
    """Run a name server while the block runs; it listens when the block begins.

    Raises:
        ConfigError: the address cannot be listened on, or the register of replica sets cannot be opened.

    Cancellation: the port is released and every connection closed before it goes on.
    """
    with nullcontext() if config.elections is None else open_elections(config.elections, config.rng) as elections:
        async with _serving(config, elections) as server:
            yield server


@asynccontextmanager
async def _serving(config: NameServerConfig, elections: Elections | None) -> AsyncIterator[NameServer]:
    loop, table, lines = asyncio.get_running_loop(), RouteTable(), LogLines()
    watchers = RouteWatchers()

    def expire(now: float) -> None:
        for broker_lost in table.expire(now):
            report(broker_lost)
            # The broker hangs, or the network to it is cut. If it still runs, the closed connection makes it register.
            connection = server.connection(broker_lost.connection)
            if connection is not None:
                connection.abort()
        table_changed()

    def closed(connection: Connection) -> None:
        watchers.closed(connection.number)
        for broker_lost in table.connection_closed(connection.number, loop.time()):
            report(broker_lost)
        table_changed()

    def report(broker_lost: BrokerLost) -> None:
        text = "broker %s id %d at %s %s, %d routes changed"
        lines.warning(logger, loop.time(), text, *broker_lost[:3], broker_lost.reason, len(broker_lost.changed))

    def table_changed() -> None:
        driver.wake_by(table.next_deadline())
        if table.unannounced:
            watchers.changed(table.collect_unannounced())
            notifier.wake_by(watchers.next_deadline())

    def name() -> str:
        return config.name or server.address

    driver = DeadlineDriver(table.next_deadline, expire, reads_first=True)
    notifier = DeadlineDriver(watchers.next_deadline, lambda now: announce(server, watchers.collect_due(now)))
    handlers = NameServerHandlers(table, watchers, name, lambda n: None if n is None else server.connection(n))
    server: RemotingServer
    async with (
        serve(
            {
                **{code: follow_register(table_changed, handler) for code, handler in handlers.by_code().items()},
                **ElectionHandlers(elections).by_code(),
            },
            config.listen,
            on_closed=closed,
            grace_s=config.grace_s,
            max_connections=config.max_connections,
            max_connections_of_address=config.max_connections_of_address,
            dialects=name_server_dialects() if config.rocketmq else (),
            connection_class=config.connection_class,
            access=config.access,
            tls=config.tls,
            grpc_tls=config.grpc_tls,
        ) as server,
        background_tasks() as tasks,
    ):
        tasks.start_soon(driver.run)
        tasks.start_soon(notifier.run)
        logger.info("name server listens on %s", server.address)
        yield NameServer(server.address, table, server, elections)
