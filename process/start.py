"""The first moments of a command: its signals and descriptors, before the imports of all commands, which take a while.

    a signal before the command has begun    it ends as one that is stopped at once: `runtime.py` has the exit codes
    a second signal                          the process ends at once
    descriptor 0, 1 or 2 is closed           it is opened, or the next file or socket would get its number, and lines
                                             for stderr be written into that. To read input or to print a result is an
                                             error then; what goes to stderr is lost

Only the start of Python itself comes before `prepare`.
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
    """Take signals, and open what is closed: the first thing that the process of a command does."""
    open_closed_descriptors()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _note)


def _note(number: int, frame: FrameType | None) -> None:
    if _received:
        os._exit(128 + number)
    _received.append(number)


def was_stopped() -> bool:
    """Whether a signal came before the command took them itself."""
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
    taken = {number: action for number in SIGNALS if (action := signal.getsignal(number)) not in (None, signal.SIG_IGN)}
    try:
        for number in taken:
            signal.signal(number, signal.default_int_handler)
        if _received:
            raise KeyboardInterrupt
        yield
    finally:
        for number, action in taken.items():
            signal.signal(number, action)


def open_closed_descriptors() -> None:
    """Open standard descriptors that are closed, before a file or a socket gets their numbers.

    Input and output get the null device the wrong way round, as the C library does for privileged programs, so that
    using them is an error: a command that has its result printed into nothing would look as if it had worked.
    """
    for fd, flags in ((_STDIN, os.O_WRONLY), (_STDOUT, os.O_RDONLY), (_STDERR, os.O_RDWR)):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, flags)  # the lowest number that is free
            assert opened == fd, f"descriptor {fd} was closed, and {opened} is free"
            os.set_inheritable(fd, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(_STDIN, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        # Without a buffer, whose content Python would try to write again at its end.
        raw = os.fdopen(_STDOUT, "wb", buffering=0, closefd=False)
        sys.stdout = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = os.fdopen(_STDERR, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
