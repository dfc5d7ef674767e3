"""Reads and writes lines of files, pipes and terminals without blocking the event loop.

It uses no thread: a thread that waits for the other end of a pipe cannot be stopped, and the process would wait for it.
It makes no descriptor non-blocking: that would change the descriptor for every process that has it open, such as the
shell that shares the terminal.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import AsyncGenerator

import anyio
import anyio.lowlevel

from model.errors import MessageIllegal
from model.limits import MAX_BODY_BYTES

_CHUNK_BYTES = 64 * 1024


async def read_lines(fd: int) -> AsyncGenerator[tuple[int, bytes]]:
    """Read lines until the end of the input; yields the number of each line, from 1, and the line without its line end.

    Raises:
        MessageIllegal: a line is longer than a message body may be.

    Cancellation: harmless; data that was read ahead is lost.
    """
    number, rest = 0, b""
    async for chunk in _chunks(fd):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number += 1
            yield number, line.removesuffix(b"\r")
        if len(rest) > MAX_BODY_BYTES:
            raise MessageIllegal(
                f"line {number + 1} is longer than {MAX_BODY_BYTES} bytes: split it, or send a reference"
            )
    if rest:
        yield number + 1, rest.removesuffix(b"\r")


async def write_all(fd: int, data: bytes) -> None:
    """Write bytes, at the pace of the reader.

    Raises:
        OSError: the write failed; BrokenPipeError when the reader has closed the pipe.

    Cancellation: a part may have been written.
    """
    waits = _waits(fd)
    rest = memoryview(data)
    while rest:
        if waits:
            await anyio.wait_writable(fd)
        # A writable pipe accepts this many bytes without blocking.
        rest = rest[os.write(fd, rest[: select.PIPE_BUF] if waits else rest) :]


async def _chunks(fd: int) -> AsyncGenerator[bytes]:
    waits = _waits(fd)
    while True:
        await (anyio.wait_readable(fd) if waits else anyio.lowlevel.checkpoint())
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


def _waits(fd: int) -> bool:
    """Whether reads and writes of a descriptor may block.

    Files and devices such as the null device are always ready, and an event loop cannot wait for them.
    """
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
