"""The contract of registers: one suite for the one in memory, the file, a name server over the wire, and a real etcd.

That of etcd is in real time, because etcd is a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from model.errors import IllegalOperation, RegisterUnavailable
from model.replica_set import ReplicaSet, SetChanged, was_written
from replica.register import Register, write_until_answered
from replica.sets import create, in_sync_with, joined, removed_from_in_sync, started, with_options
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.tcp.etcd_server import EtcdServer, etcd_server
from tests.unit.replica.registers.rigs import KINDS, Rig, in_etcd

NEW = create("broker-a", "h1:1", set_id=7, copies=2)
REAL = [pytest.mark.tcp, pytest.mark.process]
LOSSY = ["memory", "name server", pytest.param("etcd", marks=REAL)]
"""Registers whose answers can be lost."""
Scenario = Callable[[Rig], Awaitable[None]]


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """An etcd for all tests of this process; each has keys of its own."""
    with etcd_server(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture(params=[*KINDS, pytest.param("etcd", marks=REAL)])
def check(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scenario], None]:
    """Run a scenario with one kind of register."""

    def in_real_time(scenario: Scenario) -> None:
        async def main() -> None:
            async with in_etcd(request.getfixturevalue("etcd"), tmp_path.name) as rig:
                await scenario(rig)

        asyncio.run(main())

    def run(scenario: Scenario) -> None:
        async def main(simulation: Simulation) -> None:
            async with KINDS[request.param](simulation, tmp_path / "elections") as rig:
                await scenario(rig)

        run_simulation(main)

    return in_real_time if request.param == "etcd" else run


Check = Callable[[Scenario], None]


def test_a_row_is_read_by_all_as_it_was_stored(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        assert await rig.first.read("broker-a") is None
        assert await rig.first.rows() == []
        stored = await rig.first.write(NEW, 0)
        assert stored == replace(NEW, version=1, register_id=stored.register_id)
        assert stored.register_id > 0
        assert await rig.second.read("broker-a") == stored
        assert await rig.second.read("broker-b") is None

    check(scenario)


def test_all_rows_are_sorted_by_name(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        for name in ("b", "a", "c"):
            await rig.first.write(replace(NEW, name=name), 0)
        assert [row.name for row in await rig.second.rows()] == ["a", "b", "c"]
        assert len({row.register_id for row in await rig.second.rows()}) == 1

    check(scenario)


def test_of_two_writers_with_one_version_one_wins_and_the_other_gets_the_row(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        base = await rig.first.write(NEW, 0)
        outcomes: dict[str, ReplicaSet | None] = {}

        async def change(caller: Register, copies: int) -> None:
            try:
                outcomes["won"] = await caller.write(with_options(base, copies=copies), base.version)
            except SetChanged as changed:
                outcomes["lost"] = changed.current

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(change, rig.first, 3)
            tasks.start_soon(change, rig.second, 4)
        assert outcomes["won"] == outcomes["lost"] == await rig.first.read("broker-a")
        assert outcomes["won"] is not None
        assert outcomes["won"].version == 2

    check(scenario)


def test_of_two_creators_one_wins(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.first.write(NEW, 0)
        with pytest.raises(SetChanged, match="has version 1 and not 0") as refused:
            await rig.second.write(replace(NEW, set_id=8), 0)
        assert refused.value.current == await rig.first.read("broker-a")

    check(scenario)


def test_a_change_of_a_row_that_is_not_there_is_refused(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        with pytest.raises(SetChanged) as refused:
            await rig.first.write(NEW, 3)
        assert refused.value.current is None
        assert await rig.first.rows() == []

    check(scenario)


def test_a_row_that_goes_back_or_is_of_another_register_is_refused_and_changes_nothing(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        stored = await rig.first.write(replace(NEW, epoch=5), 0)
        for wrong in (
            replace(stored, epoch=4),
            replace(stored, set_id=8),
            replace(stored, register_id=stored.register_id + 1),
        ):
            with pytest.raises(IllegalOperation, match="set broker-a stays as it is"):
                await rig.second.write(wrong, 1)
        with pytest.raises(IllegalOperation, match="belongs to register"):
            await rig.second.write(replace(stored, name="broker-b", register_id=stored.register_id + 1), 0)
        assert await rig.first.rows() == [stored]

    check(scenario)


def test_rows_and_the_id_of_the_register_survive_a_restart(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        stored = await rig.first.write(NEW, 0)
        await rig.restart()
        assert await write_until_answered(rig.first, with_options(stored, copies=3), 1, within_s=10.0)
        assert (await rig.second.rows())[0].register_id == stored.register_id

    check(scenario)


def test_the_life_of_a_set_by_compare_and_set(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        row = await rig.first.write(NEW, 0)
        row, replica_id = joined(row, "h2:1")
        row = await rig.second.write(row, 1)
        row = await rig.second.write(started(row, replica_id, "h2:1"), 2)
        row = await rig.first.write(in_sync_with(row, replica_id, by=1, epoch=1, incarnation=1), 3)
        assert row.in_sync == (1, 2)
        row = await rig.first.write(removed_from_in_sync(row, replica_id, by=1, epoch=1), 4)
        assert (row.in_sync, row.version) == ((1,), 5)
        assert await rig.second.read("broker-a") == row

    check(scenario)


def test_a_row_is_removed_only_with_its_version_and_its_name_is_free_then(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        stored = await rig.first.write(NEW, 0)
        await rig.first.write(replace(NEW, name="broker-b"), 0)
        with pytest.raises(SetChanged) as refused:
            await rig.second.remove("broker-a", 2)
        assert refused.value.current == stored
        await rig.second.remove("broker-a", 1)
        with pytest.raises(SetChanged) as refused:
            await rig.second.remove("broker-a", 1)
        assert refused.value.current is None
        assert [row.name for row in await rig.first.rows()] == ["broker-b"]
        again = await rig.first.write(replace(NEW, set_id=8), 0)
        assert (again.version, again.register_id) == (1, stored.register_id)

    check(scenario)


@pytest.mark.parametrize("check", LOSSY, indirect=True)
def test_a_write_whose_answer_is_lost_is_applied_once_and_is_found_by_writing_it_again(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        stored = await rig.first.write(NEW, 0)
        new = with_options(stored, copies=3)
        async with rig.lossy():
            with pytest.raises(RegisterUnavailable):
                await rig.first.write(new, 1)
            # The other caller sees it: it is written, although the first one does not know.
            assert was_written(new, 1, await rig.second.read("broker-a"))
        found = await write_until_answered(rig.first, new, 1, within_s=10.0)
        assert found == replace(new, version=2)
        assert await rig.second.read("broker-a") == found

    check(scenario)


@pytest.mark.parametrize("check", LOSSY, indirect=True)
def test_a_write_whose_answer_is_lost_and_that_another_one_follows_is_reported_as_changed(check: Check) -> None:
    async def scenario(rig: Rig) -> None:
        stored = await rig.first.write(NEW, 0)
        async with rig.lossy():
            with pytest.raises(RegisterUnavailable):
                await rig.first.write(with_options(stored, copies=3), 1)
        current = await rig.second.read("broker-a")
        assert current is not None
        last = await rig.second.write(with_options(current, copies=4), 2)
        with pytest.raises(SetChanged) as refused:
            await write_until_answered(rig.first, with_options(stored, copies=3), 1, within_s=10.0)
        assert refused.value.current == last

    check(scenario)
