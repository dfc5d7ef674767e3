"""A register in etcd, for clusters whose elections must not depend on one machine.

    /rlab/register        the id of the register, in decimal
    /rlab/sets/<name>     the encoded row of each set

Each call begins with a transaction that reads. A write then sends a second transaction, which is applied only if the
revisions of both keys are still the same: no other writer has changed the row in between. etcd never repeats a
revision, so a transaction that arrives late changes nothing that is newer. etcd's locks, leases and watches are not
used: a lock of etcd can end while its owner still relies on it, and a row that changes only by compare-and-set needs no
lock.

The id of the register is random, and is stored with its first row. If the key of the id is missing, or a row has
another id, the row is refused: a `restore` was not finished, or a foreign program has written the row.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from model.arguments import short_repr
from model.errors import ConfigError, InvalidParameter, RegisterUnavailable
from model.replica_limits import MAX_REPLICA_SETS, MAX_SET_NUMBER, REGISTER_TIMEOUT_S
from model.replica_set import ReplicaSet, SetChanged, restored_rows, stored_row
from replica.registers.etcd_gateway import EtcdGateway
from replica.registers.etcd_place import EtcdPlace

_MAX_ROUNDS = 5
"""Attempts of a write whose keys have changed between its two transactions. Usually the row has changed, which ends the
write with an error; the other key, the id of the register, changes once."""
_ROWS_AT_ONCE = 64
"""Rows that a restore writes in one transaction: by default etcd allows 128 operations and 1.5 MiB."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key as it was read; `revision` is 0 and `value` empty if etcd does not have it."""

    revision: int = 0
    value: bytes = b""


_NOT_THERE = _Entry()


