"""A member of the soak in a process of its own, which may be killed at any moment.

It is a part of a swarm (`testbed/swarm/worker.py`) that reports each message before its listener returns. So the
messages that it may have committed are known when it is killed, and the books need no allowance for it.
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from functools import partial

import typer

from process.runtime import run
from testbed.swarm.wire import Bunch
from testbed.swarm.worker import work


class PromptBunch(Bunch):
    """Writes a line for each message as it comes."""

    def received(self, producer: int, number: int) -> None:
        """See `SwarmSink`; returns when the line is written."""
        super().received(producer, number)
        line = self.take_line()
        while line:
            # The loop has made the socket one that does not wait, and the books must have the line before we go on.
            select.select([], [1], [])
            with suppress(BlockingIOError):
                line = line[os.write(1, line) :]


def main() -> None:
    """Entry point of the process."""
    try:
        run(partial(work, bunch=PromptBunch()), endless=True)
    except typer.Exit as error:
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
