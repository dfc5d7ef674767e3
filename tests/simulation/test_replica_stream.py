"""Replicas under faults of the network, of processes and of the disk: no committed message is lost, copies are equal.

Each seed is a programme of writes and faults. After each step, and again at the end without faults, the invariants
hold: the log of every replica that the register has in sync begins with every message that was ever committed, in every
epoch; at the end the copies are equal byte by byte, and so are the tables.
"""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from broker.store.segments.scan import walk
from model.record import CONTROL_FLAG
from replica.sets import handed_over
from tests.unit.broker.harness import FailingDisk
from tests.unit.broker.store.follower.follower_helpers import reading
from tests.unit.replica.stream.harness import (
    Master,
    ReplicaOf,
    World,
    host_of,
    log_of,
    rows_of_table,
    simulated,
)

pytestmark = pytest.mark.simulation

IDS = (1, 2, 3)
STEPS = (
    *("write", "write", "write", "put", "burst", "cut", "partition", "stall", "heal", "wait", "wait"),
    *("kill replica", "restart replica", "restart master", "hand over", "full disk"),
)


StoredMessage = tuple[int, bytes]
"""Offset and payload of a message: each payload is random."""


def messages_of(directory: Path) -> dict[StoredMessage, int]:
    """The messages of a log in their order, with the log position behind each; a master's start may rewrite a head."""
    found = {}
    for name, data in log_of(directory).items():
        base = int(name.removesuffix(".log"))
        records = walk(reading(data), len(data), with_payloads=True)
        for at, length, _, _, offset, _, _, flags, payload in records:
            if not flags & CONTROL_FLAG:
                found[(offset, payload)] = base + at + length
    return found


class Programme:
    """One set of three, and every message that was ever committed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = Random(seed)
        self.replicas: dict[int, ReplicaOf] = {}
        self.disks: dict[int, FailingDisk] = {}
        self.master_id = 1
        self.master: Master
        self.committed: list[StoredMessage] = []
        self.n_keys = 0
        self.history: list[str] = []

    async def begin(self) -> None:
        self.master = await self.world.start_master(1)
        for replica_id in IDS[1:]:
            await self.start(replica_id)

    async def start(self, replica_id: int) -> None:
        disk = self.disks[replica_id] = FailingDisk()
        self.replicas[replica_id] = await self.world.start_replica(replica_id, disk)

    async def step(self) -> None:
        step, random, world = self.random.choice(STEPS), self.random, self.world
        other = random.choice([each for each in IDS if each != self.master_id])
        self.history.append(f"{world.simulation.loop.time():.3f} {step} {other}")
        match step:
            case "write":
                self.master.write(random.randbytes(random.randrange(1, 3_000)))
            case "burst":
                for _ in range(random.randrange(40)):
                    self.master.write(random.randbytes(2_000))
            case "put":
                self.n_keys += 1
                self.master.put(random.randrange(5), b"%d" % self.n_keys)
            case "cut":
                world.simulation.network.cut(host_of(self.master_id), host_of(other))
            case "partition":
                world.simulation.network.partition(
                    host_of(self.master_id), host_of(other), one_way=random.random() < 0.5
                )
            case "stall":
                world.simulation.network.stall(host_of(other))
            case "heal":
                self.heal()
            case "full disk" if other in self.disks:
                self.disks[other].errno = errno.ENOSPC
            case "kill replica" if other in self.replicas:
                await self.replicas.pop(other).stop()
            case "restart replica":
                if other in self.replicas:
                    await self.replicas.pop(other).stop()
                await self.start(other)
            case "restart master":
                await world.stop_master(self.master_id)
                self.master = await world.start_master(self.master_id)
            case "hand over":
                await self.hand_over()
            case _:
                await world.sleep(random.choice([0.01, 0.3, 1.0, 3.0]))
        await world.sleep(random.choice([0.0, 0.002, 0.05]))

    def heal(self) -> None:
        self.world.simulation.network.heal()
        for disk in self.disks.values():
            disk.errno = None

    async def hand_over(self) -> None:
        """Make an in-sync replica the master, as after a loss of this one."""
        targets = [each for each in (await self.world.row()).in_sync if each != self.master_id]
        if not targets:
            return
        before, self.master_id = self.master_id, self.random.choice(targets)
        self.check()
        await self.world.stop_master(before)
        if self.master_id in self.replicas:
            await self.replicas.pop(self.master_id).stop()
        await self.world.change(lambda row: handed_over(row, self.master_id, by=before, epoch=row.epoch))
        self.master = await self.world.start_master(self.master_id)
        await self.start(before)

    def check(self) -> None:
        """Everything that was ever committed is still the beginning of the log of each replica in sync."""
        own = messages_of(self.world.directory(self.master_id))
        assert [*own][: len(self.committed)] == self.committed
        position = self.master.sender.committed_position
        self.committed = max(self.committed, [each for each, end in own.items() if end <= position], key=len)
        for replica_id in self.master.sender.row.in_sync:
            found = [*messages_of(self.world.directory(replica_id))]
            assert found[: len(self.committed)] == self.committed, replica_id

    async def end(self) -> None:
        """Without faults, all are in sync again and have the same bytes and the same rows."""
        self.heal()
        for replica_id in IDS:
            if replica_id != self.master_id and replica_id not in self.replicas:
                await self.start(replica_id)
        self.master.put(99, b"the end")
        await self.world.until(lambda: self.master.sender.row.in_sync == IDS, 120)
        await self.world.until(lambda: self.master.sender.is_idle, 5)
        self.check()
        own = log_of(self.world.directory(self.master_id))
        for replica_id in IDS:
            assert log_of(self.world.directory(replica_id)) == own, replica_id
            assert rows_of_table(self.world.directory(replica_id)) == rows_of_table(
                self.world.directory(self.master_id)
            ), replica_id


@pytest.mark.parametrize("seed", range(6))
def test_no_fault_loses_a_committed_message_or_makes_copies_differ(tmp_path: object, seed: int) -> None:
    @simulated
    async def run(world: World) -> None:
        programme = Programme(world, seed)
        await programme.begin()
        try:
            for _ in range(60):
                await programme.step()
                programme.check()
            await programme.end()
        except BaseException as error:
            error.add_note("\n".join(programme.history[-25:]))
            raise

    run(tmp_path)
