"""Lives and deaths of a process that says what a broker says, and is quicker at it."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from model.errors import ServiceNotAvailable
from testbed.crash.brokers import BrokerProcess
from testbed.crash.schedule import Kill, Moment

pytestmark = [pytest.mark.process, pytest.mark.asyncio]

SAYS = """
import json, pathlib, sys
data = pathlib.Path(sys.argv[sys.argv.index("--data") + 1])
data.mkdir(exist_ok=True)
print("a word on stderr", file=sys.stderr)
recovery = {"seconds": 0.25, "scanned_bytes": 7, "cut_bytes": 3}
print(json.dumps({"address": sys.argv[sys.argv.index("--listen") + 1], "recovery": recovery}), flush=True)
while sys.stdin.readline():
    path = data / f"{len(list(data.iterdir())):020d}.log"
    path.touch()
"""
ENDS = "raise SystemExit(3)"
RUNNING = Kill(Moment.LOADED, 0.0)


def process_of(tmp_path: Path, script: str) -> BrokerProcess:
    program = [sys.executable, "-c", script]
    return BrokerProcess("broker-a", tmp_path / "data", tmp_path / "log", [], program=program)


async def test_a_broker_that_was_killed_starts_again_at_its_address_and_its_lives_are_reported(tmp_path: Path) -> None:
    async with process_of(tmp_path, SAYS) as broker:
        address = broker.address
        for _ in range(2):
            assert await broker.live(RUNNING)
            await broker.kill(Moment.LOADED)
        await broker.start()
        assert broker.address == address
    assert [
        (broker_run.killed, broker_run.recovery_s, broker_run.scanned_bytes, broker_run.cut_bytes)
        for broker_run in broker.lives
    ] == [
        (Moment.LOADED, 0.25, 7, 3),
        (Moment.LOADED, 0.25, 7, 3),
        (None, 0.25, 7, 3),
    ]
    assert (tmp_path / "log").read_text() == "a word on stderr\n" * 3
    assert broker.failures == []


async def test_a_broker_can_be_killed_before_it_listens(tmp_path: Path) -> None:
    async with process_of(tmp_path, "import sys; sys.stdin.read()") as broker:
        assert not await broker.live(Kill(Moment.STARTING, 0.0))
    assert [(broker_run.start_s, broker_run.killed) for broker_run in broker.lives] == [(None, Moment.STARTING)]


async def test_a_broker_that_listens_sooner_than_it_was_to_be_killed_is_killed_then(tmp_path: Path) -> None:
    async with process_of(tmp_path, SAYS) as broker:
        assert not await broker.live(Kill(Moment.STARTING, 1_000.0))
    (broker_run,) = broker.lives
    assert broker_run.killed is Moment.STARTING
    assert broker_run.start_s is not None


async def test_a_broker_ends_properly_after_a_pause_and_starts_with_other_arguments(tmp_path: Path) -> None:
    async with process_of(tmp_path, f"import signal; signal.signal(15, lambda *_: exit(0))\n{SAYS}") as broker:
        await broker.start()
        broker.pause()
        broker.go_on()
        await broker.stop()
        broker.arguments = ["--listen", "elsewhere"]
        await broker.start()
        broker.pause()
    assert [broker_run.killed for broker_run in broker.lives] == [None, None]
    assert broker.failures == []


async def test_a_broker_that_does_not_end_properly_is_a_failure(tmp_path: Path) -> None:
    async with process_of(tmp_path, SAYS) as broker:
        await broker.start()
        with pytest.raises(ServiceNotAvailable, match="exit code -15"):
            await broker.stop()


async def test_a_new_segment_is_seen(tmp_path: Path) -> None:
    async with process_of(tmp_path, SAYS) as broker:
        await broker.start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(broker.wait_segment)
            await anyio.wait_all_tasks_blocked()
            (tmp_path / "data" / f"{7:020d}.log").touch()


async def test_a_broker_that_ends_by_itself_is_a_failure(tmp_path: Path) -> None:
    async with process_of(tmp_path, SAYS + "raise SystemExit(3)") as broker:
        await broker.start()
        child = broker._child
        assert child is not None
        assert child.process.stdin is not None
        await child.process.stdin.aclose()
        await child.process.wait()
        with pytest.raises(ServiceNotAvailable, match=r"exit code 3; the last line of .*: a word on stderr"):
            await broker.kill(Moment.LOADED)
    assert broker.failures == ["broker-a ended by itself, with exit code 3"]


async def test_a_broker_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    async with process_of(tmp_path, ENDS) as broker:
        with pytest.raises(ServiceNotAvailable, match=r"did not start .*: nothing"):
            await broker.start()
    assert len(broker.failures) == 1
