"""Cuts between master, replica and register, in each direction, by the fault rules of real processes.

A rule loses frames inside a server, at both ends of the connection alike: the name server does not know which replica
asks it, so the register is cut off from both of them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from client.admin.admin import Admin
from client.produce.producer import Producer
from model.errors import RlabError
from model.message import Message
from model.replica_limits import LEASE_S, REPLICA_SILENCE_S
from process.runtime import wait_until
from testbed.bench.copies.replica_processes import wait_alone, wait_whole
from testbed.cluster.control.remote import RemoteCluster
from testbed.crash.read_back import read_back
from tests.tcp.rlab_process import TIMEOUT_S, daemon

pytestmark = [pytest.mark.process, pytest.mark.tcp, pytest.mark.asyncio]

SLOW_S = 1.5
"""How much longer anything may take on a machine that is busy with other things."""
MASTER, REPLICA, REGISTER = "broker-a-1", "broker-a-2", "namesrv"
Rule = dict[str, Any]


def lose(at: str, *codes: str, **columns: str) -> list[Rule]:
    return [{"at": at, "do": "drop", "code": code, **columns} for code in codes]


TO_REPLICA, TO_MASTER = lose(MASTER, "REPLICATE"), lose(MASTER, "REPLICATED")
TO_REGISTER = lose(REGISTER, "GET_REPLICA_SET", "PUT_REPLICA_SET", direction="to_server")
FROM_REGISTER = lose(REGISTER, "GET_REPLICA_SET", "PUT_REPLICA_SET", direction="to_client")


class Sends:
    """Sends one message after the other; the acknowledged bodies, and the longest time between two of them."""

    def __init__(self) -> None:
        self.acknowledged: list[bytes] = []
        self.longest_s = 0.0
        self._last = time.perf_counter()

    @property
    def silent_s(self) -> float:
        """How long it is since the last acknowledgement."""
        return time.perf_counter() - self._last

    async def run(self, producer: Producer) -> None:
        for n in range(1_000_000):
            body = b"%d" % n
            try:
                await producer.send(Message("orders", body))
            except RlabError:
                continue
            self.longest_s = max(self.longest_s, self.silent_s)
            self._last = time.perf_counter()
            self.acknowledged.append(body)


class Cuts:
    """A set of two replicas under load, whose connections can be cut."""

    def __init__(self, cluster: RemoteCluster, admin: Admin, sends: Sends) -> None:
        self.cluster, self.admin, self.sends = cluster, admin, sends

    async def wait_acknowledged(self) -> None:
        """Wait until one more send is acknowledged."""
        n = len(self.sends.acknowledged)
        await self.wait_until(lambda: len(self.sends.acknowledged) > n)

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        await wait_until(holds, TIMEOUT_S, 0.02)
        assert holds(), f"not within {TIMEOUT_S:g} s"

    def affected(self) -> int:
        """Frames that the rules have lost."""
        return sum(each["done"] for each in self.cluster.blocking.faults())

    async def cut(self, *rules: Rule) -> None:
        for rule in rules:
            await self.cluster.begin(rule)
        self.sends.longest_s = 0.0

    async def lost(self) -> set[bytes]:
        """The acknowledged bodies that no queue has."""
        acknowledged, stored = set(self.sends.acknowledged), set[bytes]()  # sends go on while it reads
        names = self.cluster.name_server
        await read_back(names, ["broker-a"], "orders", lambda _, __, rows: stored.update(row.body for row in rows))
        return acknowledged - stored


@asynccontextmanager
async def cuts(directory: Path) -> AsyncIterator[Cuts]:
    start = ("cluster", "--brokers", "1", "--copies", "2", "--topic", "orders", "--port", "0", "--control", "0")
    with daemon(*start, cwd=directory) as started:
        names = started.address
        sends = Sends()
        async with Admin(names) as admin, Producer(names) as producer, anyio.create_task_group() as tasks:
            found = Cuts(RemoteCluster(started.said["control"], started.said["token"], names), admin, sends)
            await wait_whole(admin, 2)
            tasks.start_soon(sends.run, producer)
            await found.wait_acknowledged()
            yield found
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("rules", [TO_REPLICA, TO_MASTER, [*TO_REPLICA, *TO_MASTER]])
async def test_a_master_that_is_cut_off_from_its_replica_removes_it_and_goes_on(
    tmp_path: Path, rules: list[Rule]
) -> None:
    async with cuts(tmp_path) as found:
        await found.cut(*rules)
        row = await wait_alone(found.admin)
        assert (row.master, row.epoch) == (1, 1), "the master is sooner than an election"
        await found.wait_acknowledged()
        assert found.sends.longest_s < REPLICA_SILENCE_S + SLOW_S
        await found.cluster.heal()
        await wait_whole(found.admin, 2)
        assert await found.lost() == set()


@pytest.mark.parametrize("rules", [TO_REGISTER, FROM_REGISTER])
async def test_without_its_register_a_set_goes_on_and_stops_when_it_would_have_to_change(
    tmp_path: Path, rules: list[Rule]
) -> None:
    async with cuts(tmp_path) as found:
        await found.cut(*rules)
        await found.wait_until(lambda: found.affected() >= 4)
        await found.wait_acknowledged()
        assert found.sends.longest_s < SLOW_S
        await found.cluster.kill(REPLICA)
        # The master may not go on alone before the register has recorded that.
        await found.wait_until(lambda: found.sends.silent_s > 2 * LEASE_S)
        await found.cluster.heal()
        await wait_whole(found.admin, 2)
        await found.wait_acknowledged()
        assert await found.lost() == set()


@pytest.mark.parametrize("rules", [TO_REGISTER, FROM_REGISTER])
async def test_without_the_register_no_replica_takes_over_before_it_is_back(tmp_path: Path, rules: list[Rule]) -> None:
    async with cuts(tmp_path) as found:
        await found.cut(*rules)
        await found.cluster.kill(MASTER)
        await found.wait_until(lambda: found.sends.silent_s > 2 * LEASE_S)
        await found.cluster.heal()
        assert (await wait_whole(found.admin, 2)).row.epoch == 2
        await found.wait_acknowledged()
        assert await found.lost() == set()
