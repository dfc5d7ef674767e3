"""The server of a replica that is not the master: it sends clients to the master, and answers requests of operators.

Every request that only a master may serve is refused with NOT_MASTER and the master's address, so that a client goes
there at once. Health, the state of the set and the figures of this process are answered in every role.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NoReturn

import msgpack

from broker.config import BrokerConfig
from model.errors import RlabError
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler, RemotingServer, serve
from rocketmq.dialects import broker_dialects
from rocketmq.edge import ServerFacts

logger = logging.getLogger(__name__)


class WaitingFacts(ServerFacts):
    """A replica that is not the master, as the clients of RocketMQ's dialect see it."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def now_ms(self) -> int:
        """See `ServerFacts`."""
        return int(self._config.clock_ms())

    def broker_name(self) -> str:
        """See `ServerFacts`."""
        return self._config.name


class WaitingHandlers:
    """The handlers of a replica that is not the master; `refusal` makes the error for everything else."""

    def __init__(self, config: BrokerConfig, refusal: Callable[[], RlabError]) -> None:
        self._config, self._refusal = config, refusal
        self._now = asyncio.get_running_loop().time
        self._started_at = self._now()

    def by_code(self, own_handlers: Mapping[RequestCode, Handler]) -> dict[RequestCode, Handler]:
        """Request code -> handler; `own_handlers` serves the requests about the set."""
        served: dict[RequestCode, Handler] = dict.fromkeys(RequestCode, self._refuse)
        served[RequestCode.GET_SERVER_STATE] = self._server_state
        served[RequestCode.GET_BROKER_RUNTIME_INFO] = self._runtime_info
        return {**served, **own_handlers}

    def _refuse(self, connection: Connection, request: Command) -> NoReturn:
        raise self._refusal()

    def _server_state(self, connection: Connection, request: Command) -> Reply:
        return Reply({"kind": "broker", "name": self._config.name, "uptime_s": self._now() - self._started_at})

    def _runtime_info(self, connection: Connection, request: Command) -> Reply:
        """Figures of this process; a replica that is not the master serves no topics, groups or members."""
        info = {
            "name": self._config.name,
            "cluster": self._config.cluster,
            "uptime_s": self._now() - self._started_at,
            "topics": [],
            "damaged": {},
            **dict.fromkeys(("groups", "held_pulls", "held_pops", "pop_messages", "producers", "events_dropped"), 0),
            "now_ms": self._config.clock_ms(),
            "disk_full": False,
            "quirks": sorted(quirk.value for quirk in self._config.quirks),
        }
        return Reply({}, msgpack.packb(info))


@asynccontextmanager
async def waiting_server(
    config: BrokerConfig, listen: str, refusal: Callable[[], RlabError], own_handlers: Mapping[RequestCode, Handler]
) -> AsyncIterator[RemotingServer]:
    """Serve a replica's port while it is not the master.

    Raises:
        ConfigError: the address cannot be listened on.

    Cancellation: the port is released and every connection closed before it goes on.
    """
    handlers = WaitingHandlers(config, refusal)
    async with serve(
        handlers.by_code(own_handlers),
        listen,
        max_connections=config.max_connections,
        max_connections_of_address=config.max_connections_of_address,
        dialects=broker_dialects(WaitingFacts(config)) if config.rocketmq else (),
        connection_class=config.connection_class,
        access=config.access,
        tls=config.tls,
        grpc_tls=config.grpc_tls,
    ) as server:
        yield server
