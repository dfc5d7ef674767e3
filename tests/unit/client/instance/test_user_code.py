"""One call of user code: its context, its result, and which exceptions are a failure of it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import logging
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from client.instance.user_code import EXITS, UserCode, function_name, is_failure, log_failure, observing
from client.listeners.threads import DaemonThreads
from testbed.simulation.kernel.run import Simulation, run_simulation

VAR: ContextVar[str] = ContextVar("VAR", default="none")
FAILURES = [
    ValueError,
    asyncio.CancelledError,
    concurrent.futures.CancelledError,
    GeneratorExit,
    StopIteration,
    KeyError,
    BaseException,
]


async def outcome_of(function: Callable[..., Any]) -> BaseException | None:
    """The exception of a call that is a failure of it; others go on."""
    task = asyncio.current_task()
    assert task is not None
    cancelling = task.cancelling()
    threads = DaemonThreads(1, "test")
    try:
        await UserCode(function)(threads)
    except BaseException as error:
        if is_failure(error, task, cancelling):
            return error
        raise
    finally:
        threads.shutdown()
    return None


def raising(kind: type[BaseException], style: str) -> Callable[[], Any]:
    def plain() -> None:
        raise kind

    async def at_once() -> None:
        raise kind

    async def waiting() -> None:
        await anyio.lowlevel.checkpoint()
        raise kind

    def looks_plain() -> Any:
        return at_once()

    return {"plain": plain, "async": at_once, "waiting": waiting, "looks plain": looks_plain}[style]


@pytest.mark.asyncio
@pytest.mark.parametrize("style", ["plain", "async", "waiting", "looks plain"])
async def test_every_exception_is_a_failure_of_the_call_also_out_of_a_real_thread(style: str) -> None:
    for kind in FAILURES:
        error = await asyncio.wait_for(outcome_of(raising(kind, style)), 5)
        # Python turns a StopIteration that leaves a coroutine into a RuntimeError.
        assert type(error.__cause__ if type(error) is RuntimeError else error) is kind


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", EXITS)
async def test_what_ends_the_process_is_not_a_failure_of_the_call(kind: type[BaseException]) -> None:
    with pytest.raises(kind):
        await outcome_of(raising(kind, "plain"))


def test_a_cancellation_of_the_call_is_not_a_failure_and_one_of_what_it_awaits_is() -> None:
    async def awaits_a_cancelled_future() -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.cancel)
        await future

    async def main(simulation: Simulation) -> None:
        assert isinstance(await outcome_of(awaits_a_cancelled_future), asyncio.CancelledError)
        with anyio.move_on_after(1) as scope:
            await outcome_of(anyio.sleep_forever)
        assert scope.cancelled_caught
        with anyio.move_on_after(9) as scope:  # a cancellation that the code itself has ended
            assert await outcome_of(ends_a_timeout) is None
        assert not scope.cancelled_caught

    async def ends_a_timeout() -> None:
        with anyio.move_on_after(1):
            await anyio.sleep_forever()

    run_simulation(main)


def test_a_coroutine_that_the_garbage_collector_closes_is_not_a_failed_call() -> None:
    async def main(simulation: Simulation) -> Coroutine[Any, Any, object]:
        left = outcome_of(anyio.sleep_forever)
        left.send(None)
        return left

    left = run_simulation(main)
    left.close()  # or it would go on: RuntimeError, "coroutine ignored GeneratorExit"


def test_each_call_sees_the_context_in_which_the_function_was_given_and_leaves_nothing_in_it() -> None:
    seen: list[str] = []

    async def waits() -> None:
        seen.append(VAR.get())
        VAR.set("a call")
        await anyio.sleep(1)
        seen.append(VAR.get())

    async def main(simulation: Simulation) -> None:
        token = VAR.set("given")
        code = UserCode(waits)
        VAR.reset(token)
        for _ in range(2):
            await code(None)
        assert VAR.get() == "none"

    run_simulation(main)
    assert seen == ["given", "a call"] * 2


@pytest.mark.asyncio
async def test_a_plain_function_runs_in_a_thread_of_the_executor_and_returns_its_result() -> None:
    threads = DaemonThreads(1, "mine")
    name = await UserCode(lambda n: f"{threading.current_thread().name} {n}")(threads, 5)
    threads.shutdown()
    assert name == "mine 1 5"


class Callee:
    def __call__(self) -> None: ...

    def method(self) -> None: ...


def test_names_are_those_by_which_users_find_their_code() -> None:
    here = "tests.unit.client.instance.test_user_code"
    assert function_name(raising) == f"{here}.raising"
    assert function_name(Callee().method) == f"{here}.Callee.method"
    assert function_name(Callee()) == f"{here}.Callee"
    assert function_name(functools.partial(raising, ValueError)) == "functools.partial"


@pytest.mark.parametrize("kind", FAILURES)
def test_a_function_that_only_observes_may_raise(kind: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        observing(raising(kind, "plain"), "latency_sink")()
    (record,) = caplog.records
    assert "the latency_sink failed" in record.getMessage()
    with pytest.raises(SystemExit):
        observing(raising(SystemExit, "plain"), "latency_sink")()


class RaisingHandler(logging.Handler):
    """A handler that raises what its formatter raises, as one of pytest and some of frameworks do."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            str(record.exc_info[1])
        self.texts.append(record.getMessage())


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_an_exception_that_cannot_be_printed_is_logged_by_its_class() -> None:
    log, handler = logging.Logger("of a test"), RaisingHandler()
    log.addHandler(handler)
    log_failure(log, Unprintable(), "the check of %s failed", "g")
    log_failure(log, ValueError("1"), "the check of %s failed", "h")
    assert handler.texts == ["the check of g failed: Unprintable (it cannot be printed)", "the check of h failed"]
