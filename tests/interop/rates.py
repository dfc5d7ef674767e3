"""Sends and consumption at full speed on RocketMQ's broker, by its client for Java and by ours in turns.

As a program it is our client's part: `rates.py NAME_SERVER sends SECONDS` or `rates.py NAME_SERVER GROUP MESSAGES`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from statistics import median

import anyio
import anyio.to_thread

from client import ConsumeFrom, Message, MessageExt, Producer, PushConsumer
from process.runtime import new_loop
from tests.interop.servers import RLAB, Servers, pause, say

TOPIC, QUEUES, BODY = "sends", 8, bytes(256)
DEPTH, WARM_S, SENDS_S, CONSUMED = 64, 2, 6, 50_000


async def send_for(name_server: str, seconds: float) -> float:
    """The sends a second of 64 tasks, each of which waits for its answer."""
    sent = 0
    async with Producer(name_server) as producer:

        async def work() -> None:
            nonlocal sent
            while True:
                await producer.send(Message(TOPIC, BODY))
                sent += 1

        async with anyio.create_task_group() as tasks:
            for _ in range(DEPTH):
                tasks.start_soon(work)
            await anyio.to_thread.run_sync(pause, WARM_S)
            before, began = sent, anyio.current_time()
            await anyio.to_thread.run_sync(pause, seconds)
            rate = (sent - before) / (anyio.current_time() - began)
            tasks.cancel_scope.cancel()
    return rate


async def consume(name_server: str, group: str, wanted: int) -> float:
    """The messages a second that a listener gets, from the first one on."""
    seen, began = 0, 0.0
    over = anyio.Event()

    async def listen(messages: Sequence[MessageExt]) -> None:
        nonlocal seen, began
        began = began or anyio.current_time()
        seen += len(messages)
        if seen >= wanted:
            over.set()

    async with PushConsumer(name_server, group, consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        await consumer.subscribe(TOPIC, listen)
        await over.wait()
        return wanted / (anyio.current_time() - began)


def rates(java: list[str], servers: Servers, turns: int) -> dict[str, str]:
    """What is measured -> the medians a second of Java's client and of ours, and our ratio to Java's."""
    java = [each for each in java if "Tiered" not in each]
    ours = [sys.executable, "-m", "tests.interop.rates"]
    found: dict[tuple[str, str], list[int]] = {}
    with servers() as name_server:
        create = [*RLAB, "topic", "create", TOPIC, "--queues", str(QUEUES), "--namesrv", name_server]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        for turn in range(turns):
            for client, command in (("Java", [*java, "Sends", name_server]), ("ours", [*ours, name_server, "sends"])):
                found.setdefault(("sends, 64 at a time", client), []).append(_rate([*command, str(SENDS_S)]))
            for client, command in (("Java", [*java, "Consumes", name_server]), ("ours", [*ours, name_server])):
                group = f"rates-{client}-{turn}"
                found.setdefault(("push consumer", client), []).append(_rate([*command, group, str(CONSUMED)]))
    table: dict[str, str] = {}
    for what in dict.fromkeys(what for what, _ in found):
        stock, own = median(found[what, "Java"]), median(found[what, "ours"])
        table[what] = f"Java {stock:,.0f}/s, ours {own:,.0f}/s: {own / stock:.2f}"
    say(f"{table}, of {found}")
    return table


def _rate(command: list[str]) -> int:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return int(done.stdout.split("rate\t")[1])


async def main() -> None:
    """Our client's part."""
    server, what, number = sys.argv[1:]
    rate = await (send_for(server, float(number)) if what == "sends" else consume(server, what, int(number)))
    sys.stdout.write(f"rate\t{rate:.0f}\n")


if __name__ == "__main__":
    anyio.run(main, backend_options={"loop_factory": new_loop})
