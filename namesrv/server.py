"""The name server: a route table behind a port, and the one timer that removes expired brokers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass

from model.log_lines import LogLines
from namesrv.config import NameServerConfig
from namesrv.election_handlers import ElectionHandlers
from namesrv.elections import Elections, open_elections
from namesrv.handlers import NameServerHandlers
from namesrv.route_table import CLOSED, SILENT, BrokerGone, RouteTable
from remoting.connection import Connection
from remoting.deadline_driver import DeadlineDriver
from remoting.server import RemotingServer, serve
from remoting.tasks import background_tasks
from rocketmq.dialects import name_server_dialect

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

    def expire(now: float) -> None:
        for gone in table.expire(now):
            report(gone, SILENT)
            # It hangs, or the network to it is cut. If it is alive it has to notice that it is no longer registered.
            connection = server.connection(gone.connection)
            if connection is not None:
                connection.abort()

    def closed(connection: Connection) -> None:
        for gone in table.connection_closed(connection.number, loop.time()):
            report(gone, CLOSED)

    def report(gone: BrokerGone, reason: str) -> None:
        text = "broker %s id %d at %s %s, %d routes changed"
        lines.warning(logger, loop.time(), text, *gone[:3], reason, len(gone.changed))

    def name() -> str:
        return config.name or server.address

    driver = DeadlineDriver(table.next_deadline, expire, reads_first=True)
    handlers = NameServerHandlers(table, name=name, wake_by=driver.wake_by)
    server: RemotingServer
    async with (
        serve(
            {**handlers.by_code(), **ElectionHandlers(elections).by_code()},
            config.listen,
            on_closed=closed,
            grace_s=config.grace_s,
            max_connections=config.max_connections,
            max_connections_of_address=config.max_connections_of_address,
            dialect=name_server_dialect() if config.rocketmq else None,
            connection_class=config.connection_class,
            access=config.access,
            tls=config.tls,
        ) as server,
        background_tasks() as tasks,
    ):
        tasks.start_soon(driver.run)
        logger.info("name server listens on %s", server.address)
        yield NameServer(server.address, table, server, elections)
