"""Runs the coroutine of a command on uvloop, and turns what comes of it into an exit code.

    it returned                            0, or 1 if the command says that it failed
    it raised one of the project's errors  1, and one line on stderr
    SIGINT or SIGTERM                      it is cancelled and cleans up; then 0 if it would have run for ever, else 1
    the same signal again                  the process ends at once

Nothing prints a traceback, not even a bug, except with RLAB_DEBUG=1: it is for whoever repairs the program.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import typer
import uvloop

from cli.output import print_error
from model.errors import RlabError

if TYPE_CHECKING:
    from client.admin.admin import Admin

T = TypeVar("T")

FAILED = 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Stopped(Exception):
    """A signal ended the command, and it has cleaned up."""


def run(main: Callable[[], Coroutine[Any, Any, T]], *, endless: bool = False, verbose: bool = False) -> T:
    """Run a command's coroutine to its end.

    Args:
        main: makes the coroutine.
        endless: whether a signal is the ordinary way to end it.
        verbose: log what happens, and not only what is wrong.

    Returns:
        What it returned.

    Raises:
        typer.Exit: it failed or was stopped; what there is to say has been said.
    """
    debug = bool(os.environ.get("RLAB_DEBUG"))
    level = logging.DEBUG if debug else logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    meant = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_until_signal(main))
    except _Stopped:
        if endless:
            raise typer.Exit(0) from None
        print_error("stopped before it was done")
        raise typer.Exit(FAILED) from None
    except (RlabError, OSError, BaseExceptionGroup) as error:
        if debug:
            raise
        print_error(_text(error))
        raise typer.Exit(FAILED) from None
    finally:
        for number, handler in meant.items():
            signal.signal(number, handler)


def ask(name_servers: str, question: Callable[[Admin], Awaitable[T]]) -> T:
    """Run a question to a cluster, such as `lambda admin: admin.groups()`, and return its answer.

    Raises:
        typer.Exit: it failed or was stopped; the error has been printed.
    """
    from client.admin.admin import Admin

    async def main() -> T:
        async with Admin(name_servers) as admin:
            return await question(admin)

    return run(main)


@contextmanager
def exit_with_error() -> Iterator[None]:
    """Turn the project's errors and Ctrl-C into exit code 1 and one line: for commands that run no event loop."""
    try:
        yield
    except KeyboardInterrupt:
        print_error("stopped before it was done")
        raise typer.Exit(FAILED) from None
    except (RlabError, OSError) as error:
        if os.environ.get("RLAB_DEBUG"):
            raise
        print_error(_text(error))
        raise typer.Exit(FAILED) from None


def report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tell of an error that nobody expected: what `main` puts in the place of `sys.excepthook`."""
    if os.environ.get("RLAB_DEBUG"):
        sys.__excepthook__(kind, error, trace)
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

    # They stay until the loop is closed, so that what ends slowly can still be ended at once.
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await main()
    except asyncio.CancelledError:
        if not received:
            raise
        raise _Stopped from None


def _text(error: BaseException) -> str:
    """What to tell the user about an error."""
    if isinstance(error, BaseExceptionGroup):
        return _text(error.exceptions[0])
    if isinstance(error, RlabError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return f"unexpected {type(error).__name__}: {error}; RLAB_DEBUG=1 shows where it comes from"


async def wait_for_eof(fd: int = 0) -> None:
    """Wait until the other end of a pipe is closed: how a child process notices that its parent is gone.

    Cancellation: harmless.
    """
    while True:
        await anyio.wait_readable(fd)
        if not os.read(fd, 4096):
            return
