"""The asyncio client: one connection per address, opened when first needed, with a back-off while the peer is away.

Callers that need a connection to one address at the same time share an attempt. If a late server refuses a request, the
client sends it again after a pause, as long as the caller waits (`overload/retry_budget.py`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import anyio

from model.errors import ConfigError, ConnectFailed, InvalidParameter, NotMaster, RlabError, SystemBusy
from model.limits import CONNECT_TIMEOUT_S, RECONNECT_FIRST_S, RECONNECT_MAX_S, REQUEST_TIMEOUT_S
from remoting.address import parse_address
from remoting.codec import Codec, Peer
from remoting.command import Command, error_of_response
from remoting.connection import Connection, close_all
from remoting.overload.admission import request_rank
from remoting.overload.keepalive import leave_when_unacknowledged
from remoting.overload.probe import Probe
from remoting.overload.retry_budget import RetryBudget
from remoting.request_code import RequestCode
from remoting.security.key import Key
from remoting.security.login import log_in, read_own_key
from remoting.security.tls.trust import client_context, tls_reason
from remoting.tasks import OwningLoop
from remoting.wire.field import Rank
from remoting.wire.schema import check_header

logger = logging.getLogger(__name__)

PushHandler = Callable[[str, Command], None]
"""Called with (address, command) for a request that the server pushes; must not block."""
CodecFactory = Callable[[Peer, str], Codec]
"""Creates the codec of a new connection to an address."""


def raise_for_code(response: Command) -> Command:
    """Return the response if its code is SUCCESS.

    Raises:
        RlabError: the class of the code, with the server's remark.
    """
    if response.code:
        raise error_of_response(response)
    return response


class Backoff:
    """Decides when to try an address again: capped exponential waits with jitter."""

    __slots__ = ("_failures", "retry_at")

    def __init__(self) -> None:
        self._failures = 0
        self.retry_at = 0.0

    def failed(self, now: float, rng: random.Random) -> None:
        """Record a failed attempt: the next one has to wait.

        The jitter is over the upper half, so that a thousand clients of one restarted broker spread out, and none of
        them returns at once.
        """
        wait_s = min(RECONNECT_MAX_S, RECONNECT_FIRST_S * 2 ** min(self._failures, 16))
        self._failures += 1
        self.retry_at = now + wait_s * (0.5 + rng.random() / 2)

    def wait_s(self, now: float) -> float:
        """Seconds until the next attempt is due."""
        return max(0.0, self.retry_at - now)


class _CallerCancelled(Exception):
    """The caller that made an attempt was cancelled; whether the server can be reached is unknown."""


class RemotingClient:
    """Connections to many servers; an async context manager that closes them all.

    `handlers` are for requests that servers push. `on_lost` is called with the address when an established connection
    is gone and the client was not closing it; `on_not_master` with the address and the refusal of a replica that does
    not serve, before the sender of the request gets it. `rng` draws the jitter of the back-off. The client proves `key`
    to every server, or the key of the environment if `key` is None (`remoting/security/login.py`). `codec_of` makes the
    codec of each connection, for servers of another dialect, to which no key is proved.

    Raises:
        ConfigError: a key is given, and another dialect.
    """

    def __init__(
        self,
        handlers: Mapping[RequestCode, PushHandler] | None = None,
        *,
        on_lost: Callable[[str], None] | None = None,
        on_not_master: Callable[[str, NotMaster], None] | None = None,
        rng: random.Random | None = None,
        key: Key | None = None,
        codec_of: CodecFactory | None = None,
    ) -> None:
        if key is not None and codec_of is not None:
            raise ConfigError("a key is proved to servers of this project only: leave it out with another dialect")
        self._key = key
        self._handlers = {int(code): handler for code, handler in (handlers or {}).items()}
        self._on_lost = on_lost
        self._on_not_master = on_not_master
        self._codec_of = codec_of
        self._rng = rng or random.Random()
        self._connections: dict[str, Connection] = {}
        self._dialling: dict[str, asyncio.Future[Connection]] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._budgets: dict[str, RetryBudget] = {}  # of servers that refused or did not answer: few, if any
        self._closing = False
        self._home: OwningLoop | None = None  # set by the first connection

    async def __aenter__(self) -> RemotingClient:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    def speak(self, codec_of: CodecFactory | None) -> None:
        """Use these codecs from now on, for connections that are opened later; see `codec_of` of the class."""
        self._codec_of = codec_of
        for address in list(self._connections):
            self.drop(address)

    @property
    def proves_key(self) -> bool:
        """Whether it was given a key, which only servers of this project know."""
        return self._key is not None

    def connected(self, address: str) -> Connection | None:
        """The open connection to the address, if there is one."""
        connection = self._connections.get(address)
        return None if connection is None or connection.closed else connection

    def backoff_s(self, address: str) -> float:
        """Seconds until `connect` tries the address again; 0 if it would try now."""
        backoff = self._backoffs.get(address)
        return 0.0 if backoff is None else backoff.wait_s(asyncio.get_running_loop().time())

    async def connect(self, address: str, timeout_s: float = CONNECT_TIMEOUT_S) -> Connection:
        """Return the open connection to an address, opening it if needed; callers at the same time share one attempt.

        Raises:
            ConnectFailed: refused, unreachable, or no answer in `timeout_s`; at once while the back-off of an earlier
                failure lasts, so that callers with a choice go elsewhere instead of waiting.
            NotAuthenticated, ConfigError: the server refuses the key, or no key can be read.

        Cancellation: harmless; if others share this caller's attempt, one of them starts the next.
        """
        self._check_loop()
        loop = asyncio.get_running_loop()
        left_s, until = timeout_s, loop.time() + timeout_s
        while (connection := self.connected(address)) is None and (shared := self._dialling.get(address)) is not None:
            # Shielded: a cancelled caller must not cancel the attempt of others. If the caller that makes the attempt
            # is cancelled itself, `_CallerCancelled` wakes the others, and the first of them makes the next attempt.
            with anyio.move_on_after(left_s), suppress(_CallerCancelled):
                return await asyncio.shield(shared)
            left_s = round(until - loop.time(), 3)
            if left_s <= 0:
                raise ConnectFailed(f"cannot connect to {address}: no answer in {timeout_s} s")
        if connection is not None:
            return connection
        if self._closing:
            raise ConnectFailed(f"the client is closed; nothing was sent to {address}")
        wait_s = self.backoff_s(address)
        if wait_s > 0:
            raise ConnectFailed(f"{address} could not be reached; next attempt in {wait_s:.2f} s")
        return await self._dial(address, left_s)

    def _check_loop(self) -> None:
        if self._home is None:
            self._home = OwningLoop()
        self._home.check()

    async def _dial(self, address: str, timeout_s: float) -> Connection:
        loop = asyncio.get_running_loop()
        shared: asyncio.Future[Connection] = loop.create_future()
        self._dialling[address] = shared
        try:
            connection = await self._open(address, timeout_s)
        except BaseException as error:
            shared.set_exception(error if isinstance(error, RlabError) else _CallerCancelled(address))
            shared.exception()  # marks it as read: without a waiting caller asyncio would log it
            raise
        else:
            self._connections[address] = connection
            self._backoffs.pop(address, None)
            shared.set_result(connection)
            return connection
        finally:
            del self._dialling[address]

    async def _open(self, address: str, timeout_s: float) -> Connection:
        loop = asyncio.get_running_loop()
        host, port = parse_address(address)

        def make() -> Connection:
            connection = Connection(
                loop,
                on_request=lambda _, command: self._pushed(address, command),
                on_closed=lambda connection, _: self._lost(address, connection),
                pause_reads_when_blocked=False,
            )
            if self._codec_of is not None:
                connection.use(self._codec_of(connection, address))
            if self._on_not_master is not None:
                connection.on_not_master = partial(self._not_master, address)
            return connection

        tls = client_context()
        secured: dict[str, Any] = {} if tls is None else {"ssl": tls}
        try:
            with anyio.fail_after(timeout_s):
                transport, connection = await loop.create_connection(make, host, port, **secured)
        except (OSError, TimeoutError) as error:
            self._backoffs.setdefault(address, Backoff()).failed(loop.time(), self._rng)
            # anyio's TimeoutError has no errno; the operating system's has.
            reason = tls_reason(error) or getattr(error, "strerror", None) or f"no answer in {timeout_s} s"
            raise ConnectFailed(
                f"cannot connect to {address}: {reason}; is it running, and is it the right one?"
            ) from error
        leave_when_unacknowledged(transport)
        key = self._key or read_own_key() if self._codec_of is None else None
        if key is not None:
            try:
                await log_in(connection, key, timeout_s)
            except BaseException as error:  # a cancellation too: no request may follow half a proof
                connection.abort()
                if isinstance(error, RlabError):  # a cancellation does not mean that the server is away
                    self._backoffs.setdefault(address, Backoff()).failed(loop.time(), self._rng)
                raise
        if self._closing:  # `aclose` ran while this attempt waited, and closed only the connections that it knew
            connection.abort()
            raise ConnectFailed(f"the client was closed while connecting to {address}")
        Probe(connection)
        return connection

    async def request(
        self,
        address: str,
        code: int,
        header: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Command:
        """Send a request and wait for its answer; if a late server refuses it, send it again while there is time.

        Raises:
            RlabError: the class of the response code, or a `NetworkError`; `definite` means that the request was
                certainly not carried out.

        Cancellation: the answer is ignored; the request may have been carried out.
        """
        self._check_loop()
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            if address in self._budgets and request_rank(code) is not Rank.KEEPALIVE:
                await self._pause(address, deadline)
                timeout_s = deadline - asyncio.get_running_loop().time()
            try:
                return await self._request(address, code, header or {}, body, timeout_s)
            except SystemBusy as error:
                if not error.retry_after_s:
                    raise

    async def _pause(self, address: str, deadline: float) -> None:
        wait_s = self.retry_wait_s(address)
        if asyncio.get_running_loop().time() + wait_s >= deadline:
            error = SystemBusy(f"{address} is late and asked to wait; nothing was sent, retry in {wait_s:.1f} s")
            error.retry_after_s = wait_s
            raise error
        if wait_s:
            await anyio.sleep(wait_s)

    def retry_wait_s(self, address: str) -> float:
        """Seconds that the next request to an address has to wait; each call reserves the next slot."""
        budget = self._budgets.get(address)
        return 0.0 if budget is None else budget.wait_s(asyncio.get_running_loop().time())

    def refused(self, address: str, error: RlabError) -> None:
        """Record that a late server refused a request which the caller sent over the connection itself."""
        if isinstance(error, SystemBusy) and error.retry_after_s:
            budget = self._budgets.setdefault(address, RetryBudget())
            budget.refused(asyncio.get_running_loop().time(), error.retry_after_s, self._rng.random())

    async def _request(
        self, address: str, code: int, header: Mapping[str, Any], body: bytes | None, timeout_s: float
    ) -> Command:
        connection = self.connected(address) or await self.connect(address, timeout_s)
        if not connection.ready:
            with anyio.move_on_after(timeout_s) as scope:
                await connection.wait_writable()
            if scope.cancelled_caught:
                raise ConnectFailed(f"{address} reads nothing for {timeout_s} s; nothing was sent")
        try:
            answer = raise_for_code(await connection.request(code, header, body, timeout_s))
        except SystemBusy as error:
            self.refused(address, error)
            raise
        if address in self._budgets:
            self._budgets[address].answered(asyncio.get_running_loop().time())
        return answer

    def notify(self, address: str, code: int, header: Mapping[str, Any], body: bytes | None = None) -> bool:
        """Send a one-way request if there is an open connection; False if there is none."""
        self._check_loop()
        connection = self.connected(address)
        return connection is not None and connection.notify(code, header, body)

    def forget_failures(self, address: str) -> None:
        """Try an address again at the next `connect`, because there is news of its server."""
        self._backoffs.pop(address, None)

    def drop(self, address: str) -> None:
        """Close the connection to an address that is no longer needed; `on_lost` is not called."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()
        self._backoffs.pop(address, None)
        self._budgets.pop(address, None)

    async def aclose(self) -> None:
        """Close every connection and wait until all are gone; keep those of a parent process. Idempotent."""
        self._closing = True
        if self._home is not None and self._home.is_in_parent:
            return
        connections = list(self._connections.values())
        self._connections.clear()
        await close_all(connections, 1.0)

    def _lost(self, address: str, connection: Connection) -> None:
        if self._connections.get(address) is connection:
            del self._connections[address]
            if self._on_lost is not None and not self._closing:
                self._on_lost(address)

    def _not_master(self, address: str, response: Command) -> None:
        error = error_of_response(response)
        if isinstance(error, NotMaster) and self._on_not_master is not None and not self._closing:
            self._on_not_master(address, error)

    def _pushed(self, address: str, command: Command) -> None:
        handler = self._handlers.get(command.code)
        if handler is None:
            logger.warning("%s pushed request code %d, which this client does not know", address, command.code)
            return
        try:
            check_header(command)
        except InvalidParameter as error:
            logger.warning("%s pushed a request that cannot be read: %s", address, error)
            return
        handler(address, command)
