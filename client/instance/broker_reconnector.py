"""Reconnects a client instance to the brokers that it has lost.

RocketMQ registers right after a broker's channel becomes active, but makes the channel only when a request needs it, so
that a member of a restarted broker may be missing until its next heartbeat, 30 s. Here a lost broker is tried at once,
with a back-off; when it has answered a heartbeat, and so knows us again, every group runs a pass.

A broker that restarts is in no route for a moment. A client that polls in that moment would learn of its return only by
the next poll. So a lost broker is tried for one poll interval even if no route names it, and when it is up, the routes
are polled.

A broker may also return at another address, for instance in a new container. So once an attempt has failed, the name
server is asked every second whether a route has changed, for a minute after the last loss: one small request for all
lost brokers together.
"""

from __future__ import annotations

from contextlib import suppress

import anyio

from client.instance.heartbeats import Heartbeats
from client.instance.member import InstanceHost
from model.errors import RlabError
from model.events import EventKind
from model.limits import BROKER_LOOK_INTERVAL_S, BROKER_LOOK_S
from remoting.client import Backoff


class BrokerReconnector:
    """The lost brokers of one client instance, one task for each."""

    def __init__(self, host: InstanceHost, heartbeats: Heartbeats) -> None:
        self._host = host
        self._heartbeats = heartbeats
        self._trying: dict[str, str] = {}  # address -> cause
        self._looking = False
        self._look_until = 0.0

    def keep_trying(self, address: str, cause: str) -> None:
        """Try a broker until it is back; nothing if it is tried already, if no route names it, or after the stop.

        Without a cause, its BROKER_DOWN is a root.
        """
        if address in self._host.addresses() and address not in self._trying and self._host.background.running:
            client_id = self._host.client_id
            cause = self._host.events.emit(EventKind.BROKER_DOWN, cause=cause, client=client_id, detail=address)
            self._trying[address] = cause
            self._look_until = anyio.current_time() + BROKER_LOOK_S
            self._host.background.start_soon(self._try, address, cause)

    async def moved(self, addresses: list[str]) -> None:
        """Register with brokers that are at other addresses than before, and wake all that waits for them.

        Cancellation: some may not have been reached.
        """
        cause = next(iter(self._trying.values()), "")
        for address in addresses:
            if await self._heartbeats.send(cause, [address]):
                self._returned(address, cause)

    async def _try(self, address: str, cause: str) -> None:
        backoff, loop_time, routes = Backoff(), anyio.current_time, self._host.routes
        until = loop_time() + self._host.config.route_poll_interval_s
        name = routes.broker_at(address)
        try:
            # Not where it was before once it is elsewhere: that may be the address of somebody else now.
            while address in self._host.addresses() or (loop_time() < until and name not in routes.brokers()):
                backoff.failed(loop_time(), self._host.config.rng)
                await anyio.sleep(max(backoff.wait_s(loop_time()), self._host.remoting.backoff_s(address)))
                if await self._is_back(address, cause):
                    self._returned(address, cause)
                    return
                if not self._looking:
                    self._looking = True
                    self._host.background.start_soon(self._look)
        finally:
            del self._trying[address]
            if address not in self._host.addresses():
                self._host.remoting.drop(address)

    def _returned(self, address: str, cause: str) -> None:
        self._host.events.emit(EventKind.BROKER_UP, cause=cause, client=self._host.client_id, detail=address)
        self._host.on_broker_returned(cause)

    async def _look(self) -> None:
        """Ask for changed routes as long as a broker is lost, or back but not registered yet, but not for ever."""
        host = self._host
        try:
            while (self._trying or host.removal_grace.waits) and anyio.current_time() < self._look_until:
                with suppress(RlabError):
                    await host.look_for_brokers()
                await anyio.sleep(BROKER_LOOK_INTERVAL_S)
        finally:
            self._looking = False

    async def _is_back(self, address: str, cause: str) -> bool:
        """Whether the broker is up, in a route, and knows who is here."""
        try:
            await self._host.remoting.connect(address, self._host.config.request_timeout_s)
            if address not in self._host.addresses():
                await self._host.poll_routes()
        except RlabError:
            return False
        # The connection may be lost again before the answer, and only this task tries again.
        return address in self._host.addresses() and await self._heartbeats.send(cause, [address])
