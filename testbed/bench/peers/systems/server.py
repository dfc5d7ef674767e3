"""Runs the server of a peer as a child process, on a free port of loopback, with its output in a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from model.errors import ServiceNotAvailable

_START_S = 60.0
_STOP_S = 15.0
_POLL_S = 0.05
_TAIL_CHARS = 500


@asynccontextmanager
async def server_process(name: str, command: Sequence[str], port: int, folder: Path) -> AsyncIterator[str]:
    """Run a server while the block runs; yields its address once it listens on the port.

    Raises:
        ServiceNotAvailable: it ended, or did not listen in time; with the end of its output.
    """
    output = folder / "output.txt"
    with output.open("wb") as file:
        process = await anyio.open_process(command, stdout=file, stderr=file, cwd=folder, start_new_session=True)
        try:
            with anyio.move_on_after(_START_S):
                while process.returncode is None and not await _listens(port):  # noqa: ASYNC110 - it has no notification
                    await anyio.sleep(_POLL_S)
            if process.returncode is not None or not await _listens(port):
                tail = output.read_text(errors="replace")[-_TAIL_CHARS:].strip()
                raise ServiceNotAvailable(f"{name} does not listen on port {port}: {tail or 'it printed nothing'}")
            yield f"127.0.0.1:{port}"
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.terminate()
                    with anyio.move_on_after(_STOP_S):
                        await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()


async def _listens(port: int) -> bool:
    try:
        stream = await anyio.connect_tcp("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True
