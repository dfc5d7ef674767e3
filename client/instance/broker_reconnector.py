"""Reconnects a client instance to the masters of brokers: to lost ones, and to the next master of a set of replicas.

RocketMQ registers right after a broker's channel becomes active, but makes the channel only when a request needs it, so
that a restarted broker may lack a member until its next heartbeat, for up to 30 s. Here a lost broker is tried at once,
with a back-off; when it has answered a heartbeat, and so has our members again, every group runs a pass.

A broker that restarts is in no route for a moment. A client that polls in that moment would see its return only in
the next poll. So a lost broker is tried for some time even if no route names it, and when it is up, the routes are
polled. They are also polled at the end of the time for which the queues of a lost broker are kept (`routes.py`), so
that all members revoke these queues at the same time, whatever their poll interval is.

A broker may also return at another address, for instance in a new container. So once an attempt has failed, the name
server is asked every second whether a route has changed, for a minute after the last loss: one small request for all
lost brokers together.

A broker without copies has one address, and a send to it fails while it is away. A set of replicas has another master
soon: a request that has to reach its master waits for the next one until its timeout. A client finds the next master in
three ways, each of which is sufficient: a replica that does not serve answers NOT_MASTER with the address of the
master; a name server notifies of the changed route (`route_updates.py`); the name servers are asked at once when the
connection is lost.

The queues of a set are known by the broker name, so a member keeps them when the master moves. But its sessions
(`lease_session.py`) are with one process: they end, and the next master confirms each lease before messages are
dispatched again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio

from client.instance.heartbeats import Heartbeats
from client.instance.member import InstanceHost
from model.errors import (
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    NotEnoughReplicas,
    NotMaster,
    ReplicationTimeout,
    RlabError,
    SystemBusy,
)
from model.events import EventKind
from model.limits import (
    ABSENT_BROKER_KEPT_S,
    ABSENT_BROKER_SPREAD_S,
    BROKER_CHECK_INTERVAL_S,
    BROKER_CHECK_S,
    PULL_RETRY_ERROR_S,
)
from model.replica_limits import MASTER_CONNECT_S, MASTER_PAUSE_S, OLD_MASTER_CONNECTION_S, OLD_MASTER_QUIET_S
from remoting.client import Backoff, raise_for_code
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Lost:
    """The loss of a connection to a broker, at a loop time; `news` is set when it may be back."""

    cause: str
    at: float
    news: anyio.Event = field(default_factory=anyio.Event)


class BrokerReconnector:
    """The lost brokers of one client instance, one task for each."""

    def __init__(self, host: InstanceHost, heartbeats: Heartbeats) -> None:
        self._host = host
        self._heartbeats = heartbeats
        self._trying: dict[str, _Lost] = {}  # by address
        self._looking = False
        self._poll_until = 0.0

    @property
    def lost_at(self) -> dict[str, float]:
        """Address of each broker that is tried -> loop time at which the connection was lost."""
        return {address: lost_broker.at for address, lost_broker in self._trying.items()}

    def keep_trying(self, address: str, cause: str) -> None:
        """Try a broker until it is back; nothing if it is tried already, if no route names it, or after the stop.

        Without a cause, its BROKER_DOWN is a root.
        """
        if address in self._host.addresses() and address not in self._trying and self._host.background.running:
            client_id = self._host.client_id
            cause = self._host.events.emit(EventKind.BROKER_DOWN, cause=cause, client=client_id, detail=address)
            now = anyio.current_time()
            self._trying[address] = _Lost(cause, now)
            self._poll_until = now + BROKER_CHECK_S
            logger.info(
                "%s: the connection to the broker at %s is lost: its queues are kept for %.0f s, and longer while a "
                "name server lists it",
                *(client_id, address, ABSENT_BROKER_KEPT_S),
            )
            self._host.background.start_soon(self._try, address, cause)

    def try_soon(self, address: str) -> None:
        """Try a lost broker now: its process has started again. Nothing if it is not lost."""
        if (lost_broker := self._trying.get(address)) is not None:
            self._host.remoting.forget_failures(address)
            lost_broker.news.set()

    async def moved(self, addresses: list[str]) -> None:
        """Register with brokers that are at other addresses than before, and wake all that waits for them.

        Cancellation: some may not have been reached.
        """
        cause = next((lost_broker.cause for lost_broker in self._trying.values()), "")
        for address in addresses:
            if await self._heartbeats.send(cause, [address]):
                self._returned(address, cause)

    async def _try(self, address: str, cause: str) -> None:
        config, loop_time, routes = self._host.config, anyio.current_time, self._host.routes
        until = loop_time() + max(config.route_poll_interval_s, ABSENT_BROKER_KEPT_S + ABSENT_BROKER_SPREAD_S)
        name, backoff, lost_broker = routes.broker_at(address), Backoff(), self._trying[address]
        try:
            async with anyio.create_task_group() as tasks:
                over = anyio.Event()
                tasks.start_soon(self._poll_kept_routes, address, over)
                if routes.is_set(name):
                    self._check_routes()
                # Not at its old address once it is elsewhere: another process may have that address now.
                while address in self._host.addresses() or (loop_time() < until and name not in routes.masters()):
                    backoff.failed(loop_time(), config.rng)
                    lost_broker.news = anyio.Event()
                    with anyio.move_on_after(max(backoff.wait_s(loop_time()), self._host.remoting.backoff_s(address))):
                        await lost_broker.news.wait()
                        backoff = Backoff()
                    if await self._is_back(name, address, cause):
                        self._returned(address, cause)
                        break
                    self._check_routes()
                over.set()
        finally:
            del self._trying[address]
            if address not in self._host.addresses():
                self._host.remoting.drop(address)

    def _check_routes(self) -> None:
        if not self._looking and self._host.background.running:
            self._looking = True
            self._host.background.start_soon(self._poll_routes)

    def _returned(self, address: str, cause: str) -> None:
        self._host.events.emit(EventKind.BROKER_UP, cause=cause, client=self._host.client_id, detail=address)
        self._host.on_broker_returned(cause)

    async def _poll_routes(self) -> None:
        """Ask for changed routes as long as a broker is lost, or back but not registered yet, but not for ever."""
        host = self._host
        try:
            while (self._trying or host.removal_grace.waits) and anyio.current_time() < self._poll_until:
                with suppress(RlabError):
                    await host.poll_changed_routes()
                await anyio.sleep(BROKER_CHECK_INTERVAL_S)
        finally:
            self._looking = False

    async def _poll_kept_routes(self, address: str, over: anyio.Event) -> None:
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

    async def _is_back(self, name: str, address: str, cause: str) -> bool:
        """Whether the broker is up, in a route, and knows who is here."""
        timeout_s = self._host.config.request_timeout_s
        try:
            is_set = self._host.routes.is_set(name)
            await self._host.remoting.connect(address, min(timeout_s, MASTER_CONNECT_S) if is_set else timeout_s)
            if address not in self._host.addresses():
                await self._host.poll_routes()
        except RlabError:
            return False
        # The connection may be lost again before the answer, and only this task tries again.
        return address in self._host.addresses() and await self._heartbeats.send(cause, [address])


_NOTHING_DONE = (ConnectFailed, NotMaster, NotEnoughReplicas)
"""After these errors a request to a set is repeated as often as its time allows: it was certainly not carried out."""
_MAY_BE_DONE = (*_NOTHING_DONE, ConnectionLost, ReplicationTimeout)
"""After these, a request that may be executed twice: a replaced master may not have read it, or may lose its effect."""


class Masters:
    """The connections to the masters of all brokers; `register_at` registers the members at masters with new addresses.

    Attributes:
        connections: broker name -> open connection to its master, for frequent requests; see `forget_old`.
    """

    def __init__(
        self,
        host: InstanceHost,
        heartbeats: Heartbeats,
        register_at: Callable[[list[str]], Coroutine[Any, Any, None]],
    ) -> None:
        self.connections: dict[str, Connection] = {}
        self._host = host
        self._heartbeats = heartbeats
        self._register_at = register_at

    async def connect(self, broker_name: str, timeout_s: float, *, waits: bool = False) -> Connection:
        """The open connection to the master of a broker, made if need be; in `connections` from then on.

        With `waits`, it waits for a master of a set for all of the time, and not only for an answer of the one that is
        known.

        ConnectFailed: it has no master now, or cannot be reached; nothing was sent. Cancellation: harmless.
        """
        host, until = self._host, anyio.current_time() + timeout_s
        while True:
            address = host.routes.address_of(broker_name)
            try:
                if address is None:
                    raise ConnectFailed(f"broker {broker_name!r} has no master now; nothing was sent")
                connection = host.remoting.connected(address)
                if connection is None:
                    connection = await host.remoting.connect(address, self._connect_timeout_s(broker_name, until))
            except NetworkError:
                if address is not None:
                    host.broker_lost(address, "")
                if not (waits and host.routes.is_set(broker_name) and await self._wait(address, until)):
                    raise
                continue
            self.connections[broker_name] = connection
            return connection

    def _connect_timeout_s(self, broker_name: str, until: float) -> float:
        left_s = max(0.0, round(until - anyio.current_time(), 6))
        return min(left_s, MASTER_CONNECT_S) if self._host.routes.is_set(broker_name) else left_s

    async def _wait(self, address: str | None, until: float) -> bool:
        """Wait until a master may answer: a broker has returned or moved, or a back-off is over. False: no time."""
        left_s = until - anyio.current_time()
        if left_s <= 0:
            return False
        backoff_s = 0.0 if address is None else self._host.remoting.backoff_s(address)
        with anyio.move_on_after(min(left_s, max(backoff_s, MASTER_PAUSE_S))):
            await self._host.broker_returned.wait()
        return anyio.current_time() < until

    async def request(
        self, broker_name: str, code: RequestCode, header: dict[str, Any], body: bytes | None = None, **more: bool
    ) -> Command:
        """Request something of the master of a broker, with the timeout of the options; see `request_until`."""
        until = anyio.current_time() + self._host.config.request_timeout_s
        return await self.request_until(broker_name, code, header, body, until, **more)

    async def request_until(
        self,
        broker_name: str,
        code: RequestCode,
        header: dict[str, Any],
        body: bytes | None,
        until: float,
        *,
        repeats: bool = False,
    ) -> Command:
        """Request something of the master of a broker, by a loop time.

        A set is asked again, or its next master, while there is time, after errors with which nothing was done; with
        `repeats`, which is for what may be done twice, also after some that leave that open.

        RlabError: of the first attempt that may have been carried out, else the last. Cancellation: it may have been.
        """
        doubt: RlabError | None = None
        while True:
            try:
                connection = await self.connect(broker_name, until - anyio.current_time(), waits=True)
                if not connection.ready:
                    with anyio.move_on_after(until - anyio.current_time()) as scope:
                        await connection.wait_writable()
                    if scope.cancelled_caught:
                        raise ConnectFailed(f"broker {broker_name!r} reads nothing; nothing was sent")
                return raise_for_code(await connection.request(code, header, body, until - anyio.current_time()))
            except RlabError as error:
                doubt = doubt or (None if error.definite else error)
                is_worth = self.is_worth_waiting(broker_name, error, repeats=repeats)
                if not (is_worth and await self.wait(broker_name, until)):
                    raise doubt or error from None

    def is_worth_waiting(self, broker_name: str, error: RlabError, *, repeats: bool = False) -> bool:
        """Whether a request that failed may succeed at the next master of a set, and has certainly done nothing.

        With `repeats` it may have done it.
        """
        return isinstance(error, _MAY_BE_DONE if repeats else _NOTHING_DONE) and self._host.routes.is_set(broker_name)

    async def wait(self, broker_name: str, until: float) -> bool:
        """Wait until the master of a set may accept a request that was refused, at most a short time.

        Returns whether there is time left. Cancellation: harmless.
        """
        if broker_name not in self.connections:
            return anyio.current_time() < until  # it has moved: `connect` waits
        return await self._wait(None, until)

    def pause_s(self, broker_name: str) -> float:
        """Seconds before a consumer repeats a request that failed, for instance a pull: short at the master of a set.

        The next master is connected as soon as it is known; requests of the last one fail a moment later.
        """
        address = self._host.routes.address_of(broker_name)
        is_there = address is not None and self._host.remoting.connected(address) is not None
        return MASTER_PAUSE_S if is_there and self._host.routes.is_set(broker_name) else PULL_RETRY_ERROR_S

    async def pause(self, broker_name: str) -> None:
        """Wait for `pause_s`, or until a broker has returned. Cancellation: harmless."""
        with anyio.move_on_after(self.pause_s(broker_name)):
            await self._host.broker_returned.wait()

    def busy_wait_s(self, broker_name: str, error: RlabError) -> float:
        """Seconds before a broker may be asked again that has refused a request; 0 if it did not ask to wait.

        The callers of this instance wait one after the other: each call gets a later time.
        """
        address = self._host.routes.address_of(broker_name)
        if address is None or not isinstance(error, SystemBusy) or not error.retry_after_s:
            return 0.0
        self._host.remoting.refused(address, error)
        return self._host.remoting.retry_wait_s(address)

    def forget_old(self) -> None:
        """Forget connections that were lost, or whose address no longer has a master.

        Only these: an outstanding send to another master would fail, and its producer would avoid that broker.
        """
        for broker_name, connection in list(self.connections.items()):
            address = self._host.routes.address_of(broker_name)
            if address is None or self._host.remoting.connected(address) is not connection:
                del self.connections[broker_name]

    def moved(self, old_masters: Mapping[str, str]) -> None:
        """End the sessions with masters that have moved since they had these addresses, by broker name.

        The connection to the last master of a set is closed, so that no request waits longer for its answer. This
        happens a short time later, because answers may be in transit, but soon: if the old master hangs, no answer
        comes, and a send has little time left.
        """
        host, now = self._host, self._host.routes.masters()
        for broker_name, address in old_masters.items():
            if now.get(broker_name, address) != address:
                self._heartbeats.sessions.end_at(address)
                connection = host.remoting.connected(address)
                if connection is not None and host.routes.is_set(broker_name) and host.background.running:
                    host.background.start_soon(self._leave, address, connection)

    async def _leave(self, address: str, connection: Connection) -> None:
        reads = connection.reads
        await anyio.sleep(OLD_MASTER_QUIET_S)
        if connection.reads != reads:
            await anyio.sleep(OLD_MASTER_CONNECTION_S - OLD_MASTER_QUIET_S)
        if address not in self._host.addresses():
            connection.drop_unsent("another replica is the master of this broker")

    def refused(self, address: str, error: NotMaster) -> None:
        """Follow a replica's NOT_MASTER to the master that it names, or try this broker until its route has one."""
        routes, background = self._host.routes, self._host.background
        old_masters = routes.masters()
        broker_name = next((name for name, master in old_masters.items() if master == address), "")
        if not broker_name or not background.running:
            return  # an answer of a connection that was left before
        if not routes.follow(broker_name, error.master_address, error.epoch):
            self._host.broker_lost(address, "")
            return
        logger.info(
            "%s: the master of broker %s is at %s now, epoch %d, and no longer at %s",
            *(self._host.client_id, broker_name, error.master_address, error.epoch, address),
        )
        self.moved(old_masters)
        self.forget_old()
        background.start_soon(self._register_at, [error.master_address])
