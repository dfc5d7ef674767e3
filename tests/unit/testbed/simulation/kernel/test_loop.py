"""The virtual clock: it jumps, it never passes while something can run, and it says when nothing ever will."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.simulation.kernel.loop import MIN_CANCELLED_TIMERS, VirtualLoop
from testbed.simulation.kernel.network import SimulatedNetwork
from testbed.simulation.kernel.selector import NotSimulated, SimulationDeadlock

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]], *, start_s: float = 0.0, limit_s: float = 86_400.0) -> T:
    async def body() -> T:
        return await main()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start_s=start_s, limit_s=limit_s)) as runner:
        return runner.run(body())


def now_s() -> float:
    return asyncio.get_running_loop().time()


# ---------------------------------------------------------------------------------------------------------- the clock


def test_eight_hours_pass_at_once() -> None:
    async def main() -> float:
        for _ in range(30_000):
            await anyio.sleep(1)
        return now_s()

    begun = time.perf_counter()
    assert run(main) == 30_000.0
    assert time.perf_counter() - begun < 20  # about half a second; waiting would take all of the 30,000


def test_the_clock_begins_where_it_is_reported_and_shows_the_exact_instant_of_a_timer() -> None:
    async def main() -> list[float]:
        shown = [now_s()]
        for wait_s in (0.1, 0.2, 1 / 3):
            expected = now_s() + wait_s
            await anyio.sleep(wait_s)
            assert now_s() == expected
            shown.append(now_s())
        return shown

    assert run(main, start_s=1_000.25)[0] == 1_000.25


@given(st.lists(st.integers(0, 50), max_size=40))
def test_timers_fire_in_order_each_at_its_time(delays: list[int]) -> None:
    async def main() -> list[tuple[float, int]]:
        fired: list[tuple[float, int]] = []

        def fire(delay: int) -> None:
            fired.append((now_s(), delay))

        for delay in delays:
            asyncio.get_running_loop().call_later(delay, fire, delay)
        await anyio.sleep(51)
        return fired

    assert run(main) == [(float(delay), delay) for delay in sorted(delays)]


def test_no_time_passes_while_something_can_run() -> None:
    async def main() -> float:
        asyncio.get_running_loop().call_later(0.001, pytest.fail, "the clock moved")
        for _ in range(10_000):
            await anyio.lowlevel.checkpoint()
        return now_s()

    assert run(main) == 0.0


def test_an_instant_that_never_ends_is_an_error_and_no_endless_run() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_soon(again)

        await anyio.sleep(1.5)
        again()
        await anyio.sleep(1.0)

    with pytest.raises(SimulationDeadlock, match=r"200000 iterations at 1\.500000 s of virtual time[\s\S]*main"):
        run(main)


def test_a_cancelled_timer_does_not_move_the_clock() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        handles = [loop.call_later(delay, pytest.fail, "cancelled") for delay in range(1, 200)]
        for handle in handles:
            handle.cancel()
        await anyio.sleep(0.5)
        return now_s()

    assert run(main) == 0.5


def test_timers_of_one_instant_fire_in_the_order_in_which_they_were_set() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        for number in range(20):
            asyncio.get_running_loop().call_later(1 if number % 2 else 2, fired.append, number)
        await anyio.sleep(3)
        return fired

    assert run(main) == [*range(1, 20, 2), *range(0, 20, 2)]


def test_cancelled_timers_do_not_add_up() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        kept: list[float] = []
        loop.call_later(500, lambda: kept.append(now_s()))
        for _ in range(10_000):
            loop.call_later(1_000, pytest.fail, "cancelled").cancel()
        fired = loop.call_later(1, kept.append, 0.0)
        await anyio.sleep(2)
        fired.cancel()  # too late: it is no longer among the timers
        left = len(loop.timers)
        await anyio.sleep(600)
        assert kept == [0.0, 500.0]
        return left

    assert run(main) <= 2 * MIN_CANCELLED_TIMERS


def test_a_closed_loop_takes_no_more_calls() -> None:
    loop = VirtualLoop()
    loop.close()
    for call in (loop.call_soon, partial(loop.call_later, 1)):
        with pytest.raises(RuntimeError, match="closed"):
            call(print)


def test_a_callback_that_fails_is_reported_and_the_others_run() -> None:
    async def main() -> tuple[list[str], list[str]]:
        loop = asyncio.get_running_loop()
        reported: list[str] = []
        loop.set_exception_handler(lambda _, context: reported.append(repr(context["exception"])))
        called: list[str] = []
        loop.call_soon(int, "x")
        loop.call_soon(called.append, "next")
        await anyio.sleep(1)
        return reported, called

    reported, called = run(main)
    assert reported == ["ValueError(\"invalid literal for int() with base 10: 'x'\")"]
    assert called == ["next"]


@pytest.mark.parametrize("options", [{"start_s": -1.0}, {"start_s": 1e9}, {"limit_s": 0.0}, {"limit_s": 1e9}])
def test_a_clock_that_a_float_cannot_keep_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        VirtualLoop(**options)


# ------------------------------------------------------------------------------------------------ asyncio and anyio


def test_timeouts_and_cancel_scopes_end_at_their_deadline() -> None:
    async def main() -> None:
        with anyio.move_on_after(10) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert now_s() == 10.0
        with pytest.raises(TimeoutError), anyio.fail_after(5):
            await anyio.sleep(6)
        assert now_s() == 15.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.get_running_loop().create_future()
        assert now_s() == 20.0

    run(main)


def test_task_groups_events_and_streams_work() -> None:
    async def main() -> list[tuple[float, int]]:
        got: list[tuple[float, int]] = []
        send, receive = anyio.create_memory_object_stream[int](1)

        async def produce() -> None:
            async with send:
                for number in range(3):
                    await anyio.sleep(1)
                    await send.send(number)

        async with anyio.create_task_group() as group, receive:
            group.start_soon(produce)
            async for number in receive:
                got.append((now_s(), number))
        return got

    assert run(main) == [(1.0, 0), (2.0, 1), (3.0, 2)]


def test_a_failing_task_cancels_its_group() -> None:
    async def main() -> None:
        async def fail() -> None:
            await anyio.sleep(1)
            raise ValueError("on purpose")

        async def wait_with_one_that_fails() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)
                group.start_soon(fail)

        with pytest.raises(ExceptionGroup) as caught:
            await wait_with_one_that_fails()
        assert caught.group_contains(ValueError, match="on purpose")
        assert now_s() == 1.0

    run(main)


def test_async_generators_are_finished_at_the_end() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            await anyio.sleep(1)
            closed.append("closed")

    kept = numbers()  # held here, so that the loop has to finish it and not the collector

    async def main() -> int:
        return await anext(kept)

    assert run(main) == 1
    assert closed == ["closed"]


# -------------------------------------------------------------------------------------- what is not in virtual time


def test_an_executor_runs_its_function_here_and_now(tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        file = tmp_path / "log"
        future = loop.run_in_executor(None, file.write_text, "stored")
        assert future.done()
        assert await future == 6
        assert file.read_text() == "stored"
        assert await loop.run_in_executor(None, threading.get_ident) == threading.get_ident()

    run(main)


def test_an_executor_gives_the_error_to_anyone_who_awaits() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        failed, well = loop.run_in_executor(None, int, "x"), loop.run_in_executor(None, int, "7")
        assert await well == 7
        with pytest.raises(ValueError, match="invalid literal"):
            await failed

        def interrupt() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):  # at once, as everywhere else
            _ = loop.run_in_executor(None, interrupt)

    run(main)


def test_call_soon_threadsafe_works_in_the_thread_of_the_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        called = loop.create_future()
        loop.call_soon_threadsafe(called.set_result, "called")
        assert await called == "called"

    run(main)


def test_another_thread_is_reported_that_it_cannot_call_in() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        errors: list[NotSimulated] = []

        def call() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except NotSimulated as error:
                errors.append(error)

        thread = threading.Thread(target=call, name="intruder")
        thread.start()
        thread.join()
        assert "'intruder' calls into a simulated loop" in str(errors[0])

    run(main)


def test_a_real_socket_is_refused() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        with here, there:
            here.setblocking(False)
            with pytest.raises(NotSimulated, match="real file or socket"):
                loop.add_reader(here, print)
            with pytest.raises(NotSimulated, match="real file or socket"):
                await loop.sock_recv(here, 1)
            assert isinstance(loop, VirtualLoop)
            SimulatedNetwork(loop, Random(0))
            with pytest.raises(NotSimulated, match="sock="):
                await loop.create_connection(asyncio.Protocol, sock=here)
            with pytest.raises(NotSimulated, match="local_addr="):
                await loop.create_connection(asyncio.Protocol, "10.0.0.1", 80, local_addr=("10.0.0.2", 0))

    run(main)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("getaddrinfo", ("example.org", 80)),
        ("getnameinfo", (("127.0.0.1", 80),)),
        ("create_datagram_endpoint", (asyncio.DatagramProtocol,)),
        ("create_unix_server", (asyncio.Protocol, "path")),
        ("sock_connect", (None, ("127.0.0.1", 80))),
        ("subprocess_exec", (asyncio.SubprocessProtocol, "true")),
        ("add_signal_handler", (2, print)),
    ],
)
def test_what_reaches_outside_says_so(name: str, arguments: tuple[object, ...]) -> None:
    async def main() -> None:
        with pytest.raises(NotSimulated, match=f"loop.{name} reaches outside of the simulation: "):
            await getattr(asyncio.get_running_loop(), name)(*arguments)

    run(main)


def test_a_loop_without_a_network_says_how_to_make_one() -> None:
    async def main() -> None:
        with pytest.raises(NotSimulated, match="SimulatedNetwork"):
            await asyncio.get_running_loop().create_server(asyncio.Protocol, "10.0.0.1", 80)

    run(main)


def test_an_executor_takes_the_time_that_calls_are_said_to_take_and_forgets_who_left() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.blocking_s = 3.0
        done: list[float] = []
        future = loop.run_in_executor(None, lambda: done.append(loop.time()))
        left = loop.run_in_executor(None, int, "x")
        left.cancel()
        assert (done, future.done()) == ([], False)
        await future
        assert done == [3.0]
        failed = loop.run_in_executor(None, int, "x")
        with pytest.raises(ValueError, match="invalid literal"):
            await failed
        assert loop.time() == 6.0

    run(main)
