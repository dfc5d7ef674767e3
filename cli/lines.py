"""Lines from a file, a pipe or a terminal, without blocking the event loop on any of them."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator

import anyio
import anyio.lowlevel

from model.errors import MessageIllegal
from model.limits import MAX_BODY_BYTES

_CHUNK_BYTES = 64 * 1024


async def read_lines(fd: int) -> AsyncGenerator[tuple[int, bytes]]:
    """Read lines until the end of the input.

    Args:
        fd: open file descriptor. It is not made non-blocking: that would also change it for whoever else has it open,
            for instance the shell that shares its terminal.

    Yields:
        The number of a line, from 1, and the line without its line end.

    Raises:
        MessageIllegal: a line is longer than a message body may be.

    Cancellation: harmless; what was read ahead is lost.
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


async def _chunks(fd: int) -> AsyncGenerator[bytes]:
    mode = os.fstat(fd).st_mode
    # Files and devices such as /dev/null are always ready, and no event loop can wait for them.
    waits = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
    while True:
        await (anyio.wait_readable(fd) if waits else anyio.lowlevel.checkpoint())
        chunk = os.read(fd, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk
