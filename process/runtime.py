"""Runs the coroutine of a command, and converts its outcome to an exit code.

    it returned                            0, or 1 if the command reports a failure
    invalid input                          2: the command line, a variable, the file, or a value that a broker refuses
    another error                          1: the command failed; both with one line on stderr
    SIGINT or SIGTERM                      it is cancelled and cleans up; 0 if the command is endless, else 1
    a second signal                        the process ends at once

Every error is printed as one line, unexpected ones too; RLAB_DEBUG=1 prints the traceback.
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
from model.extras import EXTRA_BY_PACKAGE, install_command
from process.output import LineLimit, LogFormat, log_handler, print_error
from process.start import SIGNALS, interruptible, was_stopped

T = TypeVar("T")

FAILED = 1
MISUSED = 2
"""The exit code that the command-line parser uses, so that all invalid input has one code."""
UNKNOWN = 3
"""Exit code of a verdict that is neither yes nor no."""
_GC_THRESHOLDS = (10_000, 20, 50)
"""Thresholds of the cyclic garbage collector: a full collection once in ten million surviving containers instead of
70,000. There is hardly any cyclic garbage, and each full collection visits all live objects: with five hundred clients
in one process it used half of the CPU time, and stopped all of them for up to a second."""


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

    `endless`: the command runs until a signal stops it, so the exit code after a signal is 0. The log goes to stderr.

    Raises:
        typer.Exit: the command failed or was stopped; the error has been printed.
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
        limit.log_suppressed()
        for handler in handlers:
            handler.removeFilter(limit)
        for number, action in previous.items():
            signal.signal(number, action)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop if it is installed, because servers answer more requests with it, else of asyncio."""
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
    """Convert the project's errors, Ctrl-C and SIGTERM to an exit code and one line; `run` does this for coroutines.

    Garbage is collected rarely, as in `run`: a trace is millions of objects that live to the end of the command.
    """
    try:
        with interruptible(), _rare_collections():
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
        # The signal came before `run` installed its handlers. Python then ends with its own exit code.
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
    """Return the text of an error for the user."""
    if isinstance(error, BaseExceptionGroup):
        return _text(error.exceptions[0])
    if isinstance(error, RlabError):
        return str(error)
    if isinstance(error, OSError):
        if error.errno == errno.EBADF and not error.filename:
            return "standard input or output is closed, and this command needs it: give it a file, or /dev/null"
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRA_BY_PACKAGE:
        return install_command(error.name)
    return f"unexpected {type(error).__name__}: {error}; RLAB_DEBUG=1 shows the traceback"


async def wait_until(condition: Callable[[], bool], timeout_s: float, poll_s: float) -> None:
    """Poll until a condition holds, at most for `timeout_s`: for counters and files, whose changes set no event.

    Cancellation: harmless.
    """
    with anyio.move_on_after(timeout_s):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(poll_s)


async def wait_for_eof(fd: int = 0) -> None:
    """Wait until the other end of a pipe is closed: in a child process, this means that its parent has ended.

    Cancellation: harmless.
    """
    while True:
        await anyio.wait_readable(fd)
        if not os.read(fd, 4096):
            return
