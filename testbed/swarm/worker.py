"""A part of a swarm in its own process: `python -m testbed.swarm.worker`, started by `testbed/swarm/parts.py`.

With `--prompt`, each message is reported before its listener returns, so that all messages that a killed part may have
committed are known.

Standard input: the options as one line of JSON, then a line `produce`, then a line `quiet`; at its end the consumers
leave. Standard output: the lines of `testbed/swarm/wire.py`, with the states `joined`, `produce` and `quiet`. Errors go
to standard error.
"""

from __future__ import annotations

import json
import os
import select
import sys
from contextlib import suppress
from functools import partial

import anyio
import typer

from process.lines import read_lines
from process.runtime import run
from remoting.tasks import background_tasks
from testbed.swarm.members import Swarm, SwarmOptions, run_swarm
from testbed.swarm.wire import Bunch, state_line

FLUSH_INTERVAL_S = 0.05


class PromptBunch(Bunch):
    """Writes a line to standard output for each message at once."""

    def received(self, producer: int, number: int) -> None:
        """See `SwarmSink`; returns when the line is written."""
        super().received(producer, number)
        line = self.next_line()
        while line:
            # The loop has made the socket non-blocking, and the line has to be read before the listener returns.
            select.select([], [1], [])
            with suppress(BlockingIOError):
                line = line[os.write(1, line) :]


async def work(stdin: int = 0, stdout: int = 1, bunch: Bunch | None = None) -> None:
    """Run a part of a swarm until the end of the input, with descriptors for commands and for lines.

    `bunch` collects its reports.

    Raises:
        ConnectFailed: no name server answers.

    Cancellation: the consumers unregister.
    """
    lines = read_lines(stdin)
    async for _, line in lines:
        options = SwarmOptions(**json.loads(line))
        break
    else:
        return
    bunch = bunch or Bunch()
    async with background_tasks() as tasks:
        tasks.start_soon(_flush_regularly, bunch, stdout)
        async with run_swarm(options, bunch) as swarm:
            _write(stdout, bunch.next_line() + state_line("joined"))
            async for _, line in lines:
                await _obey(line, swarm)
                _write(stdout, bunch.next_line() + state_line(line.decode()))
    _write(stdout, bunch.next_line())


async def _obey(command: bytes, swarm: Swarm) -> None:
    if command == b"produce":
        swarm.start_producing()
    elif command == b"quiet":
        await swarm.fall_quiet()
    else:
        raise AssertionError(f"a part of a swarm cannot {command!r}")


async def _flush_regularly(bunch: Bunch, stdout: int) -> None:
    while True:
        await anyio.sleep(FLUSH_INTERVAL_S)
        _write(stdout, bunch.next_line())


def _write(stdout: int, data: bytes) -> None:
    # Blocking on purpose: the observing process reads all the time, and a part that cannot report must not continue.
    while data:
        data = data[os.write(stdout, data) :]


def main() -> None:
    """Entry point of the process."""
    try:
        run(partial(work, bunch=PromptBunch() if "--prompt" in sys.argv else None), endless=True)
    except typer.Exit as error:
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
