"""A process with one consumer, to be killed or stopped by the benchmarks `stalls` and `twice`.

    python -m testbed.bench.kit.member 127.0.0.1:9876 group-name instance-name 3.0 queue file

It announces its client id in one line, as servers announce their address, and ends with its parent. With a file, its
listener appends the body of each message there, which has `NUMBER_BYTES`, before it returns: a write of the system,
so that also the last one before a SIGKILL is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import typer

from client import MessageExt, PushConsumer
from process.output import print_json
from process.runtime import run, wait_for_eof
from testbed.bench.kit.consumers import Listener, ignore
from testbed.bench.kit.echo import TOPIC

NUMBER_BYTES = 8


async def consume(
    name_server: str, group: str, instance_name: str, session_timeout_s: str, order: str, file: str = ""
) -> None:
    """Consume `TOPIC` until standard input ends, or until cancelled, and unregister."""
    timeout_s = float(session_timeout_s)
    with _listener(file) as listener:
        async with PushConsumer(
            name_server, group, order=order, instance_name=instance_name, session_timeout_s=timeout_s
        ) as consumer:
            await consumer.subscribe(TOPIC, listener)
            print_json({"kind": "member", "name": group, "address": consumer.client_id})
            await wait_for_eof()


@contextmanager
def _listener(file: str) -> Iterator[Listener]:
    if not file:
        yield ignore
        return
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def note(messages: Sequence[MessageExt]) -> None:
        os.write(fd, b"".join(message.body for message in messages))

    try:
        yield note
    finally:
        os.close(fd)


if __name__ == "__main__":
    with suppress(typer.Exit):  # a stop was requested
        run(lambda: consume(*sys.argv[1:]), endless=True)
