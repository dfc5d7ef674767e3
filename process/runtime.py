"""Runs the coroutine of a command, and turns its outcome into an exit code.

    it returned                            0, or 1 if the command reports a failure
    what was given is wrong in itself      2: the command line, a variable, the file, or a value that a broker refuses
    it raised another error                1: it was not done; both with one line on stderr
    SIGINT or SIGTERM                      it is cancelled and cleans up; then 0 if it runs until stopped, else 1
    a second signal                        the process ends at once

Every error is printed as one line, bugs too; RLAB_DEBUG=1 prints the traceback.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import anyio
import typer

from model.errors import ConfigError, InvalidParameter, MessageIllegal, RlabError
from model.extras import EXTRA_OF, how_to_install
from process.output import LineLimit, LogFormat, log_handler, print_error
from process.start import SIGNALS, interruptible, was_stopped

T = TypeVar("T")

FAILED = 1
MISUSED = 2
"""The exit code of the parser of the command line, so that one kind of mistake has one code."""
_GC_THRESHOLDS = (10_000, 20, 50)
"""When cyclic garbage is collected: all of it once in ten million containers that stay, and not once in 70,000. There
is hardly any, and each full collection visits whatever lives: it took half the CPU time of five hundred clients in one
process, and stopped all of them for up to a second."""


class _Stopped(Exception):
    """A signal cancelled the command, which has cleaned up."""


def run(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    endless: bool = False,
    verbose: bool = False,
    log_format: LogFormat | None = None,
) -> T:
    """Run a command's coroutine to its end.

    `endless`: the command runs until a signal stops it, so the exit code of a signal is 0. The log goes to stderr.

    Raises:
        typer.Exit: it failed or was stopped; the error has been printed.
    """
    debug = bool(os.environ.get("RLAB_DEBUG"))
    level = logging.DEBUG if debug else logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, handlers=[log_handler(log_format)])
    limit = LineLimit()
    handlers = tuple(logging.getLogger().handlers)
    for handler in () if debug else handlers:
        handler.addFilter(limit)
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with _rare_collections(), asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(_until_signal(main))
    except _Stopped:
        if endless:
            raise typer.Exit(0) from None
        print_error("stopped before it was finished")
        raise typer.Exit(FAILED) from None
    except (RlabError, OSError, BaseExceptionGroup) as error:
        if debug:
            raise
        print_error(_text(error))
        raise typer.Exit(_exit_code(error)) from None
    finally:
        limit.tell_rest()
        for handler in handlers:
            handler.removeFilter(limit)
        for number, action in previous.items():
            signal.signal(number, action)


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop, or of asyncio where that is not installed: with it servers answer more requests a second."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@contextmanager
def _rare_collections() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


@contextmanager
def exit_with_error() -> Iterator[None]:
    """Turn the project's errors, Ctrl-C and SIGTERM into an exit code and one line; `run` does this for coroutines."""
    try:
        with interruptible():
            yield
    except KeyboardInterrupt:
        print_error("stopped before it was finished")
        raise typer.Exit(FAILED) from None
    except (RlabError, OSError) as error:
        if os.environ.get("RLAB_DEBUG"):
            raise
        print_error(_text(error))
        raise typer.Exit(_exit_code(error)) from None


def report_bug(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Print an unexpected error in one line; `main` makes this `sys.excepthook`."""
    if os.environ.get("RLAB_DEBUG"):
        sys.__excepthook__(kind, error, traceback)
    elif isinstance(error, KeyboardInterrupt):
        # Before `run` took the signals. Python ends with its own code for it.
        print_error("stopped before it was finished")
    else:
        print_error(_text(error))


async def _until_signal(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    received: list[int] = []

    def stop(number: int) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        task.cancel()

    # The handlers stay until the loop is closed, so that a second signal ends a slow shutdown at once.
    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    if was_stopped():
        raise _Stopped
    try:
        return await main()
    except asyncio.CancelledError:
        if not received:
            raise
        raise _Stopped from None


def _exit_code(error: BaseException) -> int:
    if isinstance(error, BaseExceptionGroup):
        return _exit_code(error.exceptions[0])
    return MISUSED if isinstance(error, ConfigError | InvalidParameter | MessageIllegal) else FAILED


def _text(error: BaseException) -> str:
    """The text of an error for the user."""
    if isinstance(error, BaseExceptionGroup):
        return _text(error.exceptions[0])
    if isinstance(error, RlabError):
        return str(error)
    if isinstance(error, OSError):
        if error.errno == errno.EBADF and not error.filename:
            return "standard input or output is closed, and this command needs it: give it a file, or /dev/null"
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRA_OF:
        return how_to_install(error.name)
    return f"unexpected {type(error).__name__}: {error}; RLAB_DEBUG=1 shows the traceback"


async def wait_until(condition: Callable[[], bool], timeout_s: float, poll_s: float) -> None:
    """Wait until a condition holds, or for `timeout_s`: for counters and files, whose changes set no event.

    Cancellation: harmless.
    """
    with anyio.move_on_after(timeout_s):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(poll_s)


async def wait_for_eof(fd: int = 0) -> None:
    """Wait until the other end of a pipe is closed, which tells a child process that its parent has ended.

    Cancellation: harmless.
    """
    while True:
        await anyio.wait_readable(fd)
        if not os.read(fd, 4096):
            return
