"""The logs of three replicas against the obvious: dictionaries of bytes, cut and joined by hand."""

from __future__ import annotations

import shutil
import tempfile
from itertools import pairwise
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.store.disk.errors import StoreBytesRefused
from broker.store.disk.options import StoreOptions
from broker.store.follower.follower_log import FollowerLog
from broker.store.message_store import MessageStore
from broker.store.segments.epochs import common_epoch
from broker.store.segments.scan import walk
from model.record import CONTROL_FLAG, HEADER
from testbed.simulation.faults.power_cut_files import PowerCutFiles
from tests.unit.broker.store.follower.follower_helpers import cut_to, log_of, reading
from tests.unit.broker.store.store_helpers import read_all

Log = dict[int, bytes]
WHO = st.integers(0, 2)
NEVER = 10**9


def messages_of(log: Log) -> dict[tuple[int, int], set[tuple[int, bytes]]]:
    """The messages of which a log has the whole record, by queue: offsets and payloads."""
    found: dict[tuple[int, int], set[tuple[int, bytes]]] = {}
    for record in records_of(log).values():
        _, _, topic_id, queue_id, offset, _, _, flags, _ = HEADER.unpack_from(record)
        if not flags & CONTROL_FLAG:
            found.setdefault((topic_id, queue_id), set()).add((offset, record[HEADER.size :]))
    return found


