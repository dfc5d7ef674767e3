"""Lease, promise and election, walked through exhaustively: three replicas, two to four epochs, every order of events.

The decisions are the real ones (`MasterLease`, `Promise`, `replica/sets.py`); around them is the least of a replica:
what it knows of the row, which frame is under way to it, and whether it stands. Time is a whole number of ticks, of
which a lease has two. Only ages matter, so the states are finite, and a breadth-first walk sees them all.

Left out is what allows less: a confirmation that arrives late or is lost, a frame that is too old for the lease, and
the time that replicas leave to the choice of an operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from typing import NamedTuple

import pytest

from model.replica_set import NO_MASTER, ReplicaSet
from replica.lease import promise as promise_module
from replica.lease.master_lease import MasterLease
from replica.lease.promise import Promise
from replica.sets import (
    begun,
    create,
    elected,
    handed_over,
    in_sync_with,
    joined,
    removed_from_in_sync,
    started,
    took_over,
)

IDS = (1, 2, 3)
LEASE = 2
OLD = 3
"""Ages of this many ticks and more are equal: no lease lasts for that long, and every promise is over."""
FOLLOWS, STANDS, WON, WAITS, MASTER, LEAVES = range(6)


class Way(StrEnum):
    """How another replica becomes the master."""

    ELECTION, OPERATOR, HANDOVER, RESTART = "election", "operator", "handover", "restart"

    @property
    def last_epoch(self) -> int:
        """After an operator's choice the elected replica starts again, and then an election may follow."""
        return 4 if self is Way.RESTART else 2


class Row:
    """A row of the register, of which each exists once: so states compare quickly."""

    __slots__ = ("epoch", "in_sync", "master", "stored")

    def __init__(self, stored: ReplicaSet) -> None:
        self.stored = stored
        self.epoch, self.master, self.in_sync = stored.epoch, stored.master, stored.in_sync


only = cache(Row)


class One(NamedTuple):
    """A replica: its role, the row that it knows, and ages: of its promise, and of a frame that is under way to it.

    A master also has the ages of the frames that the others have confirmed, and the row of a write under way.
    """

    role: int
    row: Row
    promised: int = 0
    frame: int | None = None
    confirmed: tuple[int | None, ...] = (None, None, None)
    writes: Row | None = None

    @property
    def waits_for(self) -> set[int]:
        return {*self.row.in_sync, *(self.writes.in_sync if self.writes is not None else ())}


class World(NamedTuple):
    """The row of the register, and the replicas 1 to 3."""

    row: Row
    ones: tuple[One, ...]

    def put(self, replica_id: int, one: One, row: Row | None = None) -> World:
        ones = tuple(one if each == replica_id else self.ones[each - 1] for each in IDS)
        return World(self.row if row is None else row, ones)


def first() -> World:
    """Replica 1 is the master of epoch 1, and all are in sync."""
    row = create("broker-a", "h1:1", set_id=7, copies=3)
    for replica_id in (2, 3):
        row = started(joined(row, f"h{replica_id}:1")[0], replica_id, f"h{replica_id}:1")
        row = in_sync_with(row, replica_id, by=1, epoch=1, incarnation=1)
    made = only(row)
    return World(made, (One(MASTER, made, OLD), One(FOLLOWS, made), One(FOLLOWS, made)))


@cache
def removed(row: Row, replica_id: int) -> Row:
    return only(removed_from_in_sync(row.stored, replica_id, by=row.master, epoch=row.epoch))


@cache
def added(row: Row, replica_id: int) -> Row:
    member = row.stored.member(replica_id)
    assert member is not None
    return only(in_sync_with(row.stored, replica_id, by=row.master, epoch=row.epoch, incarnation=member.incarnation))


@cache
def given(row: Row, replica_id: int, leaves: bool) -> Row:
    return only(handed_over(row.stored, replica_id, by=row.master, epoch=row.epoch, leaves=leaves))


@cache
def taken(row: Row, replica_id: int, known: Row) -> Row:
    if row.stored.stopped_epoch != known.stored.stopped_epoch:
        return row
    return only(took_over(row.stored, replica_id, epoch=known.epoch))


