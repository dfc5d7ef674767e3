from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from model.errors import ServiceNotAvailable
from testbed.bench.peers.systems.server import server_process
from testbed.cluster.ports import free_port

pytestmark = [pytest.mark.process, pytest.mark.tcp, pytest.mark.asyncio]
LISTEN = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\nwhile True: s.accept()"


async def test_a_server_listens_while_the_block_runs_and_not_after_it(tmp_path: Path) -> None:
    port = free_port()
    async with server_process("x", [sys.executable, "-S", "-c", LISTEN, str(port)], port, tmp_path) as address:
        assert address == f"127.0.0.1:{port}"
        await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
    with pytest.raises(OSError, match="All connection"):
        await anyio.connect_tcp("127.0.0.1", port)


async def test_a_server_that_ends_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", "raise SystemExit('no disk for you')"]
    with pytest.raises(ServiceNotAvailable, match=r"x does not listen on port .*: no disk for you"):
        async with server_process("x", command, free_port(), tmp_path):
            pass
