"""ReplicaSet: the replicas of one broker name, as the register has them: one row for each set. Pure.

A row changes only by compare-and-set of its version (`stored_row`), in the register that made it. Every row satisfies

    master in in_sync, or 0 while there is no master
    in_sync is a subset of the members; min_in_sync <= copies
    no replica id is given twice, not even after its replica was forgotten

and of two rows of a set, the newer one has the higher version, an epoch that is not lower, and a higher epoch if its
master differs: no epoch has two masters. `replica/sets.py` decides which changes are made; a register checks only this.

    >>> one = Replica(replica_id=1, address="h:1")
    >>> row = ReplicaSet(
    ...     name="a", set_id=7, epoch=1, master=1, in_sync=(1,), members=(one,), last_replica_id=1
    ... )
    >>> stored_row(None, row, 0, register_id=9, n_rows=0).version
    1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NoReturn

import msgpack

from model.arguments import check_whole, short_repr
from model.counted import plural
from model.errors import ConfigError, IllegalOperation, InvalidParameter, NegativeAnswer
from model.names import check_id
from model.replica_limits import (
    LEASE_S,
    MAX_LEASE_S,
    MAX_REPLICA_SET_BYTES,
    MAX_REPLICA_SETS,
    MAX_REPLICAS,
    MAX_SET_NUMBER,
    MIN_LEASE_S,
)

NO_MASTER = 0
"""In the place of a master's replica id: no replica serves until one is elected."""
RESTORED_VERSIONS = 1_000_000
"""Versions that a restored row skips: more changes of a set than there are between two copies of its register."""


class Acks(StrEnum):
    """Which replicas have a message when its send is answered."""

    ALL = "all"
    """All that are in sync: a replica that takes over has every acknowledged message."""
    MASTER = "master"
    """The master alone: a message may be lost with the master before others have it. RocketMQ: ASYNC_MASTER."""


class SetChanged(NegativeAnswer):
    """The row has another version than the writer expected, so nothing was written; `current` is the row, or None."""

    def __init__(self, text: str, current: ReplicaSet | None) -> None:
        super().__init__(text)
        self.current = current


