"""A part of a swarm in a process of its own: `python -m cli.swarm.worker`, started by `cli/swarm/parts.py`.

Standard input: the options as one line of JSON, then a line `produce`, then a line `quiet`; its end means to leave.
Standard output: the lines of `cli/swarm/wire.py`, with the states `joined` and `quiet`. Whatever goes wrong is said on
standard error.
"""

from __future__ import annotations

import json
import os
import sys

import anyio
import typer

from cli.messages.lines import read_lines
from cli.runtime import run
from cli.swarm.wire import Bunch, state_line
from remoting.tasks import background_tasks
from simulation.swarm.swarm import Swarm, SwarmOptions, run_swarm

FLUSH_INTERVAL_S = 0.05


async def work(stdin: int = 0, stdout: int = 1) -> None:
    """Be a part of a swarm until the end of the input.

    Args:
        stdin: descriptor of commands.
        stdout: descriptor for what happens.

    Raises:
        ConnectFailed: no name server answers.

    Cancellation: the consumers leave properly.
    """
    lines = read_lines(stdin)
    async for _, line in lines:
        options = SwarmOptions(**json.loads(line))
        break
    else:
        return
    bunch = Bunch()
    async with background_tasks() as tasks:
        tasks.start_soon(_keep_telling, bunch, stdout)
        async with run_swarm(options, bunch) as swarm:
            _tell(stdout, bunch.take_line() + state_line("joined"))
            async for _, line in lines:
                await _obey(line, swarm)
                _tell(stdout, bunch.take_line() + state_line(line.decode()))
    _tell(stdout, bunch.take_line())


async def _obey(command: bytes, swarm: Swarm) -> None:
    if command == b"produce":
        swarm.start_producing()
    elif command == b"quiet":
        await swarm.fall_quiet()
    else:
        raise AssertionError(f"a part of a swarm cannot {command!r}")


async def _keep_telling(bunch: Bunch, stdout: int) -> None:
    while True:
        await anyio.sleep(FLUSH_INTERVAL_S)
        _tell(stdout, bunch.take_line())


def _tell(stdout: int, data: bytes) -> None:
    # Blocking, on purpose: whoever watches reads all the time, and a part that could not tell must not go on.
    while data:
        data = data[os.write(stdout, data) :]


def main() -> None:
    """Entry point of the process."""
    try:
        run(work, endless=True)
    except typer.Exit as error:
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
