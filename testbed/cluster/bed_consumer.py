"""A consumer of a test cluster in its own process, for `rlab cluster --console`. It receives and discards messages.

    python -P -m testbed.cluster.bed_consumer HOST:PORT GROUP TOPIC

It announces its client id as a daemon announces its address. It ends when its standard input is closed.
"""

from __future__ import annotations

import sys
from typing import Any

import typer

from process.output import print_json
from process.runtime import run, wait_for_eof


def main() -> None:
    """Run it."""
    try:
        run(_consume, endless=True)
    except typer.Exit as end:
        sys.exit(end.exit_code)


async def _consume() -> None:
    """Consume until the end of standard input."""
    from client import PushConsumer

    name_server, group, topic = sys.argv[1:]

    async def listen(messages: Any) -> None:
        """Discard them."""

    async with PushConsumer(name_server, group=group) as consumer:
        await consumer.subscribe(topic, listen)
        print_json({"address": consumer.client_id})
        await wait_for_eof()


if __name__ == "__main__":
    main()
