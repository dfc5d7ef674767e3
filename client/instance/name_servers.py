"""Sends requests to name servers: to one, and to the next one when it fails. RocketMQ: NettyRemotingClient."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Any

import anyio
import msgpack

from client.config import ServerDialect
from model.errors import (
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    RlabError,
    ServiceNotAvailable,
    TopicNotExist,
)
from model.limits import MAX_SHARED_ROUTES, NAME_SERVER_STARTING_S, ROUTE_RETRY_S
from model.topic_route import TopicRoute
from remoting.client import RemotingClient
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode


class NameServers:
    """The name servers of one client; the first one is chosen at random, so that clients use all of them.

    With `notified`, each of them sends NOTIFY_ROUTE_CHANGED of the topics whose routes it was asked for.
    """

    def __init__(
        self,
        remoting: RemotingClient,
        addresses: tuple[str, ...],
        rng: Random,
        timeout_s: float,
        *,
        notified: bool = False,
    ) -> None:
        self._remoting = remoting
        self._addresses = addresses
        self._current = rng.randrange(len(addresses))
        self._timeout_s = timeout_s
        self._ask_for: dict[str, Any] = {"notify": True} if notified else {}
        # The connection of the first answer since `begin_poll` and the version of its table; no connection if a later
        # answer came over another one.
        self._as_of: tuple[Connection | None, object] | None = None
        self._hung_up = False  # whether any of them has closed a connection instead of an answer

    async def request(
        self, code: RequestCode, header: Mapping[str, Any] | None = None, body: bytes | None = None
    ) -> Command:
        """Ask the current name server, or the next that answers; its refusal is raised, or ConnectFailed.

        Cancellation: harmless.
        """
        failures = []
        not_yet: ServiceNotAvailable | None = None
        # Requests run at the same time: each remembers where it began, or two that fail together would skip a name
        # server that is up.
        first = self._current
        for step in range(len(self._addresses)):
            index = (first + step) % len(self._addresses)
            address = self._addresses[index]
            try:
                answer = await self._remoting.request(address, code, header, body, self._timeout_s)
            except (NetworkError, ServiceNotAvailable) as error:
                failures.append(f"{address}: {error}")
                self._hung_up = self._hung_up or isinstance(error, ConnectionLost)
                not_yet = error if isinstance(error, ServiceNotAvailable) else not_yet
            except RlabError:
                self._current = index
                raise
            else:
                self._current = index
                return answer
        raise ConnectFailed(f"no name server answers: {'; '.join(failures)}") from not_yet

    async def route(self, topic: str) -> TopicRoute | None:
        """The route of a topic; None when the name server answers that no broker serves it.

        A name server that has just started does not know that yet: it is asked again until it does. ConnectFailed means
        that nothing is known about the topic. Cancellation: harmless.
        """
        # Enough time for one more request after the last such answer.
        until = anyio.current_time() + NAME_SERVER_STARTING_S + ROUTE_RETRY_S
        while True:
            try:
                answer = await self.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, **self._ask_for})
            except TopicNotExist:
                return None
            except ConnectFailed as error:
                if not isinstance(error.__cause__, ServiceNotAvailable) or anyio.current_time() >= until:
                    raise
            else:
                connection = self._answering()
                if self._as_of is None:
                    self._as_of = connection, answer.header.get("version")
                elif self._as_of[0] is not connection:
                    self._as_of = None, None
                return _decoded(answer.body or b"")
            await anyio.sleep(ROUTE_RETRY_S)

    def ask_next(self) -> None:
        """Begin with the next name server from now on."""
        self._current = (self._current + 1) % len(self._addresses)

    def begin_poll(self) -> None:
        """Called before all routes in use are requested."""
        self._as_of = None

    async def any_changed(self, topic: str) -> bool:
        """Whether any route may differ from the last poll; the topic is one of them.

        One small request instead of one for each topic, because routes hardly ever change. Later answers count as old
        as the first of the poll, so a route that changed during the poll counts as changed.

        ConnectFailed: no name server answers. Cancellation: harmless.
        """
        connection, version = self._as_of or (None, None)
        if connection is None or version is None or self._answering() is not connection:
            return True
        try:
            header = {"topic": topic, "known_version": version}
            answer = await self.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        except TopicNotExist:
            return True
        return not answer.header.get("unchanged") or self._answering() is not connection

    def _answering(self) -> Connection | None:
        """The connection to the name server that answered last."""
        return self._remoting.connected(self._addresses[self._current])

    async def find_dialect(self, dialect: ServerDialect) -> tuple[ServerDialect, str]:
        """Reach a name server; returns its dialect, the first of ours and RocketMQ's with AUTO, and our own address.

        A name server of RocketMQ closes a connection that begins with our frame, without an answer. So does one of ours
        that is killed just then; it answers both dialects when it is back, and reports in RocketMQ's that it is ours.
        Errors are those of `connect_and_get_own_address`.
        """
        if dialect is not ServerDialect.AUTO:
            return dialect, await self.connect_and_get_own_address()
        try:
            return ServerDialect.RLAB, await self.connect_and_get_own_address()
        except ConnectFailed as ours:
            if not self._hung_up or self._remoting.proves_key:
                raise
            self._remoting.speak(ServerDialect.ROCKETMQ.codec_of())
            try:
                address, is_ours = await self._connect()
            except NetworkError:
                self._remoting.speak(None)
                raise ours from None
        if not is_ours:
            return ServerDialect.ROCKETMQ, address
        self._remoting.speak(None)
        return ServerDialect.RLAB, await self.connect_and_get_own_address()

    async def connect_and_get_own_address(self) -> str:
        """Connect to a name server, check that it is one, and return our address as it sees it.

        The text of ConnectFailed says which were tried; ConfigError: the one that answered is not a name server.
        """
        return (await self._connect())[0]

    async def _connect(self) -> tuple[str, bool]:
        """See above; the second is whether it reports in RocketMQ's dialect that it is one of ours."""
        state = (await self.request(RequestCode.GET_SERVER_STATE)).header
        address = self._addresses[self._current]
        kind = state.get("kind")
        if kind != "namesrv":
            raise ConfigError(f"{address} is {kind} {state.get('name')!r}, not a name server: give the address of one")
        connection = self._answering()
        return (connection.local_host if connection is not None else "127.0.0.1"), bool(state.get("ours"))


@lru_cache(maxsize=MAX_SHARED_ROUTES)
def _decoded(body: bytes) -> TopicRoute:
    """The route of an answer. Clients of one process that get equal answers share one route, with its queue lists."""
    return TopicRoute.from_wire(msgpack.unpackb(body, strict_map_key=False))