@cache
def begins(row: Row, replica_id: int, epoch: int) -> Row:
    return only(begun(row.stored, replica_id, epoch=epoch))


@cache
def restarted(row: Row, clean: bool) -> Row:
    return only(started(row.stored, row.master, f"h{row.master}:1", clean=clean))


@cache
def chosen(row: Row, replica_id: int) -> Row:
    return only(elected(row.stored, replica_id, accept_loss=False, master_answers=False))


@cache
def promise_is_over(age: int) -> bool:
    return Promise(0.0).ends_at(LEASE) <= age


@cache
def lease_holds(ages: tuple[int | None, ...]) -> bool:
    """Whether a master that waits for replicas with these newest confirmations may serve."""
    lease = MasterLease(LEASE)
    for replica_id, age in enumerate(ages):
        if age is not None:
            lease.confirmed(replica_id, -age)
    return lease.ends_at(range(len(ages))) > 0


def may_serve(replica_id: int, one: One) -> bool:
    ages = tuple(one.confirmed[each - 1] for each in IDS if each in one.waits_for and each != replica_id)
    return one.role == MASTER and lease_holds(ages)


def older(age: int | None) -> int | None:
    """The age of a frame or a confirmation after a tick; one that is too old for the lease is as good as none."""
    return None if age is None or age + 1 >= LEASE else age + 1


def tick(world: World) -> World:
    return World(
        world.row,
        tuple(
            one._replace(
                promised=min(one.promised + 1, OLD),
                frame=older(one.frame),
                confirmed=tuple(older(age) for age in one.confirmed),
            )
            for one in world.ones
        ),
    )


def steps(
    world: World, way: Way, *, confirms_while_standing: bool = False, starts_without_a_look: bool = False
) -> Iterator[World]:
    """Every state that one event makes of this one; without a master of epoch 1 two masters can no longer meet."""
    if not any(one.role == MASTER and one.row.epoch == 1 for one in world.ones):
        return
    yield tick(world)
    for replica_id in IDS:
        one = world.ones[replica_id - 1]
        yield from _learns(world, replica_id, one)
        if one.role == MASTER:
            yield from _masters(world, way, replica_id, one)
        else:
            yield from _follows(world, way, replica_id, one, may_confirm=confirms_while_standing)
            if way is Way.RESTART:
                yield from _starts(world, replica_id, one, looks=not starts_without_a_look)


def is_without_master(row: Row) -> bool:
    return row.master == NO_MASTER and row.stored.has_settled


def _learns(world: World, replica_id: int, one: One) -> Iterator[World]:
    """It gets the newest row, from the register or from another replica."""
    row = world.row
    if one.row is row or one.role == STANDS or (one.writes is not None and one.row.epoch == row.epoch):
        return
    if row.master == replica_id and one.row.epoch != row.epoch:
        role = MASTER if one.role == WON or row.stored.has_settled else WAITS
        yield world.put(replica_id, One(role, row, one.promised))
    elif one.row.epoch != row.epoch:  # another master gets the time to begin
        yield world.put(replica_id, One(FOLLOWS, row, OLD if is_without_master(row) else 0))
    else:
        yield world.put(replica_id, one._replace(row=row))


def _masters(world: World, way: Way, replica_id: int, one: One) -> Iterator[World]:
    for other in IDS:
        its = world.ones[other - 1]
        if other != replica_id and its.row.epoch == one.row.epoch:
            yield world.put(other, its._replace(frame=0))
    if one.writes is None:
        for other in IDS:
            if other == replica_id:
                continue
            if other in one.row.in_sync:
                yield world.put(replica_id, one._replace(writes=removed(one.row, other)))
            elif way is Way.ELECTION:  # the ways differ in how one begins; this one has all that the set may do
                yield world.put(replica_id, one._replace(writes=added(one.row, other)))
    elif world.row is one.row:
        yield world.put(replica_id, one, one.writes)  # made, and its answer is not there yet
    elif world.row is one.writes:
        yield world.put(replica_id, one._replace(row=one.writes, writes=None))
    if way is Way.HANDOVER and one.writes is None and one.row is world.row and one.row.epoch < way.last_epoch:
        for other in one.row.in_sync:
            if other != replica_id:  # it serves nothing from here on, and then makes the other one the master
                left = one._replace(role=LEAVES, confirmed=(None, None, None))
                for leaves in (False, True):
                    yield world.put(replica_id, left, given(one.row, other, leaves))


