"""Threads of plain listeners: those that hang are replaced, and no process waits for them."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import pytest

from client.listeners.threads import DaemonThreads

ABANDON_AFTER_S = 10
"""Only waited for when a test fails."""


def test_calls_run_at_the_same_time_in_as_many_threads_as_are_allowed_and_their_errors_come_back() -> None:
    threads = DaemonThreads(3, "test")
    together = threading.Barrier(3)
    names = [
        threads.submit(lambda: (together.wait(ABANDON_AFTER_S), threading.current_thread().name)[1]) for _ in range(9)
    ]
    assert {future.result(ABANDON_AFTER_S) for future in names} == {"test 1", "test 2", "test 3"}
    assert isinstance(threads.submit(int, "x").exception(ABANDON_AFTER_S), ValueError)
    threads.shutdown()


def test_a_thread_that_hangs_is_replaced_once_no_one_waits_for_it_and_ends_when_it_returns() -> None:
    threads, go_on = DaemonThreads(1, "test"), threading.Event()
    hung: list[threading.Thread] = []

    def hangs() -> None:
        hung.append(threading.current_thread())
        begun.set()
        go_on.wait(ABANDON_AFTER_S)

    for number in range(3):
        begun = threading.Event()
        call = threads.submit(hangs)
        assert begun.wait(ABANDON_AFTER_S)
        assert not call.cancel()
        assert threads.submit(lambda number=number: number).result(ABANDON_AFTER_S) == number
    go_on.set()
    for thread in hung:
        thread.join(ABANDON_AFTER_S)
        assert not thread.is_alive()
    before = threading.active_count()
    assert [threads.submit(pow, 2, n).result(ABANDON_AFTER_S) for n in range(5)] == [1, 2, 4, 8, 16]
    assert threading.active_count() == before
    threads.shutdown()


def test_a_call_that_waits_for_a_thread_can_be_cancelled_and_costs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, go_on = DaemonThreads(1, "test"), threading.Event()
    first, waiting = threads.submit(go_on.wait, ABANDON_AFTER_S), threads.submit(print)
    assert waiting.cancel()
    go_on.set()
    assert first.result(ABANDON_AFTER_S)
    assert threads.submit(threading.current_thread).result(ABANDON_AFTER_S).name == "test 1"
    threads.shutdown()


def test_beyond_the_limit_hanging_threads_are_not_replaced_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("client.listeners.threads.MAX_HUNG_CALLS", 2)
    threads, go_on, begun = DaemonThreads(1, "test"), threading.Event(), threading.Semaphore(0)

    def hangs() -> None:
        begun.release()
        go_on.wait(ABANDON_AFTER_S)

    calls = []
    for _ in range(3):
        calls.append(threads.submit(hangs))
        assert begun.acquire(timeout=ABANDON_AFTER_S)
        calls[-1].cancel()
    later = threads.submit(pow, 2, 3)
    assert "test: 2 calls hang, so there is no thread for more: start the process again" in caplog.text
    assert not later.done()
    go_on.set()
    assert later.result(ABANDON_AFTER_S) == 8
    threads.shutdown()


def test_after_the_shutdown_waiting_calls_are_cancelled_and_new_ones_refused() -> None:
    threads, go_on = DaemonThreads(1, "test"), threading.Event()
    running, waiting = threads.submit(go_on.wait, ABANDON_AFTER_S), threads.submit(print)
    threads.shutdown()
    threads.shutdown()
    with pytest.raises(CancelledError):
        waiting.result(ABANDON_AFTER_S)
    with pytest.raises(RuntimeError, match="after shutdown"):
        threads.submit(print)
    go_on.set()
    assert running.result(ABANDON_AFTER_S)


def test_a_process_ends_although_a_listener_and_an_observer_hang() -> None:
    script = """
import asyncio, threading
from client.instance.user_code import UserCode
from client.listeners.listener import call_observer
from client.listeners.threads import DaemonThreads

begun = threading.Semaphore(0)

def hangs(*arguments):
    begun.release()
    threading.Event().wait()

async def main():
    DaemonThreads(1, "listener").submit(hangs)
    observer = asyncio.ensure_future(call_observer(UserCode(hangs)))
    await asyncio.to_thread(lambda: [begun.acquire() for _ in range(2)])

asyncio.run(main())
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
