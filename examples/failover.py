"""A master is killed, and another replica takes over: how long a send waits, and that no acknowledged message is lost.

    python examples/failover.py

The last line shows the longest send: the master has a lease of 2 s, and no replica takes over before it has ended.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import anyio

from rlab.client import ConsumeFrom, Message, MessageExt, Producer, PushConsumer
from rlab.client.admin.admin import Admin


@contextmanager
def rlab(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server; yields its process and its address."""
    command = (sys.executable, "-m", "rlab", *options, "--listen", "127.0.0.1:0", "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process, json.loads((process.stdout or sys.stdin).readline())["address"]
        finally:
            process.kill()


async def main(folder: str) -> None:
    """Kill the master between two of the messages, and receive all of them."""
    received, longest_s = set[bytes](), 0.0

    async def on_messages(messages: Sequence[MessageExt]) -> None:
        received.update(message.body for message in messages)

    with (
        rlab("namesrv", "--elections", f"{folder}/elections") as (_, names),
        rlab("broker", "--copies", "2", "--namesrv", names, "--data", f"{folder}/one") as (master, _),
        rlab("broker", "--replica-of", "broker-a", "--namesrv", names, "--data", f"{folder}/two"),
    ):
        consumer = PushConsumer(names, "billing", consume_from=ConsumeFrom.FIRST_OFFSET)
        async with Admin(names) as admin, Producer(names, retries=100, timeout_s=20) as producer, consumer:
            while len((await admin.replicas("broker-a")).row.in_sync) < 2:
                await anyio.sleep(0.1)
            await admin.create_topic("orders", queues=4)
            await consumer.subscribe("orders", on_messages)
            for n in range(200):
                if n == 100:
                    master.kill()
                began = time.perf_counter()
                await producer.send(Message("orders", b"order %d" % n))
                longest_s = max(longest_s, time.perf_counter() - began)
            with anyio.move_on_after(20):
                while len(received) < 200:
                    await anyio.sleep(0.1)
    print(f"sent 200, lost {200 - len(received)}, the longest send took {longest_s:.1f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        logging.disable(logging.WARNING)  # that the master is away
        anyio.run(main, directory)
