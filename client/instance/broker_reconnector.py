"""Reconnects a client instance to the brokers that it has lost.

RocketMQ registers right after a broker's channel becomes active, but makes the channel only when a request needs it, so
that a member of a restarted broker may be missing until its next heartbeat, 30 s. Here a lost broker is tried at once,
with a back-off; when it has answered a heartbeat, and so knows us again, every group runs a pass.

A broker that restarts is in no route for a moment. A client that polls in that moment would learn of its return only by
the next poll. So a lost broker is tried for one poll interval even if no route names it, and when it is up, the routes
are polled.
"""

from __future__ import annotations

import anyio

from client.instance.heartbeats import Heartbeats
from client.instance.member import InstanceHost
from model.errors import RlabError
from model.events import EventKind
from remoting.client import Backoff


class BrokerReconnector:
    """The lost brokers of one client instance, one task for each."""

    def __init__(self, host: InstanceHost, heartbeats: Heartbeats) -> None:
        self._host = host
        self._heartbeats = heartbeats
        self._trying: dict[str, None] = {}

    def keep_trying(self, address: str, cause: str) -> None:
        """Try a broker until it is back; nothing if it is tried already, if no route names it, or after the stop.

        Without a cause, its BROKER_DOWN is a root.
        """
        if address in self._host.addresses() and address not in self._trying and self._host.background.running:
            client_id = self._host.client_id
            cause = self._host.events.emit(EventKind.BROKER_DOWN, cause=cause, client=client_id, detail=address)
            self._trying[address] = None
            self._host.background.start_soon(self._try, address, cause)

    async def _try(self, address: str, cause: str) -> None:
        backoff, loop_time = Backoff(), anyio.current_time
        until = loop_time() + self._host.config.route_poll_interval_s
        try:
            while address in self._host.addresses() or loop_time() < until:
                backoff.failed(loop_time(), self._host.config.rng)
                await anyio.sleep(max(backoff.wait_s(loop_time()), self._host.remoting.backoff_s(address)))
                if await self._is_back(address, cause):
                    client_id = self._host.client_id
                    self._host.events.emit(EventKind.BROKER_UP, cause=cause, client=client_id, detail=address)
                    self._host.on_broker_returned(cause)
                    return
        finally:
            del self._trying[address]
            if address not in self._host.addresses():
                self._host.remoting.drop(address)

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
