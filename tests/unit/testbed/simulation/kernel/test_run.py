"""One seed, one history; and a failure says how to have it again."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from testbed.simulation.kernel import loop, run
from testbed.simulation.kernel.run import EPOCH_MS, Simulation, run_simulation
from testbed.simulation.kernel.selector import SimulationDeadlock, SimulationTimeout
from tests.tcp.transport_conformance import Recorder

ROOT = Path(__file__).resolve().parents[5]


class Talker(asyncio.Protocol):
    """Answers after a while that chance decides, and writes down everything."""

    def __init__(self, simulation: Simulation, name: str, history: list[str]) -> None:
        self._simulation, self._name, self._history = simulation, name, history
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._note(f"made {transport.get_extra_info('peername')}")

    def data_received(self, data: bytes) -> None:
        self._note(data.hex())
        self._simulation.loop.call_later(self._simulation.random.random(), self._answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._note(f"lost {exc!r}")

    def _answer(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self._simulation.random.randbytes(20))

    def _note(self, what: str) -> None:
        self._history.append(f"{self._simulation.clock_ms()} {self._simulation.loop.time()!r} {self._name} {what}")


async def conversation(simulation: Simulation) -> str:
    """A minute of talk between ten hosts with faults; returns all that happened."""
    history: list[str] = []

    async def talk(number: int) -> None:
        talker = Talker(simulation, f"client {number}", history)
        with simulation.on_host(f"10.0.0.{number}"):
            await simulation.loop.create_connection(lambda: talker, "10.0.0.1", 9876)
        try:
            with anyio.CancelScope():  # a scope of its own, as a consumer has: cancelling finds it through its parent
                talker.data_received(b"begin")
                await anyio.sleep_forever()
        finally:
            history.append(f"client {number} ends")
            talker.transport.close()

    server = await simulation.loop.create_server(lambda: Talker(simulation, "server", history), "10.0.0.1", 9876)
    async with anyio.create_task_group() as group:
        for number in range(2, 12):
            group.start_soon(talk, number)
        await anyio.sleep(20)
        with simulation.network.partition("10.0.0.1", [f"10.0.0.{simulation.random.randrange(2, 12)}"]):
            await anyio.sleep(20)
        simulation.network.cut("10.0.0.1", "10.0.0.5")
        await anyio.sleep(20)
        group.cancel_scope.cancel()
    server.close()
    await anyio.sleep(5)
    return "\n".join([*history, repr(simulation.network.statistics())])


def digest(seed: int) -> str:
    return hashlib.sha256(run_simulation(conversation, seed=seed, jitter_s=0.01).encode()).hexdigest()


def test_a_seed_gives_one_history_and_another_seed_another() -> None:
    first = run_simulation(conversation, seed=7, jitter_s=0.01)
    assert first.count("\n") > 500
    assert run_simulation(conversation, seed=7, jitter_s=0.01) == first
    assert run_simulation(conversation, seed=8, jitter_s=0.01) != first


@pytest.mark.process
@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_gives_the_same_history_in_another_process(hash_seed: str) -> None:
    program = "from tests.unit.testbed.simulation.kernel.test_run import digest; print(digest(7))"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == digest(7)


def test_the_result_of_main_is_returned() -> None:
    async def main(simulation: Simulation) -> tuple[int, float]:
        return simulation.seed, simulation.random.random()

    assert run_simulation(main, seed=3) == run_simulation(main, seed=3)
    assert run_simulation(main, seed=3) != run_simulation(main, seed=4)


def test_the_wall_clock_follows_the_virtual_one() -> None:
    async def main(simulation: Simulation) -> list[int]:
        begun_ms = simulation.clock_ms()
        await anyio.sleep(1.5)
        return [begun_ms, simulation.clock_ms()]

    assert run_simulation(main) == [EPOCH_MS, EPOCH_MS + 1_500]


def test_on_host_decides_where_one_connects_from() -> None:
    async def main(simulation: Simulation) -> str:
        with simulation.on_host("10.0.0.9"):
            server = await simulation.loop.create_server(Recorder, "0.0.0.0", 0)
        host = server.sockets[0].getsockname()[0]
        server.close()
        assert isinstance(host, str)
        return host

    assert run_simulation(main) == "10.0.0.9"


def test_a_failure_says_how_to_replay_it() -> None:
    async def failing(simulation: Simulation) -> None:
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose") as caught:
        run_simulation(failing, seed=42, jitter_s=0.5)
    assert caught.value.__notes__ == [
        "seed=42; replay with run_simulation(test_a_failure_says_how_to_replay_it.<locals>.failing, seed=42, "
        "latency_s=0.0005, jitter_s=0.5, limit_s=86400.0)"
    ]


@pytest.mark.parametrize(
    ("wait_s", "error"), [(float("inf"), SimulationDeadlock), (100.0, SimulationTimeout)], ids=["deadlock", "limit"]
)
def test_a_simulation_that_does_not_end_says_how_to_replay_it(wait_s: float, error: type[RuntimeError]) -> None:
    async def main(_: Simulation) -> None:
        await anyio.sleep(wait_s)

    with pytest.raises(error) as caught:
        run_simulation(main, seed=42, limit_s=60)
    assert "seed=42; replay with" in caught.value.__notes__[0]


def raise_interrupt() -> None:
    raise KeyboardInterrupt


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, as in commands of `rlab`, and SIGINT too.

    An earlier test of the same process may have left another handler of SIGINT, as PySpark does.
    """
    both = signal.SIGINT, signal.SIGTERM
    before = {number: signal.signal(number, signal.default_int_handler) for number in both}
    try:
        yield
        assert [signal.getsignal(number) for number in both] == [signal.default_int_handler] * 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def checkpoint() -> None:
    await anyio.lowlevel.checkpoint()


