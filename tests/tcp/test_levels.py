"""Real processes under churn: memory and descriptors of brokers and name servers level off.

Some seconds in every test run, a minute with RLAB_TORTURE_S=60 (`make torture`). Consumers come and go several times a
second, and strangers connect, say something senseless or nothing, and are gone.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event

import pytest

from remoting.address import parse_address
from simulation.checks.leaks import LeakDetector, Margin
from simulation.checks.process_usage import process_usage
from tests.tcp.rlab_process import command, daemon, environment

pytestmark = pytest.mark.tcp

DURATION_S = int(os.environ.get("RLAB_TORTURE_S", "6"))
INTERVAL_S = 0.25
NONSENSE = [b"", b"\x00\x00\x00\x20half a frame", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00"]
TIMES = 10
"""So often at each address for each sample."""
RSS_MARGIN = Margin(1.03, 1, trend=False)
"""MiB, of some 30 to 45."""
BROKER = """
import sys
from pathlib import Path
import anyio
from broker.config import BrokerConfig
from broker.broker import run_broker
from broker.store.disk.options import StoreOptions

async def main(name, name_servers):
    # The budgets of a broker are larger than what a minute stores: its memory would grow all the time, and rightly.
    store = StoreOptions(segment_bytes=2**18, tail_bytes=2**16, index_cache_bytes=2**16)
    options = {"data_dir": Path(name), "name_servers": tuple(name_servers.split(",")), "store": store}
    async with run_broker(BrokerConfig(name=name, listen="127.0.0.1:0", **options)) as running:
        print(running.address, flush=True)
        await anyio.sleep_forever()

anyio.run(main, *sys.argv[1:])
"""


def bother(address: str) -> None:
    """Connect, and go: at once, in the middle of a frame, or after nonsense.

    The last ones wait until the server has ended the connection, too. It comes to strangers in turn, so it has done
    with all of them then; one that is slow for a moment would still have some, and the next sample would count them.
    """
    for said in NONSENSE * TIMES:
        with _stranger(address) as stranger:
            stranger.sendall(said)
    for said in NONSENSE:
        with _stranger(address) as stranger, suppress(ConnectionResetError):  # it need not read all that was said
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(4096):  # what is wrong with a frame is said before the end
                pass


def _stranger(address: str) -> socket.socket:
    return socket.create_connection(parse_address(address), timeout=10)


@contextmanager
def small_broker(name: str, name_servers: str, cwd: Path) -> Iterator[tuple[int, str]]:
    """Run a broker with little memory for messages; gives its process id and its address."""
    arguments = [sys.executable, "-c", BROKER, name, name_servers]
    # It logs every stranger, which is right, and of no interest here.
    out, no_err = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(arguments, stdout=out, stderr=no_err, cwd=cwd, env=environment(), text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.kill()


def note(levels: LeakDetector, pids: dict[str, int]) -> None:
    sample: dict[str, float] = {}
    for name, pid in pids.items():
        usage = process_usage(pid)
        sample |= {f"{name}: descriptors": usage.fds, f"{name}: RSS MiB": usage.rss_bytes / 2**20}
    levels.note(sample)


def test_memory_and_descriptors_of_real_servers_level_off(tmp_path: Path) -> None:
    with ExitStack() as stack:
        pids, addresses = {}, []
        for name in ("namesrv-1", "namesrv-2"):
            server = stack.enter_context(daemon("namesrv", "--listen", "127.0.0.1:0", cwd=tmp_path))
            pids[name] = server.process.pid
            addresses.append(server.address)
        name_servers = ",".join(addresses)
        for name in ("broker-a", "broker-b"):
            pids[name], address = stack.enter_context(small_broker(name, name_servers, tmp_path))
            addresses.append(address)
        margins = {f"{name}: RSS MiB": RSS_MARGIN for name in pids}
        levels = LeakDetector(warm_up=int(DURATION_S / INTERVAL_S / 4), margins=margins)
        swarm = stack.enter_context(
            subprocess.Popen(
                command(
                    f"swarm --namesrv {name_servers} --consumers 8 --producers 2 --rate 100 --size 20 "
                    f"--churn 0.1 --duration {DURATION_S} --seed 7 --json".split()
                ),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=tmp_path,
                env=environment(),
                text=True,
            )
        )
        while swarm.poll() is None:
            note(levels, pids)
            for address in addresses:
                bother(address)
            Event().wait(INTERVAL_S)
        said, errors = swarm.communicate()
    assert swarm.returncode == 0, said + errors
    assert len(levels.samples) > DURATION_S, "the swarm ended early"
    for name in sorted(levels.samples[0]):  # pytest -s shows them
        values = [sample[name] for sample in levels.samples]
        sys.stdout.write(f"{name}: {' '.join(f'{value:.4g}' for value in values[:: max(1, len(values) // 20)])}\n")
    assert levels.grown() == []
