"""The register of a name server, asked over the wire: finds the one name server that keeps elections.

Other name servers answer REQUEST_CODE_NOT_SUPPORTED, as those of earlier versions do. A read asks the name servers in
turn until one has elections; a write goes only to the one that answered last, because of two registers one is wrong,
and a write must not be tried at the other. Every failure is RegisterUnavailable, except refusals of the register
itself: only after such a refusal is it certain that nothing was written.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgpack

from model.errors import (
    ConfigError,
    InvalidParameter,
    NetworkError,
    RegisterUnavailable,
    RequestCodeNotSupported,
    ServerError,
)
from model.replica_limits import REGISTER_TIMEOUT_S
from model.replica_set import ReplicaSet, SetChanged
from remoting.client import RemotingClient
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.security.key import Key

_UNANSWERED = (NetworkError, ServerError)
"""Errors of a name server that cannot do it now; the write may have been made or not."""


class RemoteRegister:
    """A `Register` at name servers; an async context manager that closes its connections.

    `key` needs the right `replicate` of the set, or is an administrator's. Each request waits `timeout_s`.

    Raises:
        ConfigError: by each call: no name server keeps elections.
        NoPermission, NotAuthenticated: by each call: the key lacks the right.
    """

    def __init__(
        self,
        name_servers: Sequence[str],
        *,
        key: Key | None = None,
        rng: random.Random | None = None,
        timeout_s: float = REGISTER_TIMEOUT_S,
    ) -> None:
        self._addresses = tuple(name_servers)
        self._timeout_s = timeout_s
        self._keeper: str | None = None  # the name server that has answered for the register
        self._client = RemotingClient(rng=rng, key=key)

    async def __aenter__(self) -> RemoteRegister:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._client.aclose()

    @property
    def addresses(self) -> tuple[str, ...]:
        """See `Register.addresses`."""
        return () if self._keeper is None else (self._keeper,)

    async def read(self, name: str) -> ReplicaSet | None:
        """See `Register.read`."""
        rows = _rows_of(await self._ask({"broker_name": name}))
        return rows[0] if rows else None

    async def rows(self) -> list[ReplicaSet]:
        """See `Register.rows`; only an administrator may ask for all."""
        return _rows_of(await self._ask({}))

    async def write(self, new: ReplicaSet, expected_version: int) -> ReplicaSet:
        """See `Register.write`."""
        answer = await self._change(RequestCode.PUT_REPLICA_SET, new.name, expected_version, new.to_wire())
        row = ReplicaSet.from_wire(answer.body) if answer.body else None
        if not answer.header.get("written"):
            raise _changed(new.name, row, expected_version)
        if row is None:
            raise RegisterUnavailable(f"the register at {self._keeper} answered a write of set {new.name} without it")
        return row

    async def remove(self, name: str, expected_version: int) -> None:
        """See `Register.remove`; only an administrator may do it."""
        answer = await self._change(RequestCode.REMOVE_REPLICA_SET, name, expected_version, None)
        if not answer.header.get("removed"):
            row = ReplicaSet.from_wire(answer.body) if answer.body else None
            raise _changed(name, row, expected_version)

    async def _change(self, code: RequestCode, name: str, expected_version: int, body: bytes | None) -> Command:
        """Send a change to the name server that has answered for the register, and to no other."""
        if self._keeper is None:
            await self._ask({"broker_name": name})
        assert self._keeper is not None, "a name server has answered"
        header = {"broker_name": name, "expected_version": expected_version}
        try:
            return await self._request(self._keeper, code, header, body)
        except _UNANSWERED as error:
            text = f"the register at {self._keeper} may have changed set {name}, or not: {error}"
            raise RegisterUnavailable(text) from error
        except RequestCodeNotSupported as error:
            keeper, self._keeper = self._keeper, None
            text = f"{keeper} no longer keeps elections: nothing was changed, and the next call looks for the register"
            raise RegisterUnavailable(text) from error

    async def _ask(self, header: dict[str, Any]) -> Command:
        """Ask the name servers in turn, the keeper first. Cancellation: harmless."""
        failures = []
        for address in sorted(self._addresses, key=lambda each: each != self._keeper):
            try:
                answer = await self._request(address, RequestCode.GET_REPLICA_SET, header)
            except RequestCodeNotSupported:
                continue
            except _UNANSWERED as error:
                failures.append(f"{address}: {error}")
            else:
                self._keeper = address
                return answer
        if failures:
            raise RegisterUnavailable(f"no name server answers for the register: {'; '.join(failures)}")
        raise ConfigError(
            f"none of the name servers {', '.join(self._addresses)} keeps elections: start one of them with "
            "--elections DIR, or name the register with --register"
        )

    async def _request(
        self, address: str, code: RequestCode, header: dict[str, Any], body: bytes | None = None
    ) -> Command:
        try:
            return await self._client.request(address, code, header, body, self._timeout_s)
        except NetworkError:
            if self._client.connected(address) is None:
                # With its back-off of seconds: a set waits for the register, and few replicas ask it, with pauses.
                self._client.drop(address)
            raise


def _changed(name: str, row: ReplicaSet | None, expected_version: int) -> SetChanged:
    version = 0 if row is None else row.version
    return SetChanged(f"set {name} has version {version} and not {expected_version}: read it again", row)


def _rows_of(answer: Command) -> list[ReplicaSet]:
    try:
        rows: Any = msgpack.unpackb(answer.body or b"")
        return [ReplicaSet.from_wire(row) for row in rows]
    except (ValueError, TypeError, msgpack.UnpackException, InvalidParameter) as error:
        raise RegisterUnavailable(f"the name server answered with rows that cannot be read: {error}") from error
