"""The decisions about replica sets: compared with a naive twin, and walked through exhaustively for a small set.

The twin has a dict for each thing that the row has, and one condition for each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import IllegalOperation, InvalidParameter
from model.replica_limits import MAX_REPLICAS
from model.replica_set import ReplicaSet, check_newer, stored_row
from replica.sets import (
    begun,
    create,
    elected,
    forgotten,
    handed_over,
    in_sync_with,
    joined,
    removed_from_in_sync,
    started,
)

NEW = stored_row(None, create("broker-a", "h1:1", set_id=7, copies=3), 0, register_id=9, n_rows=0)
N_ADDRESSES = MAX_REPLICAS + 2


def address_of(number: int) -> str:
    return f"h{number}:1"


class Refused(Exception):
    """The twin does not do this."""


def need(*conditions: bool) -> None:
    if not all(conditions):
        raise Refused


@dataclass
class Twin:
    """A set as an operator imagines it; `None` is no master."""

    epoch: int = 1
    master: int | None = 1
    in_sync: set[int] = field(default_factory=lambda: {1})
    starts: dict[int, int] = field(default_factory=lambda: {1: 1})
    at: dict[int, str] = field(default_factory=lambda: {1: address_of(1)})
    last_id: int = 1
    may_serve: set[int] = field(default_factory=lambda: {1})  # epochs

    @property
    def has_settled(self) -> bool:
        return self.may_serve <= {self.epoch}

    def join(self, address: str) -> None:
        if any(self.at[who] == address and self.starts[who] == 0 for who in self.at):
            return
        need(address not in self.at.values(), len(self.at) < MAX_REPLICAS)
        self.last_id += 1
        self.starts[self.last_id], self.at[self.last_id] = 0, address

    def start(self, who: int, address: str, *, clean: bool) -> None:
        need(who in self.starts, all(self.at[other] != address for other in self.at if other != who))
        self.starts[who] += 1
        self.at[who] = address
        if self.master == who:
            self.may_serve.discard(self.epoch)
            self.epoch += 1
            if clean or not self.in_sync - {who}:
                self.may_serve.add(self.epoch)
        if not clean and self.in_sync - {who}:
            self.in_sync.discard(who)
            if self.master == who:
                self.master = None

    def sync(self, who: int, *, by: int, epoch: int, incarnation: int) -> None:
        need(by == self.master, epoch == self.epoch, self.starts.get(who) == incarnation)
        self.in_sync.add(who)

    def leave(self, who: int, *, by: int, epoch: int) -> None:
        need(
            by == who or (by == self.master and epoch == self.epoch), who != self.master, self.in_sync - {who} != set()
        )
        self.in_sync.discard(who)

    def hand_over(self, to: int, *, by: int, epoch: int, leaves: bool) -> None:
        need(by == self.master, epoch == self.epoch, to != by, to in self.in_sync)
        if leaves:
            self.in_sync.discard(by)
        self.epoch, self.master = self.epoch + 1, to
        self.may_serve = {self.epoch}

    def elect(self, who: int, *, accept_loss: bool, answers: bool) -> None:
        need(who in self.starts, who != self.master)
        need(accept_loss or (who in self.in_sync and (not answers or self.master is None)))
        self.in_sync = self.in_sync - {self.master} if who in self.in_sync else {who}
        self.epoch, self.master = self.epoch + 1, who
        self.may_serve.add(self.epoch)

    def begin(self, who: int, *, epoch: int) -> None:
        if (who, epoch) == (self.master, self.epoch):
            self.may_serve = {epoch}

    def forget(self, who: int) -> None:
        need(who in self.starts, who != self.master, who not in self.in_sync)
        del self.starts[who], self.at[who]


def as_twin(row: ReplicaSet) -> Twin:
    return Twin(
        epoch=row.epoch,
        master=row.master or None,
        in_sync=set(row.in_sync),
        starts={member.replica_id: member.incarnation for member in row.members},
        at={member.replica_id: member.address for member in row.members},
        last_id=row.last_replica_id,
    )


@dataclass(frozen=True)
class Step:
    """One decision with its arguments; `stale` takes those of the master from another time, and not from the row."""

    verb: str
    who: int
    other: int
    address: str
    first: bool
    second: bool
    stale: bool

    def of_master(self, row: ReplicaSet) -> dict[str, Any]:
        return {"by": self.other, "epoch": self.other} if self.stale else {"by": row.master, "epoch": row.epoch}

    def incarnation(self, row: ReplicaSet) -> int:
        member = row.member(self.who)
        return self.other if self.stale or member is None else member.incarnation

    def decide(self, row: ReplicaSet) -> ReplicaSet:
        return {
            "join": lambda: joined(row, self.address)[0],
            "start": lambda: started(row, self.who, self.address, clean=self.first),
            "sync": lambda: in_sync_with(row, self.who, **self.of_master(row), incarnation=self.incarnation(row)),
            "leave": lambda: removed_from_in_sync(row, self.who, **self.of_master(row)),
            "hand over": lambda: handed_over(row, self.who, leaves=self.first, **self.of_master(row)),
            "elect": lambda: elected(row, self.who, accept_loss=self.first, master_answers=self.second),
            "begin": lambda: begun(row, self.who, epoch=self.other if self.stale else row.epoch),
            "forget": lambda: forgotten(row, self.who),
        }[self.verb]()

    def imagine(self, twin: Twin, row: ReplicaSet) -> None:
        {
            "join": lambda: twin.join(self.address),
            "start": lambda: twin.start(self.who, self.address, clean=self.first),
            "sync": lambda: twin.sync(self.who, **self.of_master(row), incarnation=self.incarnation(row)),
            "leave": lambda: twin.leave(self.who, **self.of_master(row)),
            "hand over": lambda: twin.hand_over(self.who, leaves=self.first, **self.of_master(row)),
            "elect": lambda: twin.elect(self.who, accept_loss=self.first, answers=self.second),
            "begin": lambda: twin.begin(self.who, epoch=self.other if self.stale else row.epoch),
            "forget": lambda: twin.forget(self.who),
        }[self.verb]()


VERBS = ("join", "start", "sync", "leave", "hand over", "elect", "begin", "forget")
ids = st.integers(1, 5)
steps = st.builds(
    Step,
    verb=st.sampled_from(VERBS),
    who=ids,
    other=ids,
    address=st.integers(1, N_ADDRESSES).map(address_of),
    first=st.booleans(),
    second=st.booleans(),
    stale=st.sampled_from((False, False, True)),
)


@given(st.lists(steps, max_size=40))
def test_each_sequence_of_decisions_is_that_of_a_naive_twin(history: list[Step]) -> None:
    row, twin = NEW, Twin()
    for step in history:
        before = row
        try:
            row = step.decide(row)
        except IllegalOperation:
            with pytest.raises(Refused):
                step.imagine(twin, before)
            continue
        step.imagine(twin, before)
        assert replace(as_twin(row), may_serve=twin.may_serve) == twin
        assert row.has_settled == twin.has_settled
        check_newer(before, row)
        assert ReplicaSet.from_wire(row.to_wire()) == row


values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**64 - 1) | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WIRE = NEW.to_wire()
FIELDS: Any = msgpack.unpackb(WIRE)


def read_or_refused(wire: bytes) -> None:
    """Bytes of a peer become a legal row, which is the same again behind the wire, or are refused by name."""
    try:
        row = ReplicaSet.from_wire(wire)
    except InvalidParameter:
        return
    assert ReplicaSet.from_wire(row.to_wire()) == row


@given(st.sampled_from(sorted(FIELDS)), values)
def test_a_row_with_any_value_in_a_field_is_read_or_refused(name: str, value: object) -> None:
    read_or_refused(msgpack.packb({**FIELDS, name: value}))


@given(st.integers(0, len(WIRE) - 1), st.integers(0, 255), st.integers(0, len(WIRE)))
def test_damaged_bytes_of_a_row_are_read_or_refused(at: int, byte: int, end: int) -> None:
    damaged = bytearray(WIRE)
    damaged[at] = byte
    read_or_refused(bytes(damaged))
    read_or_refused(bytes(damaged[:end]))


# ------------------------------------------------------------------------------------------------ every small history

MEMBERS, MOST_EPOCHS, MOST_STARTS = (1, 2, 3), 3, 2


def with_member(row: ReplicaSet, who: int) -> ReplicaSet:
    return joined(row, address_of(who))[0]


def changes(row: ReplicaSet) -> Iterator[tuple[str, Callable[[], ReplicaSet]]]:
    """Every decision about a set of three that any replica, old master or operator could ask for."""
    for who in MEMBERS:
        yield f"join {who}", partial(with_member, row, who)
        yield f"forget {who}", partial(forgotten, row, who)
        for clean in (True, False):
            yield f"start {who} {clean}", partial(started, row, who, address_of(who), clean=clean)
            for answers in (True, False):
                elect = partial(elected, row, who, accept_loss=not clean, master_answers=answers)
                yield f"elect {who} {'clean' if clean else 'lossy'}", elect
        yield f"begin {who}", partial(begun, row, who, epoch=row.epoch)
        for by, epoch in product(MEMBERS, (row.epoch - 1, row.epoch)):
            yield f"leave {who} {by} {epoch}", partial(removed_from_in_sync, row, who, by=by, epoch=epoch)
            yield f"hand over {by} {epoch}", partial(handed_over, row, who, by=by, epoch=epoch)
            for starts in range(MOST_STARTS + 1):
                sync = partial(in_sync_with, row, who, by=by, epoch=epoch, incarnation=starts)
                yield f"sync {by} {epoch}", sync


def is_small(row: ReplicaSet) -> bool:
    return (
        row.epoch <= MOST_EPOCHS
        and row.last_replica_id <= len(MEMBERS)
        and all(member.incarnation <= MOST_STARTS for member in row.members)
    )


def check_step(old: ReplicaSet, verb: str, new: ReplicaSet) -> None:
    """The invariants of one step; the ones of a row alone are checked when the row is made.

    The replicas in sync have all acknowledged messages. So the set may only grow by the master of the epoch, which
    waits for the new one, or with the consent of an operator, and a replica that may have lost some leaves it.
    """
    check_newer(old, new)
    assert stored_row(old, new, old.version, register_id=9, n_rows=1).version == old.version + 1
    assert new.epoch > old.epoch or new.master == old.master, "at most one master in an epoch"
    assert new.in_sync, "some replica has all acknowledged messages"
    added = set(new.in_sync) - set(old.in_sync)
    assert not added or verb == f"sync {old.master} {old.epoch}" or verb.endswith("lossy")
    match verb.split():
        case ["elect", who, "clean"]:
            assert new.master == int(who)
            assert int(who) in old.in_sync
            assert old.master not in new.in_sync
        case ["hand", "over", *_]:
            assert verb == f"hand over {old.master} {old.epoch}"
            assert new.master in old.in_sync
            assert new.in_sync == old.in_sync
        case ["start", who, "False"]:
            assert int(who) not in new.in_sync or old.in_sync == (int(who),)


def test_every_history_of_three_replicas_keeps_the_invariants() -> None:
    rows, waiting = {NEW}, [NEW]
    n_decisions = n_refused = 0
    while waiting:
        old = waiting.pop()
        for verb, decide in changes(old):
            n_decisions += 1
            try:
                new = decide()
            except IllegalOperation:
                n_refused += 1
                continue
            check_step(old, verb, new)
            if is_small(new) and new not in rows:
                rows.add(new)
                waiting.append(new)
    # It went everywhere: each replica was the master of the last epoch, and there was none, and all were in sync.
    assert {row.master for row in rows if row.epoch == MOST_EPOCHS} == {0, *MEMBERS}
    assert any(row.in_sync == MEMBERS for row in rows)
    assert len(rows) > 1_000
    assert n_refused > n_decisions / 2


@pytest.mark.parametrize(
    ("verb", "changed"),
    [
        ("start 2 False", {}),
        ("sync 2 1", {"in_sync": (1, 2, 3)}),
        ("hand over 2 1", {"epoch": 2, "master": 2}),
        ("elect 2 clean", {"epoch": 2, "master": 2}),
        ("leave 1 1 1", {"master": 0, "in_sync": ()}),
    ],
)
def test_the_walk_finds_steps_that_break_a_rule(verb: str, changed: dict[str, Any]) -> None:
    row = NEW
    for who in (2, 3):
        row = started(with_member(row, who), who, address_of(who))
    row = in_sync_with(row, 2, by=1, epoch=1, incarnation=1)
    wrong = replace(row, **changed)
    with pytest.raises((AssertionError, IllegalOperation)):
        check_step(row, verb, wrong)
