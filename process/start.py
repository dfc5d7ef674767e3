"""The first steps of a command: signals and descriptors, before the slow imports of all commands.

    a signal before the command has begun    the command ends as if stopped at once: `runtime.py` has the exit codes
    a second signal                          the process ends at once
    descriptor 0, 1 or 2 is closed           it is opened, else the next file or socket would get its number, and lines
                                             for stderr would be written to that. Reading input or printing a result is
                                             then an error; lines for stderr are lost

Only Python's own start comes before `prepare`.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDIN, _STDOUT, _STDERR = range(3)
_received: list[int] = []


def prepare() -> None:
    """Install signal handlers and open closed descriptors; the process of a command calls this first."""
    open_closed_descriptors()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _record_signal)


def _record_signal(number: int, frame: FrameType | None) -> None:
    if _received:
        os._exit(128 + number)
    _received.append(number)


def was_stopped() -> bool:
    """Return whether a signal came before the command installed its own handlers."""
    return bool(_received)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let both signals raise KeyboardInterrupt in the block, for commands without an event loop.

    Raises:
        KeyboardInterrupt: a signal came, perhaps before the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = {
        number: action for number in SIGNALS if (action := signal.getsignal(number)) not in (None, signal.SIG_IGN)
    }
    try:
        for number in handled:
            signal.signal(number, signal.default_int_handler)
        if _received:
            raise KeyboardInterrupt
        yield
    finally:
        for number, action in handled.items():
            signal.signal(number, action)


def open_closed_descriptors() -> None:
    """Open closed standard descriptors before a file or a socket gets their numbers.

    Standard input is opened write-only and standard output read-only, both on the null device, as the C library does
    for privileged programs. Using them is then an error: a command whose result is lost must not look successful.
    """
    for fd, flags in ((_STDIN, os.O_WRONLY), (_STDOUT, os.O_RDONLY), (_STDERR, os.O_RDWR)):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, flags)  # the lowest free number
            assert opened == fd, f"descriptor {fd} was closed, and {opened} is free"
            os.set_inheritable(fd, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(_STDIN, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        # Without a buffer, because Python would try to write its content again at exit.
        raw = os.fdopen(_STDOUT, "wb", buffering=0, closefd=False)
        sys.stdout = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = os.fdopen(_STDERR, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