class EtcdRegister:
    """A `Register` in etcd; an async context manager that closes its connections.

    Raises:
        ConfigError, NotAuthenticated, NoPermission: by each call, see `EtcdGateway`.
    """

    def __init__(
        self, location: EtcdPlace, *, rng: Random | None = None, timeout_s: float = REGISTER_TIMEOUT_S
    ) -> None:
        self._gateway = EtcdGateway(location, timeout_s=timeout_s)
        self._rng = rng or Random()
        self._id_key = f"/{location.prefix}/register"
        self._rows_prefix = f"/{location.prefix}/sets/"

    async def __aenter__(self) -> EtcdRegister:
        await self._gateway.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._gateway.__aexit__(*error)

    @property
    def addresses(self) -> tuple[str, ...]:
        """See `Register.addresses`."""
        return self._gateway.place.endpoints

    async def read(self, name: str) -> ReplicaSet | None:
        """See `Register.read`."""
        register, entry, _ = await self._read_set(name)
        return self._row(entry, self._id(register))

    async def rows(self) -> list[ReplicaSet]:
        """See `Register.rows`."""
        register, entries = await self._all()
        register_id = self._id(register)
        rows = [row for row in (self._row(entry, register_id) for entry in entries) if row is not None]
        return sorted(rows, key=lambda row: row.name)

    async def write(self, new: ReplicaSet, expected_version: int) -> ReplicaSet:
        """See `Register.write`."""
        for _ in range(_MAX_ROUNDS):
            register, entry, n_rows = await self._read_set(new.name)
            register_id = self._id(register)
            current = self._row(entry, register_id)
            is_new = register_id == 0
            register_id = register_id or self._rng.randint(1, MAX_SET_NUMBER)
            row = stored_row(current, new, expected_version, register_id=register_id, n_rows=n_rows)
            puts = [_put(self._rows_prefix + new.name, row.to_wire())]
            if is_new:
                puts.append(_put(self._id_key, str(register_id).encode()))
            if await self._applied(new.name, register, entry, puts):
                return row
        raise RegisterUnavailable(f"other writers were faster {_MAX_ROUNDS} times: set {new.name} is not changed")

    async def remove(self, name: str, expected_version: int) -> None:
        """See `Register.remove`."""
        for _ in range(_MAX_ROUNDS):
            register, entry, _n_rows = await self._read_set(name)
            current = self._row(entry, self._id(register))
            if current is None or current.version != expected_version:
                actual = (
                    "has no row" if current is None else f"has version {current.version} and not {expected_version}"
                )
                raise SetChanged(f"set {name} {actual}", current)
            key = _text(self._rows_prefix + name)
            if await self._applied(name, register, entry, [{"request_delete_range": {"key": key}}]):
                return
        raise RegisterUnavailable(f"other writers were faster {_MAX_ROUNDS} times: set {name} is not removed")

    async def restore(self, rows: Iterable[ReplicaSet]) -> int:
        """Make the register from a copy of the rows of a lost one, in an empty place; returns its id.

        `restored_rows` has the rule. One that was interrupted can be repeated with the same copy: the id comes last,
        and without it no row is believed.

        Raises:
            ConfigError: there is a register at this place, or the copy is wrong.
            RegisterUnavailable: it may be restored or not; repeat it.

        Cancellation: as for RegisterUnavailable.
        """
        register_id, restored = restored_rows(rows)
        values = {self._rows_prefix + row.name: row.to_wire() for row in restored}
        register, entries = await self._all()
        if register.revision or not {entry.value for entry in entries} <= set(values.values()):
            raise ConfigError(
                f"{self._gateway.place} has a register already: name another prefix, or remove its keys from etcd"
            )
        puts = [_put(key, value) for key, value in values.items()]
        batches = [puts[start : start + _ROWS_AT_ONCE] for start in range(0, len(puts), _ROWS_AT_ONCE)]
        for batch in [*batches, [_put(self._id_key, str(register_id).encode())]]:
            if not await self._applied("", register, _NOT_THERE, batch):
                raise ConfigError(f"another process has made a register in {self._gateway.place} meanwhile")
        return register_id

    # --- transactions ------------------------------------------------------------------------------------------------

    async def _read_set(self, name: str) -> tuple[_Entry, _Entry, int]:
        """The entries of the register and of a set at one moment, and the number of sets."""
        (register, _), (entry, _), (_, n_rows) = await self._ranges(
            {"key": _text(self._id_key)},
            {"key": _text(self._rows_prefix + name)},
            {**self._all_rows(), "count_only": True},
        )
        return _one(register), _one(entry), n_rows

    async def _all(self) -> tuple[_Entry, list[_Entry]]:
        """The entries of the register and of all sets, at one moment."""
        (register, _), (entries, _) = await self._ranges(
            {"key": _text(self._id_key)}, {**self._all_rows(), "limit": 2 * MAX_REPLICA_SETS}
        )
        return _one(register), entries

    def _all_rows(self) -> dict[str, Any]:
        prefix = self._rows_prefix
        return {"key": _text(prefix), "range_end": _text(prefix[:-1] + chr(ord(prefix[-1]) + 1))}

    async def _ranges(self, *ranges: dict[str, Any]) -> list[tuple[list[_Entry], int]]:
        """Read several ranges at one moment: for each the entries, and the number of keys."""
        answer = await self._gateway.read({"success": [{"request_range": each} for each in ranges]})
        try:
            entries = [_entries(each["response_range"]) for each in answer["responses"]]
            if len(entries) != len(ranges):
                raise ValueError(f"{len(entries)} answers to {len(ranges)} questions")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RegisterUnavailable(f"the answer of etcd is not one of a transaction: {error!r}") from error
        return entries

    async def _applied(self, name: str, register: _Entry, entry: _Entry, operations: Sequence[dict[str, Any]]) -> bool:
        """Apply a change if both keys still are as they were read; returns whether it was applied."""
        compare = [_same(self._id_key, register), _same(self._rows_prefix + name, entry)]
        answer = await self._gateway.change({"compare": compare, "success": list(operations)})
        succeeded = answer.get("succeeded", False)  # left out if it is false
        if type(succeeded) is not bool or "header" not in answer:
            raise RegisterUnavailable(
                f"etcd may have changed set {name}, or not: its answer is not one of a transaction"
            )
        return succeeded

    # --- rows --------------------------------------------------------------------------------------------------------

    def _id(self, register: _Entry) -> int:
        """The id of the register; 0 before its first row."""
        if not register.revision:
            return 0
        try:
            register_id = int(register.value)
        except ValueError:
            register_id = 0
        if not 1 <= register_id <= MAX_SET_NUMBER:
            raise RegisterUnavailable(
                f"the key {self._id_key} of etcd is not the id of a register: {short_repr(register)}"
            )
        return register_id

    def _row(self, entry: _Entry, register_id: int) -> ReplicaSet | None:
        """The row of a set; None without one."""
        if not entry.revision:
            return None
        try:
            row = ReplicaSet.from_wire(entry.value)
        except InvalidParameter as error:
            raise RegisterUnavailable(f"a key of etcd below {self._rows_prefix} is not a row: {error}") from error
        if register_id == 0:
            raise RegisterUnavailable(
                f"etcd has {row} and no key {self._id_key}: 'rlab elections restore' was not finished, repeat it"
            )
        if row.register_id != register_id:
            raise RegisterUnavailable(f"etcd has {row} of register {row.register_id}, and is register {register_id}")
        return row


def _text(raw: str | bytes) -> str:
    return b64encode(raw.encode() if isinstance(raw, str) else raw).decode()


def _put(key: str, value: bytes) -> dict[str, Any]:
    return {"request_put": {"key": _text(key), "value": _text(value)}}


def _same(key: str, entry: _Entry) -> dict[str, Any]:
    """The condition that a key is as it was read; one that is not there has the revision 0."""
    return {"key": _text(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(entry.revision)}


def _entries(answer: dict[str, Any]) -> tuple[list[_Entry], int]:
    """The entries of an answer, and the number of keys; the gateway leaves out empty fields."""
    entries = [
        _Entry(int(each["mod_revision"]), b64decode(each.get("value", ""), validate=True))
        for each in answer.get("kvs", ())
    ]
    return entries, int(answer.get("count", 0))


def _one(entries: list[_Entry]) -> _Entry:
    return entries[0] if entries else _NOT_THERE
