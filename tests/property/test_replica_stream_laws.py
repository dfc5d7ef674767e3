"""The master's half of the stream: what is committed is held by every replica that the register has in sync."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from model.replica_set import Replica, ReplicaSet, SetChanged, stored_row
from replica.sets import with_options
from replica.stream.commit_point import CommitPoint
from replica.stream.in_sync import InSyncSet
from replica.stream.phases import NEVER, STAYS, Departure, Phase, ReplicaPhases

MASTER, OTHERS = 1, (2, 3)
REGISTER_ID = 9


def the_row(*in_sync: int) -> ReplicaSet:
    """A stored row whose master is replica 1."""
    members = tuple(Replica(replica_id=each, address=f"h:{each}", incarnation=1) for each in (MASTER, *OTHERS))
    row = ReplicaSet(
        name="b", set_id=7, epoch=1, master=MASTER, in_sync=in_sync, members=members, copies=3, last_replica_id=3
    )
    return stored_row(None, row, 0, register_id=REGISTER_ID, n_rows=1)


# --- the in-sync set -------------------------------------------------------------------------------------------------


@dataclass
class OneWrite:
    """A write on its way: the register may make it now, later, or never; its answer may be lost before."""

    row: ReplicaSet
    expected: int
    result: ReplicaSet | SetChanged | None = None


@dataclass
class World:
    """A master, a register, and two replicas whose behaviour is drawn."""

    row: ReplicaSet
    trouble: set[int] = field(default_factory=set)
    following: set[int] = field(default_factory=set)
    on_the_way: list[OneWrite] = field(default_factory=list)
    awaited: OneWrite | None = None

    def __post_init__(self) -> None:
        self.in_sync = InSyncSet(self.row, MASTER, 1, 0.0)
        self.replicas = {each: ReplicaPhases(each, 0.0) for each in OTHERS}
        self.commit = CommitPoint(0, 0.0)
        for each in OTHERS:
            self.replicas[each].acked_n = 0
        self.update()

    def update(self) -> None:
        self.commit.set_waits_for(self.in_sync.waits_for, {each: self.replicas[each].acked_n for each in OTHERS})
        self.commit.move()

    def step(self, step: str, replica_id: int) -> None:
        replica = self.replicas[replica_id]
        match step:
            case "offer":
                self.commit.offer(0, 0.0)
            case "ack":
                replica.acked_n = min(replica.acked_n + 1, self.commit.n)
                self.commit.acknowledged(replica_id, replica.acked_n)
            case "trouble":
                self.trouble.add(replica_id)
                self.following.discard(replica_id)
            case "follow":
                self.trouble.discard(replica_id)
                self.following.add(replica_id)
            case "decide" if self.awaited is None:
                write = self.in_sync.next_write(
                    *(1.0, self.replicas, dict.fromkeys(OTHERS, 1), self.commit.committed),
                    lambda each: Departure(0.0, "drawn") if each.replica_id in self.trouble else STAYS,
                    lambda each: 0.0 if each.replica_id in self.following else NEVER,
                )
                if write is not None:
                    self.awaited = OneWrite(write.row, self.in_sync.row.version)
                    self.on_the_way.append(self.awaited)
            case "make" if self.on_the_way:
                self.make(self.on_the_way.pop(replica_id % len(self.on_the_way)))
            case "answer" if self.awaited is not None and self.awaited.result is not None:
                result, self.awaited = self.awaited.result, None
                if isinstance(result, SetChanged):
                    self.in_sync.refused(result.current, 1.0)
                else:
                    self.in_sync.written(result, 1.0)
            case "lose" if self.awaited is not None:
                self.awaited = None
                self.in_sync.lost()
            case "read" if self.awaited is None:
                self.in_sync.read(self.row, 1.0)
            case "operator":
                self.make(OneWrite(with_options(self.row, min_in_sync=1 + self.row.min_in_sync % 2), self.row.version))
            case _:
                pass
        self.update()

    def make(self, write: OneWrite) -> None:
        try:
            write.result = self.row = stored_row(self.row, write.row, write.expected, register_id=REGISTER_ID, n_rows=1)
        except SetChanged as error:
            write.result = error


STEPS = (
    *("offer", "offer", "ack", "ack", "ack", "trouble", "follow", "follow", "decide", "decide", "decide", "lose"),
    *("read", "make", "answer", "answer", "operator"),
)


def program_of(seed: int) -> list[tuple[str, int]]:
    """A long program; drawn as a whole, because a list of single draws is mostly too short for two lost writes."""
    random = Random(seed)
    return [(random.choice(STEPS), random.choice(OTHERS)) for _ in range(200)]


seeds, sets = st.integers(0, 2**32), st.sampled_from([(1,), (1, 2), (1, 2, 3)])


@settings(max_examples=150)
@given(sets, seeds)
def test_the_master_waits_for_each_replica_that_the_register_has_in_sync_and_each_has_all_that_is_committed(
    in_sync: tuple[int, ...], seed: int
) -> None:
    world = World(the_row(*in_sync))
    committed = world.commit.committed
    for step, replica_id in program_of(seed):
        world.step(step, replica_id)
        in_register = set(world.row.in_sync) - {MASTER}
        assert in_register <= set(world.in_sync.waits_for)
        assert all(world.replicas[each].acked_n >= world.commit.committed for each in in_register)
        assert world.commit.committed >= committed, "it never goes back"
        committed = world.commit.committed


@settings(max_examples=60)
@given(sets, seeds)
def test_once_faults_end_the_set_has_every_replica_that_follows_and_no_other(
    in_sync: tuple[int, ...], seed: int
) -> None:
    world = World(the_row(*in_sync))
    for step, replica_id in program_of(seed):
        world.step(step, replica_id)
    for replica_id in OTHERS:
        world.step("trouble" if replica_id not in world.following else "follow", replica_id)
    for _ in range(12):
        for step in ("ack", "read", "decide", "make", "make", "make", "answer"):
            for replica_id in OTHERS if step == "ack" else OTHERS[:1]:
                for _ in range(world.commit.n + 1 if step == "ack" and replica_id in world.following else 1):
                    world.step(step, replica_id)
    assert set(world.row.in_sync) == {MASTER, *world.following}
    assert set(world.in_sync.waits_for) == world.following


# --- the commit point ------------------------------------------------------------------------------------------------


class NaivePoint:
    """Every flush with the replicas that have it."""

    def __init__(self) -> None:
        self.n = 0
        self.committed = -1
        self.waits_for: tuple[int, ...] = ()
        self.acked = dict.fromkeys(OTHERS, -1)
        self.made_at = [0.0]

    def move(self) -> bool:
        before = self.committed
        while self.committed < self.n and all(self.acked[each] > self.committed for each in self.waits_for):
            self.committed += 1
        return self.committed > before


acts = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.integers(0, 2)),
        st.tuples(st.just("ack"), st.sampled_from(OTHERS)),
        st.tuples(st.just("waits for"), st.sampled_from([0, 2, 3, 5])),
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(acts)
def test_a_commit_point_equals_its_naive_twin(program: list[tuple[str, int]]) -> None:
    point, twin, now = CommitPoint(0, 0.0), NaivePoint(), 0.0
    point.set_waits_for((2, 3), {})
    twin.waits_for = (2, 3)
    for act, argument in program:
        match act:
            case "offer":
                now += argument
                point.offer(10 * twin.n + 10, now)
                twin.n += 1
                twin.made_at.append(now)
            case "ack":
                twin.acked[argument] = min(twin.acked[argument] + 1, twin.n)
                point.acknowledged(argument, twin.acked[argument])
            case _:
                twin.waits_for = {0: (), 2: (2,), 3: (3,), 5: (2, 3)}[argument]
                point.set_waits_for(twin.waits_for, twin.acked)
        assert point.move() is twin.move()
        assert (point.n, point.committed) == (twin.n, twin.committed)
        assert point.committed_position == 10 * max(twin.committed, 0)
        for n in range(twin.committed, twin.n):
            assert point.waiting_since(n) == twin.made_at[n + 1]
        assert point.waiting_since(twin.n) == NEVER


# --- acknowledgements of frames --------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(st.lists(st.one_of(st.integers(1, 9), st.tuples(st.integers(0, 12), st.integers(0, 2))), max_size=40))
def test_only_the_acknowledgement_of_a_frame_that_was_sent_moves_anything(
    program: list[int | tuple[int, int]],
) -> None:
    replica = ReplicaPhases(2, 0.0)
    replica.connected(0.0, 0)
    sent: list[tuple[int, int]] = []  # (bytes, checksum)
    acked = 0
    for step in program:
        if isinstance(step, int):
            crc = len(sent) % 3
            sent.append((step, crc))
            replica.sent(0.0, step, len(sent), 10 * len(sent), crc)
        else:
            number, crc = step
            is_good = number == acked or (acked < number <= len(sent) and sent[number - 1][1] == crc)
            assert replica.acknowledged(0.0, number, crc) is is_good
            acked = number if is_good else acked
        assert replica.unacked_bytes == sum(size for size, _ in sent[acked:])
        assert (replica.acked_n, replica.acked_position) == (acked or -1, 10 * acked)
        assert replica.phase is Phase.CATCHING_UP
