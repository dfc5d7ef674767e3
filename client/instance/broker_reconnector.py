"""Reconnects a client instance to the brokers that it has lost.

RocketMQ registers right after a broker's channel becomes active, but makes the channel only when a request needs it, so
that a member of a restarted broker may be missing until its next heartbeat, 30 s. Here a lost broker is tried at once,
with a back-off; when it has answered a heartbeat, and so knows us again, every group runs a pass.

A broker that restarts is in no route for a moment. A client that polls in that moment would see its return only in
the next poll. So a lost broker is tried for some time even if no route names it, and when it is up, the routes are
polled. They are polled, too, when its queues have been kept for as long as they are kept (`routes.py`), so that all
members revoke them at that time, whatever their poll interval is.

A broker may also return at another address, for instance in a new container. So once an attempt has failed, the name
server is asked every second whether a route has changed, for a minute after the last loss: one small request for all
lost brokers together.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from random import Random
from typing import NamedTuple

import anyio

from client.instance.heartbeats import Heartbeats
from client.instance.member import InstanceHost
from model.errors import RlabError
from model.events import EventKind
from model.limits import ABSENT_BROKER_KEPT_S, ABSENT_BROKER_SPREAD_S, BROKER_LOOK_INTERVAL_S, BROKER_LOOK_S
from remoting.client import Backoff

logger = logging.getLogger(__name__)


class _Lost(NamedTuple):
    """The loss of a connection to a broker, at a loop time."""

    cause: str
    at: float


class BrokerReconnector:
    """The lost brokers of one client instance, one task for each."""

    def __init__(self, host: InstanceHost, heartbeats: Heartbeats) -> None:
        self._host = host
        self._heartbeats = heartbeats
        self._trying: dict[str, _Lost] = {}  # by address
        self._looking = False
        self._look_until = 0.0

    @property
    def lost_at(self) -> dict[str, float]:
        """Address of each broker that is tried -> loop time at which the connection was lost."""
        return {address: lost.at for address, lost in self._trying.items()}

    def keep_trying(self, address: str, cause: str) -> None:
        """Try a broker until it is back; nothing if it is tried already, if no route names it, or after the stop.

        Without a cause, its BROKER_DOWN is a root.
        """
        if address in self._host.addresses() and address not in self._trying and self._host.background.running:
            client_id = self._host.client_id
            cause = self._host.events.emit(EventKind.BROKER_DOWN, cause=cause, client=client_id, detail=address)
            now = anyio.current_time()
            self._trying[address] = _Lost(cause, now)
            self._look_until = now + BROKER_LOOK_S
            logger.info(
                "%s: the connection to the broker at %s is lost: its queues are kept for %.0f s, and longer while a "
                "name server lists it",
                *(client_id, address, ABSENT_BROKER_KEPT_S),
            )
            self._host.background.start_soon(self._try, address, cause)

    async def moved(self, addresses: list[str]) -> None:
        """Register with brokers that are at other addresses than before, and wake all that waits for them.

        Cancellation: some may not have been reached.
        """
        cause = next((lost.cause for lost in self._trying.values()), "")
        for address in addresses:
            if await self._heartbeats.send(cause, [address]):
                self._returned(address, cause)

    async def _try(self, address: str, cause: str) -> None:
        config, loop_time, routes = self._host.config, anyio.current_time, self._host.routes
        kept_s = max(config.route_poll_interval_s, ABSENT_BROKER_KEPT_S + ABSENT_BROKER_SPREAD_S)
        until, name, backoff = loop_time() + kept_s, routes.broker_at(address), Backoff()
        try:
            async with anyio.create_task_group() as tasks:
                over = anyio.Event()
                tasks.start_soon(self._give_up, address, over)
                # Not at its old address once it is elsewhere: another process may have that address now.
                while address in self._host.addresses() or (loop_time() < until and name not in routes.brokers()):
                    backoff.failed(loop_time(), config.rng)
                    await anyio.sleep(max(backoff.wait_s(loop_time()), self._host.remoting.backoff_s(address)))
                    if await self._is_back(address, cause):
                        self._returned(address, cause)
                        break
                    if not self._looking:
                        self._looking = True
                        self._host.background.start_soon(self._look)
                over.set()
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

    async def _give_up(self, address: str, over: anyio.Event) -> None:
        """Poll the routes when the queues of a lost broker have been kept for long enough, unless it is over before."""
        spread = Random(self._host.client_id).random()  # of its own, so that other waits do not depend on losses
        with anyio.move_on_after(ABSENT_BROKER_KEPT_S + ABSENT_BROKER_SPREAD_S * spread):
            await over.wait()
            return
        try:
            await self._host.poll_routes()
        except RlabError as error:
            logger.warning(
                "%s: the queues of the broker at %s are kept until a name server answers: %s",
                *(self._host.client_id, address, error),
            )
            return
        if address not in self._host.addresses():
            logger.warning(
                "%s: the broker at %s is in no route %.0f s after its connection was lost: its queues are revoked",
                *(self._host.client_id, address, anyio.current_time() - self._trying[address].at),
            )

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