async def wait_a_second() -> None:
    await anyio.sleep(1)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("wait", [checkpoint, wait_a_second])
@pytest.mark.parametrize("interrupt", [raise_interrupt, press_ctrl_c, terminate])
def test_a_signal_stops_a_simulation_whose_rest_cannot_be_cancelled(
    monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[], None], wait: Callable[[], Awaitable[None]]
) -> None:
    monkeypatch.setattr(loop, "MAX_TURNS", 500)
    monkeypatch.setattr(loop, "MAX_TURNS_LEFT", 500)
    waits = 0

    async def never_ends() -> None:
        nonlocal waits
        while True:
            waits += 1
            with contextlib.suppress(asyncio.CancelledError):
                await wait()

    async def main(simulation: Simulation) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(never_ends)
            simulation.loop.call_soon(interrupt)

    with pytest.raises(KeyboardInterrupt):
        run_simulation(main, limit_s=5_000)
    assert waits < 1_000 or interrupt is raise_interrupt


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("interrupt", [press_ctrl_c, terminate])
def test_a_signal_stops_a_simulation_whatever_the_code_does_with_errors_that_it_hits(
    interrupt: Callable[[], None],
) -> None:
    async def main(simulation: Simulation) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            interrupt()
            await anyio.sleep(1)
        await anyio.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        run_simulation(main)


@pytest.mark.usefixtures("interruptible")
def test_a_second_signal_ends_a_callback_that_does_not_return() -> None:
    async def main(simulation: Simulation) -> None:
        press_ctrl_c()
        while True:
            press_ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        run_simulation(main)


def test_a_callback_that_fails_fails_the_simulation() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.loop.call_later(1, int, "not a number")
        await anyio.sleep(2)

    with pytest.raises(ExceptionGroup) as caught:
        run_simulation(main, seed=42)
    assert caught.group_contains(ValueError, match="not a number")
    assert "seed=42; replay with" in caught.value.__notes__[0]
    assert "Exception in callback int(" in caught.value.exceptions[0].__notes__[0]


def test_a_callback_that_fails_is_noted_on_the_failure_that_it_led_to() -> None:
    class Broken(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("cannot parse this")

    async def main(simulation: Simulation) -> None:
        server = await simulation.loop.create_server(Broken, "10.0.0.1", 9876)
        _, client = await simulation.loop.create_connection(Recorder, "10.0.0.1", 9876)
        assert isinstance(client, Recorder)
        client.transport.write(b"hello")
        await client.until_lost()
        server.close()
        assert client.received == b"an answer"

    with pytest.raises(AssertionError) as caught:
        run_simulation(main)
    assert caught.value.__notes__[-1] == "before that: ValueError('cannot parse this')"


def test_what_the_loop_only_reports_fails_the_simulation_too() -> None:
    async def main(simulation: Simulation) -> None:
        simulation.loop.call_exception_handler({"message": "something odd"})

    with pytest.raises(ExceptionGroup) as caught:
        run_simulation(main)
    assert caught.group_contains(RuntimeError, match="something odd")


def test_garbage_is_collected_as_before_once_a_simulation_is_over() -> None:
    async def main(_: Simulation) -> None:
        raise ValueError("over")

    before = gc.get_threshold()
    with pytest.raises(ValueError, match="over"):
        run_simulation(main)
    assert gc.get_threshold() == before


def test_what_a_process_has_left_out_of_collections_is_left_out_after_a_simulation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    async def main(_: Simulation) -> None:
        calls.append("runs")

    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: calls.append("unfreeze"))
    monkeypatch.setattr(run, "_has_frozen_objects", lambda: False)
    run_simulation(main)
    assert calls == ["freeze", "runs", "unfreeze"]
    monkeypatch.setattr(run, "_has_frozen_objects", lambda: True)
    run_simulation(main)
    assert calls == ["freeze", "runs", "unfreeze", "runs"]


def test_what_worlds_leave_is_collected_once_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    blocks = [1_000_000]

    async def main(_: Simulation) -> None:
        blocks[0] += 200_000

    def collect() -> int:
        blocks[0] -= 190_000
        calls.append("collect")
        return 0

    monkeypatch.setattr(run, "_has_frozen_objects", lambda: False)
    monkeypatch.setattr(run, "_leftovers", run._Leftovers())
    monkeypatch.setattr(gc, "collect", collect)
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: blocks[0])
    run_simulation(main)
    assert calls == ["collect"]  # the process is new
    run_simulation(main)
    assert calls == ["collect"]
    run_simulation(main)
    assert calls == ["collect"] * 2


def test_what_a_process_has_left_out_of_collections_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(_: Simulation) -> None:
        pass

    def count() -> int:
        pytest.fail("a count visits each object that was left out, before each simulation")

    run_simulation(main)
    monkeypatch.setattr(gc, "get_freeze_count", count)
    run_simulation(main)