class ReplicasAgainstBytes(RuleBasedStateMachine):
    """A master and two replicas: sends, rolls, retention, crashes, power cuts and elections of any of them."""

    @initialize(segment_bytes=st.sampled_from([150, 400, 2_000]))
    def begin(self, segment_bytes: int) -> None:
        self.options = StoreOptions(segment_bytes=segment_bytes, tail_bytes=0, reserve_bytes=0)
        self.root = Path(tempfile.mkdtemp())
        self.files = PowerCutFiles()
        self.generation = 0
        self.now_ms = 1_000
        self.directories = [self.root / f"replica{who}" for who in range(3)]
        self.epoch = 1
        self.master_id = 0
        self.power_was_cut = False
        self.master = self.open_master(0)
        self.replicas = {who: self.open_replica(who) for who in (1, 2)}
        self.twins: dict[int, Log] = {1: {}, 2: {}}
        self.joined: dict[int, bool] = {1: False, 2: False}

    def open_master(self, who: int) -> MessageStore:
        return MessageStore.open(
            self.directories[who], self.options, lambda: self.now_ms, self.files, epoch=(self.epoch, who)
        )

    def open_replica(self, who: int) -> FollowerLog:
        return FollowerLog.open(self.directories[who], self.options, self.files)

    def teardown(self) -> None:
        if hasattr(self, "master"):
            self.master.close()
            for replica in self.replicas.values():
                replica.close()
            shutil.rmtree(self.root)

    def replica_of(self, number: int) -> int:
        return sorted(self.replicas)[number % 2]

    # --- the master

    @rule(queue_id=st.integers(0, 2), payloads=st.lists(st.binary(max_size=60), min_size=1, max_size=4))
    def send(self, queue_id: int, payloads: list[bytes]) -> None:
        self.now_ms += 1
        for payload in payloads:
            self.master.append(1, queue_id, payload, 0)
        self.master.flush()

    @rule()
    def drop_a_topic(self) -> None:
        self.now_ms += 1
        self.master.append(2, 0, b"of a topic that goes", 0)
        self.master.flush()
        self.master.drop_topic(2)
        self.master.flush()

    @rule()
    def roll(self) -> None:
        self.master.begin_segment_now()

    @rule()
    def sync_the_master(self) -> None:
        self.master.sync()

    @rule(fraction=st.floats(0, 1))
    def trim(self, fraction: float) -> None:
        low, high = self.master.min_position, self.master.written_position
        self.master.trim(low + int((high - low) * fraction))

    # --- its replicas

    @rule(number=WHO, step=st.sampled_from([1, 60, 300, 10**6]), pieces=st.integers(1, 60))
    def follow(self, number: int, step: int, pieces: int) -> None:
        who = self.replica_of(number)
        if self.joined[who]:
            self.copy(who, step, pieces)

    def copy(self, who: int, step: int, pieces: int) -> None:
        replica, twin = self.replicas[who], self.twins[who]
        while replica.end_position < self.master.written_position and pieces:
            data, base = self.master.log_bytes(replica.end_position, step)
            replica.append(max(base, replica.end_position), base, data)
            twin[base] = twin.get(base, b"") + data
            pieces -= 1

    @rule(number=WHO)
    def adopt_indexes_and_sync(self, number: int) -> None:
        who = self.replica_of(number)
        replica = self.replicas[who]
        for base in sorted(self.twins[who])[:-1]:
            data = self.master.index_bytes(base) if self.joined[who] else None
            if data is not None:
                try:
                    replica.adopt_index(base, data)
                except StoreBytesRefused:
                    assert self.power_was_cut, "only the replica has the end of a segment"
        replica.finish_sync(replica.begin_sync())

    @rule(number=WHO)
    def delete_what_the_master_has_deleted(self, number: int) -> None:
        who = self.replica_of(number)
        if self.joined[who] and self.twins[who]:
            bases = sorted(self.twins[who])
            self.replicas[who].drop_before(self.master.min_position)
            kept = [base for base, end in pairwise(bases) if end > self.master.min_position]
            self.twins[who] = {base: self.twins[who][base] for base in [*kept, bases[-1]]}

    @rule(number=WHO, salvage=st.booleans())
    def join(self, number: int, salvage: bool) -> None:
        who = self.replica_of(number)
        replica, own, masters = self.replicas[who], self.twins[who], log_of(self.directories[self.master_id])
        history = replica.history()
        at = common_epoch(*history, self.master.epochs, self.master.written_position)
        if at is None:
            replica.restart_at(self.master.min_position, salvage=salvage, epochs=self.master.epochs)
            self.twins[who] = {}
        else:
            differ = first_difference(own, records_of(masters))
            assert at <= differ
            is_seen = history.end_position == replica.end_position and all(
                any(base <= at <= base + len(data) for base, data in log.items()) for log in (own, masters)
            )
            if is_seen and not self.power_was_cut:
                # Two epochs may begin with equal bytes, in the heads of their segments, but have no common message.
                expected = min(differ, replica.end_position, self.master.written_position)
                equal = {p: data for p, data in records_of(masters).items() if at <= p and p + len(data) <= expected}
                assert at <= expected
                assert messages_of(equal) == {}
            replica.cut(at, salvage=salvage)
            self.twins[who] = cut_to(own, at)
        self.joined[who] = True

    @rule(number=WHO, power=st.none() | st.integers(0, 10**6))
    def crash(self, number: int, power: int | None) -> None:
        who = self.replica_of(number)
        replica = self.replicas[who]
        synced = min(replica.synced_position, replica.history().end_position)
        self.replicas[who] = self.fall(who, power, replica)
        self.joined[who] = False
        self.take_twin(who, synced)

    def fall(self, who: int, power: int | None, holder: FollowerLog | MessageStore) -> FollowerLog:
        self.leave_behind(who, power, holder)
        return self.open_replica(who)

    def leave_behind(self, who: int, power: int | None, holder: FollowerLog | MessageStore) -> None:
        """The process ends at once; `power` is the seed of a power cut in the same moment."""
        self.generation += 1
        survivor = self.root / f"replica{who}-{self.generation}"
        shutil.copytree(self.directories[who], survivor)
        if power is not None:
            self.files.cut(self.directories[who], survivor, Random(power))
            self.power_was_cut = True
        holder.close()
        self.directories[who] = survivor

    def take_twin(self, who: int, synced: int) -> None:
        """The rest is a part of the log before, up to its first damage, with all whole records that were durable."""
        found, before = log_of(self.directories[who]), self.twins[who]
        end = self.replicas[who].history().end_position
        whole_ends = (at + len(record) for at, record in records_of(before).items())
        assert end >= max((whole_end for whole_end in whole_ends if whole_end <= synced), default=0)
        whole = {base: data for base, data in cut_to(found, end).items() if base in before}
        assert all(before[base].startswith(data) for base, data in whole.items())
        self.twins[who] = found

    # --- changes of the master

    @rule(power=st.none() | st.integers(0, 10**6), clean=st.booleans())
    def restart_the_master(self, power: int | None, clean: bool) -> None:
        self.epoch += 1
        if clean:
            self.master.close()
        else:
            self.leave_behind(self.master_id, power, self.master)
        self.master = self.open_master(self.master_id)
        self.joined = dict.fromkeys(self.joined, False)

    @rule(number=WHO, clean=st.booleans(), power=st.none() | st.integers(0, 10**6))
    def elect(self, number: int, clean: bool, power: int | None) -> None:
        """Any replica, whatever it lacks; the former master becomes a replica."""
        new, old = self.replica_of(number), self.master_id
        self.epoch += 1
        self.twins[old] = log_of(self.directories[old])
        if clean:
            self.master.close()
            self.replicas[old] = self.open_replica(old)
        else:
            self.replicas[old] = self.fall(old, power, self.master)
            self.take_twin(old, 0)
        self.joined[old] = False
        self.replicas.pop(new).close()
        self.twins.pop(new)
        self.joined.pop(new)
        before = log_of(self.directories[new])
        self.master = self.open_master(new)
        self.master_id = new
        self.joined = dict.fromkeys(self.joined, False)
        if not self.power_was_cut:
            self.check_promoted(before)

    def check_promoted(self, before: Log) -> None:
        master = self.master
        assert master.damage.report() == ()
        assert not before or master.recovery.ends_flaw == ""
        expected = messages_of(before)
        for key in master.queues():
            found = {(offset, record.payload) for offset, record in read_all(master, key, 7).items()}
            assert found == {each for each in expected.get(key, set()) if each[0] >= master.min_offset(*key)}

    # --- what must hold

    @rule(number=WHO)
    def a_replica_that_has_everything_has_the_same_bytes(self, number: int) -> None:
        who = self.replica_of(number)
        if not self.joined[who]:
            return
        self.copy(who, 500, -1)
        own, masters = log_of(self.directories[who]), log_of(self.directories[self.master_id])
        if self.power_was_cut:
            # A master may have lost or damaged bytes that the replica has: it went on behind them.
            assert first_difference(own, records_of(masters)) == NEVER
        else:
            assert {base: own.get(base) for base in masters} == masters

    @invariant()
    def each_log_is_the_bytes_that_it_got(self) -> None:
        if hasattr(self, "master"):
            for who in self.replicas:
                assert log_of(self.directories[who]) == self.twins[who]

    @precondition(lambda self: self.joined.get(1) or self.joined.get(2))
    @rule()
    def epochs_of_a_replica_are_a_beginning_of_the_master_s(self) -> None:
        for who, replica in self.replicas.items():
            if self.joined[who]:
                epochs = replica.epochs
                assert self.master.epochs[: len(epochs)] == epochs or not set(epochs) - set(self.master.epochs)


def records_of(log: Log) -> Log:
    """The whole records of a log, by position."""
    found: Log = {}
    for base, data in log.items():
        for at, length, *_ in walk(reading(data), len(data)):
            found[base + at] = data[at : at + length]
    return found


def first_difference(one: Log, other: Log) -> int:
    """The first position at which both have a byte, and not the same one."""
    first = NEVER
    for base, data in one.items():
        for other_base, other_data in other.items():
            start = max(base, other_base)
            end = min(base + len(data), other_base + len(other_data), first)
            own_rows, others = data[start - base : end - base], other_data[start - other_base : end - other_base]
            if start < end and own_rows != others:
                first = start + next(n for n, (a, b) in enumerate(zip(own_rows, others, strict=True)) if a != b)
    return first


TestReplicasAgainstBytes = ReplicasAgainstBytes.TestCase
TestReplicasAgainstBytes.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