class Elect(StrEnum):
    """When a replica in sync makes itself the master."""

    AUTO = "auto"
    """Once the lease of the master is certainly over."""
    FAST = "fast"
    """At once, too, if the connection to the master closes and its address refuses another: its process has ended."""
    OPERATOR = "operator"
    """Never: an operator elects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A member of a set.

    Attributes:
        replica_id: given when it joined; stays with its data directory, and is never given again.
        address: `host:port` that clients and other replicas connect to.
        incarnation: number of its starts; 0 until the first. A copy of an old directory has a lower one.

    Raises:
        InvalidParameter: a field has no legal value.
    """

    replica_id: int
    address: str
    incarnation: int = 0

    def __post_init__(self) -> None:
        check_whole("replica id", self.replica_id, 1, MAX_SET_NUMBER)
        check_id("address of a replica", self.address)
        check_whole("incarnation", self.incarnation, 0, MAX_SET_NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSet:
    """One row of the register; see the module header for what holds of each.

    Attributes:
        name: the broker name that its replicas share.
        set_id: random number of this set: another set of the same name has another one.
        register_id: random number of the register; 0 in a row that was never written.
        version: 1 in the first row that was written, one more in each later one; 0 before.
        epoch: number of the mastership: one more for each new master and each start of a master.
        master: replica id; `NO_MASTER` while no replica may serve.
        in_sync: ids of the replicas that have every acknowledged message, ascending.
        members: sorted by replica id.
        last_replica_id: the highest id that was ever given.
        copies: the wanted number of replicas, the master included.
        min_in_sync: with fewer replicas in sync, sends are refused.
        acks: which replicas have a message when its send is answered.
        lease_ms: how long a master may serve without a confirmation of the others; the same within an epoch.
        stopped_epoch: the masters of all epochs up to this one serve no more; 0 in a row of an earlier version, which
            does not have it. A version that does not know the field leaves it out when it changes a row, so 0 must
            always be safe.

    Raises:
        InvalidParameter: a field has no legal value, or they contradict each other.
    """

    name: str
    set_id: int
    epoch: int
    master: int
    in_sync: tuple[int, ...]
    members: tuple[Replica, ...]
    register_id: int = 0
    version: int = 0
    last_replica_id: int = 0
    copies: int = 1
    min_in_sync: int = 1
    acks: Acks = Acks.ALL
    lease_ms: int = int(1000 * LEASE_S)
    stopped_epoch: int = 0

    def __post_init__(self) -> None:
        check_id("broker name", self.name)
        check_whole("set id", self.set_id, 1, MAX_SET_NUMBER)
        check_whole("epoch", self.epoch, 1, MAX_SET_NUMBER)
        check_whole("stopped epoch", self.stopped_epoch, 0, self.epoch - 1)
        check_whole("version", self.version, 0, MAX_SET_NUMBER)
        check_whole("register id", self.register_id, min(self.version, 1), MAX_SET_NUMBER)
        check_whole("copies", self.copies, 1, MAX_REPLICAS)
        check_whole("min_in_sync", self.min_in_sync, 1, self.copies)
        check_whole("lease in milliseconds", self.lease_ms, int(1000 * MIN_LEASE_S), int(1000 * MAX_LEASE_S))
        ids = [member.replica_id for member in self.members]
        check_whole("last replica id", self.last_replica_id, max(ids, default=0), MAX_SET_NUMBER)
        check_whole("number of replicas", len(ids), 1, MAX_REPLICAS)
        if not _ascends(ids) or not _ascends(self.in_sync):
            raise InvalidParameter(f"set {self.name}: replica ids must ascend: {ids}, in sync {list(self.in_sync)}")
        if not set(self.in_sync) <= set(ids):
            raise InvalidParameter(f"set {self.name}: {list(self.in_sync)} are in sync, but the members are {ids}")
        if self.master != NO_MASTER and self.master not in self.in_sync:
            raise InvalidParameter(f"set {self.name}: master {self.master} is not in sync ({list(self.in_sync)})")
        if len({member.address for member in self.members}) < len(ids):
            raise InvalidParameter(f"set {self.name}: two replicas have one address")

    def member(self, replica_id: int) -> Replica | None:
        """The member of that id, or None."""
        return next((member for member in self.members if member.replica_id == replica_id), None)

    @property
    def has_settled(self) -> bool:
        """Whether the masters of all earlier epochs serve no more, so that the master of this row may begin at once."""
        return self.stopped_epoch == self.epoch - 1

    @property
    def master_address(self) -> str | None:
        """Address of the master; None while there is no master."""
        master = self.member(self.master)
        return None if master is None else master.address

    def to_wire(self) -> bytes:
        """Encoded form, for frames and files."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        fields["members"] = [(each.replica_id, each.address, each.incarnation) for each in self.members]
        fields["acks"] = str(self.acks)
        encoded: bytes = msgpack.packb(fields)
        return encoded

    @classmethod
    def from_wire(cls, wire: bytes) -> ReplicaSet:
        """Read and check the encoded form; fields of later versions are left out.

        Raises:
            InvalidParameter: the bytes are not a row.
        """
        if len(wire) > MAX_REPLICA_SET_BYTES:
            raise InvalidParameter(f"a replica set may have {MAX_REPLICA_SET_BYTES} bytes, not {len(wire)}")
        try:
            fields: Any = msgpack.unpackb(wire)
        except (ValueError, msgpack.UnpackException) as error:
            raise InvalidParameter(f"a replica set must be msgpack: {error}") from None
        if type(fields) is not dict or not fields.keys() >= _REQUIRED:
            raise InvalidParameter(f"a replica set must be a map with {', '.join(sorted(_REQUIRED))}")
        known_fields = {name: fields[name] for name in _FIELDS if name in fields}
        known_fields["in_sync"] = tuple(_list_of(fields["in_sync"], "in_sync"))
        known_fields["members"] = tuple(_member(each) for each in _list_of(fields["members"], "members"))
        check_whole("master", known_fields["master"], NO_MASTER, MAX_SET_NUMBER)
        for replica_id in known_fields["in_sync"]:
            check_whole("replica id in sync", replica_id, 1, MAX_SET_NUMBER)
        if "acks" in known_fields:
            known_fields["acks"] = acks_of(known_fields["acks"])
        return cls(**known_fields)

    @classmethod
    def from_document(cls, fields: Mapping[str, Any]) -> ReplicaSet:
        """Read and check a row of `rlab elections show --json`, in which a member is a map.

        Raises:
            InvalidParameter: it is not a row.
        """
        members = _list_of(fields.get("members"), "members")
        flat = [list(map(each.get, _MEMBER)) if isinstance(each, dict) else each for each in members]
        try:
            return cls.from_wire(msgpack.packb({**fields, "members": flat}))
        except (TypeError, OverflowError) as error:
            raise InvalidParameter(f"a replica set must have numbers and texts: {error}") from None

    def __str__(self) -> str:
        master = "no master" if self.master == NO_MASTER else f"master {self.master}"
        in_sync = ", ".join(map(str, self.in_sync)) or "none"
        return f"set {self.name} version {self.version}: epoch {self.epoch}, {master}, in sync {in_sync}"


_MEMBER = ("replica_id", "address", "incarnation")
_REQUIRED = frozenset({"name", "set_id", "epoch", "master", "in_sync", "members"})
_FIELDS = (
    *sorted(_REQUIRED),
    *("register_id", "version", "last_replica_id", "copies", "min_in_sync", "acks", "lease_ms", "stopped_epoch"),
)


def acks_of(value: object) -> Acks:
    """The acknowledgements of that name.

    Raises:
        InvalidParameter: there are none of that name.
    """
    if not isinstance(value, str) or value not in set(Acks):
        raise InvalidParameter(f"acks must be {' or '.join(Acks)}, got {short_repr(value)}")
    return Acks(value)


def stored_row(
    current: ReplicaSet | None, new: ReplicaSet, expected_version: int, *, register_id: int, n_rows: int
) -> ReplicaSet:
    """The row that a register of this id, with this number of rows, stores in the place of `current`.

    Raises:
        SetChanged: the stored row has another version than expected; 0 expects none.
        IllegalOperation: the row belongs to another register or to another set, it goes back, or no more rows fit.
    """
    version = 0 if current is None else current.version
    if version != expected_version:
        raise SetChanged(
            f"set {new.name} has version {version} and not {expected_version}: another replica changed it, read it "
            "again",
            current,
        )
    if new.register_id not in (register_id, 0) or (current is not None and new.register_id == 0):
        _refuse(new, f"it belongs to register {new.register_id}, and this is register {register_id}")
    if current is not None:
        check_newer(current, new)
    elif n_rows >= MAX_REPLICA_SETS:
        raise IllegalOperation(f"the register has {MAX_REPLICA_SETS} sets, the most it may have: {new.name} is refused")
    return replace(new, version=expected_version + 1, register_id=register_id)


def was_written(new: ReplicaSet, expected_version: int, read: ReplicaSet | None) -> bool:
    """Whether a row that was read after a write without an answer is the written one.

    If it is not, the write was lost, or no longer has an effect. A register of an earlier version leaves
    `stopped_epoch` out. Two changes that differ in nothing else make the same replica the master, which may begin
    after either.
    """
    if read is None:
        return False
    written_set = replace(new, version=expected_version + 1, register_id=read.register_id, stopped_epoch=0)
    return replace(read, stopped_epoch=0) == written_set


def check_newer(old: ReplicaSet, new: ReplicaSet) -> None:
    """Check that a row may replace another one: nothing in it goes back.

    Raises:
        IllegalOperation: it may not; the text has the reason.
    """
    if (new.name, new.set_id) != (old.name, old.set_id):
        _refuse(new, f"its set id is {new.set_id}, and a set with id {old.set_id} has this name")
    if new.epoch < old.epoch:
        _refuse(new, f"its epoch {new.epoch} is lower than {old.epoch}")
    if new.master != old.master and new.epoch == old.epoch:
        _refuse(new, f"epoch {old.epoch} belongs to master {old.master}: another master needs a higher epoch")
    if new.lease_ms != old.lease_ms and new.epoch == old.epoch:
        _refuse(new, f"the lease of epoch {old.epoch} is {old.lease_ms} ms: another one needs a higher epoch")
    if new.last_replica_id < old.last_replica_id:
        _refuse(new, f"replica id {old.last_replica_id} was given already")
    for member in new.members:
        old_member = old.member(member.replica_id)
        if old_member is None and member.replica_id <= old.last_replica_id:
            _refuse(new, f"replica id {member.replica_id} was given already, and is never given again")
        if old_member is not None and member.incarnation < old_member.incarnation:
            _refuse(new, f"replica {member.replica_id} has started {plural(old_member.incarnation, 'time')} already")


def restored_rows(copy: Iterable[ReplicaSet]) -> tuple[int, list[ReplicaSet]]:
    """The id and the rows of a register that is made from a copy of the rows of a lost one.

    The copy may be older than the last change of a set, so each row gets a version above any that the lost register
    can have given, and only its master stays in sync: the master adds the others again when they have all messages.

    Raises:
        ConfigError: the rows are not all of one register, or there are none.
    """
    rows = list(copy)
    ids = {row.register_id for row in rows}
    if len(ids) != 1 or 0 in ids or len({row.name for row in rows}) < len(rows) or len(rows) > MAX_REPLICA_SETS:
        raise ConfigError(f"a copy has 1 to {MAX_REPLICA_SETS} sets of one register, not {len(rows)} of {len(ids)}")
    [register_id] = ids
    return register_id, [
        replace(
            row,
            version=row.version + RESTORED_VERSIONS,
            in_sync=row.in_sync if row.master == NO_MASTER else (row.master,),
        )
        for row in rows
    ]


def _refuse(row: ReplicaSet, reason: str) -> NoReturn:
    raise IllegalOperation(f"set {row.name} stays as it is: {reason}")


def _ascends(numbers: Iterable[int]) -> bool:
    numbers = list(numbers)
    return numbers == sorted(set(numbers))


def _list_of(value: object, subject: str) -> list[Any]:
    if type(value) is not list:
        raise InvalidParameter(f"{subject} of a replica set must be a list, got {short_repr(value)}")
    return value


def _member(value: object) -> Replica:
    if type(value) is not list or len(value) < 3:
        raise InvalidParameter(f"a member must be [replica id, address, incarnation], got {short_repr(value)}")
    replica_id, address, incarnation = value[:3]
    return Replica(replica_id=replica_id, address=address, incarnation=incarnation)
