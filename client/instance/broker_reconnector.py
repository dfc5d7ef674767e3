"""Brokers that a client instance has lost, and how it finds them again.

RocketMQ registers right after a broker's channel becomes active, but makes the channel only when somebody needs it, so
that a member of a restarted broker may be missing until its next heartbeat, 30 s. Here a lost broker is tried at once,
and then again and again; when it has answered a heartbeat, and so knows us again, every group looks at what it owns.

A broker that restarts is in no route for a moment. Whoever polls in that moment would hear of its return only with the
next poll. So a broker is tried for as long as that after it was lost even if no route names it, and when it is up, the
routes are asked for again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import anyio

from client.instance.background import BackgroundTasks
from client.instance.heartbeats import Heartbeats
from model.errors import RlabError
from model.event_log import EventLog
from model.events import EventKind
from remoting.client import Backoff, RemotingClient


class BrokerReconnector:
    """The lost brokers of one client instance, one task for each.

    Args:
        remoting: the connections.
        heartbeats: how a broker gets to know us.
        events: where BROKER_DOWN and BROKER_UP go, as this client sees them.
        background: where the tasks run.
        addresses: gives every address that a route names.
        poll_routes: asks for the routes again.
        returned: called with the cause when a broker is back and knows us.
        rng: jitter of the back-off.
        timeout_s: per attempt.
        unnamed_s: how long a broker is tried that no route names.
    """

    def __init__(
        self,
        remoting: RemotingClient,
        heartbeats: Heartbeats,
        events: EventLog,
        background: BackgroundTasks,
        *,
        addresses: Callable[[], list[str]],
        poll_routes: Callable[[], Awaitable[None]],
        returned: Callable[[str], None],
        rng: Random,
        timeout_s: float,
        unnamed_s: float,
    ) -> None:
        self._remoting = remoting
        self._heartbeats = heartbeats
        self._events = events
        self._background = background
        self._addresses = addresses
        self._poll_routes = poll_routes
        self._returned = returned
        self._rng = rng
        self._timeout_s = timeout_s
        self._unnamed_s = unnamed_s
        self._trying: dict[str, None] = {}

    def keep_trying(self, address: str, cause: str) -> None:
        """Try a broker until it is back; nothing if it is tried already, if no route names it, or at the end of us.

        Args:
            address: of the broker.
            cause: id of what showed that it is away; without one, its BROKER_DOWN is a root of its own.
        """
        if address in self._addresses() and address not in self._trying and self._background.running:
            cause = self._events.emit(
                EventKind.BROKER_DOWN, cause=cause, client=self._heartbeats.client_id, detail=address
            )
            self._trying[address] = None
            self._background.start_soon(self._try, address, cause)

    async def _try(self, address: str, cause: str) -> None:
        backoff, loop_time = Backoff(), anyio.current_time
        until = loop_time() + self._unnamed_s
        try:
            while address in self._addresses() or loop_time() < until:
                backoff.failed(loop_time(), self._rng)
                await anyio.sleep(max(backoff.wait_s(loop_time()), self._remoting.backoff_s(address)))
                if await self._is_back(address, cause):
                    self._events.emit(
                        EventKind.BROKER_UP, cause=cause, client=self._heartbeats.client_id, detail=address
                    )
                    self._returned(cause)
                    return
        finally:
            del self._trying[address]
            if address not in self._addresses():
                self._remoting.drop(address)

    async def _is_back(self, address: str, cause: str) -> bool:
        """Whether the broker is up, in a route, and knows who is here."""
        try:
            await self._remoting.connect(address, self._timeout_s)
            if address not in self._addresses():
                await self._poll_routes()
        except RlabError:
            return False
        # The connection may be lost again before the answer, and nobody else would try once more.
        return address in self._addresses() and await self._heartbeats.send(cause, [address])