def _follows(world: World, way: Way, replica_id: int, one: One, *, may_confirm: bool) -> Iterator[World]:
    row = world.row
    if one.frame is not None and (one.role == FOLLOWS or (may_confirm and one.role == STANDS)):
        after = world.put(replica_id, one._replace(promised=0, frame=None))
        master = world.ones[one.row.master - 1]
        if master.role == MASTER and master.row.epoch == one.row.epoch:
            ages = [*master.confirmed]
            ages[replica_id - 1] = min(one.frame, LEASE if (age := ages[replica_id - 1]) is None else age)
            yield after.put(one.row.master, master._replace(confirmed=tuple(ages)))
    may_stand = way is Way.ELECTION or (way is Way.RESTART and one.row.master == NO_MASTER)
    if may_stand and one.role == FOLLOWS and promise_is_over(one.promised) and replica_id in one.row.in_sync:
        yield world.put(replica_id, one._replace(role=STANDS))
    if one.role == STANDS:
        changed = taken(row, replica_id, one.row)
        if changed is not row and changed.epoch <= way.last_epoch:
            yield world.put(replica_id, one._replace(role=WON, frame=None), changed)
        elif changed is row:
            yield world.put(replica_id, one._replace(role=FOLLOWS))
    if one.role == WAITS and promise_is_over(one.promised):
        changed = begins(row, replica_id, one.row.epoch)
        if changed is not row:
            yield world.put(replica_id, one._replace(role=MASTER, row=changed), changed)
    may_choose = way in (Way.OPERATOR, Way.RESTART) and row.epoch < 2
    if may_choose and replica_id in row.in_sync and replica_id != row.master:
        yield World(chosen(row, replica_id), world.ones)


def _starts(world: World, replica_id: int, one: One, *, looks: bool) -> Iterator[World]:
    """It was killed, and starts again: its promise is that of a new process."""
    row = world.row
    if row.master != replica_id:
        yield world.put(replica_id, One(FOLLOWS, row, OLD if is_without_master(row) else 0))
    elif row.epoch < 3:
        for clean in (True, False):
            changed = restarted(row, clean)
            is_master = changed.master == replica_id
            role = FOLLOWS if not is_master else MASTER if changed.stored.has_settled or not looks else WAITS
            yield world.put(replica_id, One(role, changed), changed)


def walk(way: Way, **options: bool) -> tuple[int, World | None]:
    """All states; their number, and the first in which two replicas may serve, if there is one."""
    seen, level = {first()}, [first()]
    while level:
        reached: list[World] = []
        for world in level:
            for after in steps(world, way, **options):
                if after in seen:
                    continue
                seen.add(after)
                if sum(may_serve(each, after.ones[each - 1]) for each in IDS) > 1:
                    return len(seen), after
                reached.append(after)
        level = reached
    return len(seen), None


@pytest.mark.parametrize("way", Way)
def test_at_most_one_replica_may_serve_in_every_order_of_events(way: Way) -> None:
    n_states, two = walk(way)
    assert two is None
    assert n_states > 1_000


@pytest.mark.parametrize("way", [Way.ELECTION, Way.OPERATOR])
def test_a_replica_that_stands_before_the_lease_is_over_is_found(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promise_module, "GRACE", 0.4)
    promise_is_over.cache_clear()
    _, two = walk(way)
    promise_is_over.cache_clear()
    assert two is not None


def test_an_election_that_looks_like_a_handover_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaSet, "has_settled", property(lambda row: True))
    assert walk(Way.OPERATOR)[1] is not None


def test_an_elected_replica_that_starts_again_and_begins_at_once_is_found() -> None:
    assert walk(Way.RESTART, starts_without_a_look=True)[1] is not None


def test_a_replica_that_confirms_frames_while_it_stands_is_found() -> None:
    assert walk(Way.ELECTION, confirms_while_standing=True)[1] is not None
