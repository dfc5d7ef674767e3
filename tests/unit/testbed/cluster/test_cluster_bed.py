from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from model.errors import InvalidParameter
from model.limits import MAX_BED_CONSUMERS
from process.children import Child, children
from process.runtime import wait_until
from testbed.cluster import cluster_bed
from testbed.cluster.cluster_bed import ClusterBed, restarts

pytestmark = [pytest.mark.process, pytest.mark.asyncio]
DAEMON = [
    "sh",
    "-c",
    'echo "{\\"address\\": \\"127.0.0.1:$1\\"}"; trap "exit 3" TERM; '
    'n=0; while read -r order; do n=$((n + 1)); echo "{\\"order\\": $n, \\"cause\\": \\"b/$n\\"}"; done',
    "sh",
]


@asynccontextmanager
async def a_bed() -> AsyncIterator[tuple[ClusterBed, list[Child]]]:
    """A bed of processes that announce themselves and sleep."""
    commands = {name: [*DAEMON, str(port), "--listen", "0"] for port, name in enumerate(("broker-a", "broker-b"), 1)}
    async with (
        children([("namesrv", [*DAEMON, "9"])]) as name_servers,
        children(commands.items()) as brokers,
    ):
        bed = ClusterBed(name_servers, brokers, restarts(brokers, commands))
        try:
            yield bed, brokers
        finally:
            await bed.stop()


def state_of(bed: ClusterBed, name: str) -> str:
    return next(part.state for part in bed.parts() if part.name == name)


def is_paused(child: Child) -> bool:
    """Whether the system says that the process is stopped."""
    done = subprocess.run(["ps", "-o", "state=", "-p", str(child.process.pid)], capture_output=True, check=True)
    return done.stdout.strip().startswith(b"T")


async def test_a_broker_is_killed_started_again_paused_and_let_go_on() -> None:
    async with a_bed() as (bed, brokers):
        killed = brokers[0]
        assert await bed.act("broker-a", "kill") == "broker-a: kill"
        assert (state_of(bed, "broker-a"), killed.process.returncode) == ("stopped", -9)
        with anyio.move_on_after(0.5) as scope:
            await bed.first_end()
        assert scope.cancelled_caught, "its end was wanted"

        await bed.act("broker-a", "start")
        assert (state_of(bed, "broker-a"), brokers[0] is killed, brokers[0].address) == (
            "running",
            False,
            killed.address,
        )

        await bed.act("broker-b", "pause")
        assert state_of(bed, "broker-b") == "paused"
        await wait_until(lambda: is_paused(brokers[1]), 5.0, 0.01)
        assert is_paused(brokers[1])
        await bed.act("broker-b", "go on")
        assert state_of(bed, "broker-b") == "running"
        await wait_until(lambda: not is_paused(brokers[1]), 5.0, 0.01)
        assert not is_paused(brokers[1])


async def test_a_server_that_ends_by_itself_is_reported() -> None:
    async with a_bed() as (bed, brokers):
        brokers[1].process.kill()
        assert await bed.first_end() is brokers[1]


async def test_a_paused_process_is_stopped_at_the_end_all_the_same() -> None:
    async with a_bed() as (bed, brokers):
        await bed.act("broker-a", "pause")
        paused = brokers[0]
    assert paused.process.returncode == 3, "it was asked, and not killed after its time"


@pytest.mark.parametrize(
    ("name", "action"), [("broker-z", "kill"), ("broker-a", "start"), ("broker-a", "go on"), ("", "")]
)
async def test_what_a_process_does_not_take_is_refused(name: str, action: str) -> None:
    async with a_bed() as (bed, _):
        with pytest.raises(InvalidParameter, match="does not accept"):
            await bed.act(name, action)


async def test_consumers_are_added_up_to_a_bound_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_BED_CONSUMERS > 1
    monkeypatch.setattr(cluster_bed, "MODULE", DAEMON)
    monkeypatch.setattr(cluster_bed, "MAX_BED_CONSUMERS", 1)
    async with a_bed() as (bed, _):
        assert "consumer-1 of g" in await bed.add_consumer("g", "t")
        with pytest.raises(InvalidParameter, match="1 consumers already"):
            await bed.add_consumer("g", "t")
        assert [part.actions for part in bed.parts()][-1] == ("kill", "pause", "stop")
        await bed.act("consumer-1 of g", "stop")
        assert [(part.state, part.actions) for part in bed.parts()][-1] == ("stopped", ())
        await bed.add_consumer("g", "t")
        with pytest.raises(InvalidParameter):
            await bed.add_consumer("bad name", "t")


async def test_a_broker_that_ended_by_itself_is_left_out_unless_it_was_the_last_and_can_be_started_again() -> None:
    async with a_bed() as (bed, brokers):
        brokers[0].process.kill()
        assert await bed.first_end() is brokers[0]
        assert bed.leave_out(brokers[0])
        assert state_of(bed, "broker-a") == "stopped"
        brokers[1].process.kill()
        assert await bed.first_end() is brokers[1]
        assert not bed.leave_out(brokers[1])
        await bed.act("broker-a", "start")
        assert bed.leave_out(brokers[1])
        assert not bed.leave_out(bed._name_servers[0])
