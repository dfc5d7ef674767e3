"""A broker with a replaced file layer, which the benchmarks of the store start as a child process.

    python -m testbed.bench.disk.replaced_disk optional --listen 127.0.0.1:0 --namesrv HOST:PORT --data DIR
    python -m testbed.bench.disk.replaced_disk slow ... --flush sync

Only the file layer of the message store differs (`broker/store/disk/files.py`); the rest is the ordinary broker.

- optional: the real files; from the signal `DISCARD` until `KEEP` nothing is written or synced. So both sides of
  store-async are the same process and the same connection: two equal processes can differ by half for as long as they
  run, because of the cores on which the system places them.
- slow: each sync takes 4 ms longer, so that the grouping of messages per sync shows even on a machine whose disk
  answers a sync from a cache.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from broker.broker import run_broker
from broker.config import BrokerConfig
from broker.store.disk.files import Files
from model.record import FlushMode
from process.output import print_json
from process.runtime import run, wait_for_eof

SLOW_SYNC_S = 0.004
"""About the time of a sync on a solid-state disk without power-loss protection."""


KEEP, DISCARD = signal.SIGUSR1, signal.SIGUSR2


class OptionalFiles(Files):
    """The real files, which can be switched off: then writes are dropped, and only messages in memory can be read."""

    writes = True

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """Write, or claim success."""
        return super().pwrite(fd, data, position) if self.writes else len(data)

    def sync(self, fd: int) -> None:
        """Sync, or claim success."""
        if self.writes:
            super().sync(fd)

    def listen(self) -> None:
        """Switch the files on and off when the signals `KEEP` and `DISCARD` arrive."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(KEEP, setattr, self, "writes", True)
        loop.add_signal_handler(DISCARD, setattr, self, "writes", False)


class SlowFiles(Files):
    """The real files, with syncs that take `SLOW_SYNC_S` longer."""

    def sync(self, fd: int) -> None:
        """Sync, slowly."""
        super().sync(fd)
        # Like a slow disk, this blocks the thread of the sync, not the event loop.
        Event().wait(SLOW_SYNC_S)


DISKS: dict[str, type[Files]] = {"optional": OptionalFiles, "slow": SlowFiles}


async def _serve(config: BrokerConfig) -> None:
    if isinstance(config.files, OptionalFiles):
        config.files.listen()
    async with run_broker(config) as running:
        await running.broker.topics.registration.wait_attempted()
        print_json({"kind": "broker", "name": running.name, "address": running.address})
        await wait_for_eof()


def main(
    disk: str,
    namesrv: Annotated[str, typer.Option()],
    data: Annotated[Path, typer.Option()],
    listen: Annotated[str, typer.Option()],
    flush: Annotated[FlushMode, typer.Option()] = FlushMode.ASYNC,
    json: Annotated[bool, typer.Option("--json")] = True,
    exit_with_stdin: Annotated[bool, typer.Option("--exit-with-stdin")] = True,
) -> None:
    """Run a broker until standard input is closed.

    `--json` and `--exit-with-stdin` change nothing: callers pass them because `rlab broker` needs them.
    """
    config = BrokerConfig(
        name="broker-a", data_dir=data, name_servers=(namesrv,), listen=listen, files=DISKS[disk](), flush=flush
    )
    run(lambda: _serve(config), endless=True)


if __name__ == "__main__":
    typer.run(main)
