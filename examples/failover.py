"""A master is killed, and another replica takes over: how long a send waits, and that no acknowledged message is lost.

    python examples/failover.py

The last line shows the longest send: the master has a lease of 2 s, and no replica takes over before it has ended.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Sequence
from urllib.request import Request, urlopen

import anyio

from rlab.client import ConsumeFrom, Message, MessageExt, Producer, PushConsumer
from rlab.client.admin.admin import Admin

COMMAND = "rlab cluster --brokers 1 --copies 2 --topic orders --port 0 --control 0 --json"


async def main(names: str, kill: Request) -> None:
    """Kill the master, which is the first replica, between two of the messages, and receive all of them."""
    received, longest_s = set[bytes](), 0.0

    async def on_messages(messages: Sequence[MessageExt]) -> None:
        received.update(message.body for message in messages)

    consumer = PushConsumer(names, "billing", consume_from=ConsumeFrom.FIRST_OFFSET)
    async with Admin(names) as admin, Producer(names, retries=100, timeout_s=20) as producer, consumer:
        while len((await admin.replicas("broker-a")).row.in_sync) < 2:
            await anyio.sleep(0.1)
        await consumer.subscribe("orders", on_messages)
        for n in range(200):
            if n == 100:
                await anyio.to_thread.run_sync(urlopen, kill)
            began = time.perf_counter()
            await producer.send(Message("orders", b"order %d" % n))
            longest_s = max(longest_s, time.perf_counter() - began)
        with anyio.move_on_after(20):
            while len(received) < 200:
                await anyio.sleep(0.1)
    print(f"sent 200, lost {200 - len(received)}, the longest send took {longest_s:.1f} s")


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # that the master is away
    command = [sys.executable, "-m", *COMMAND.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as cluster:
        started = json.loads((cluster.stdout or sys.stdin).readline())
        kill = f"http://{started['control']}/v1/processes/broker-a-1/kill"
        try:
            anyio.run(main, started["address"], Request(kill, b"", {"Authorization": f"Bearer {started['token']}"}))
        finally:
            cluster.terminate()
