"""What the features of our client are written with: each gets a topic for itself, and a line with what came of it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread

from client import Admin, ConsumeFrom, Message, MessageExt, Producer, PushConsumer
from model.errors import RlabError
from model.subscription import Expression
from process.runtime import wait_until

pause = threading.Event().wait
FIRST = ConsumeFrom.FIRST_OFFSET
TIMEOUT_S = 90
RUN = f"{time.time_ns() // 1_000_000 % 100_000_000:x}"
server = sys.argv[1]
only = sys.argv[2:]
_FEATURES: list[tuple[str, Callable[[str, Producer], Awaitable[None]]]] = []


async def rest(seconds: float) -> None:
    """Let real time pass at a real server."""
    await anyio.to_thread.run_sync(pause, seconds)


def feature(name: str) -> Callable[[Callable[[str, Producer], Awaitable[None]]], Any]:
    """Run a function as a feature, with a topic of two queues for itself and a producer."""
    return lambda run: _FEATURES.append((name, run))


class Got(list[MessageExt]):
    """The messages that a listener got; it fails for the bodies of `fails` the first time."""

    def __init__(self, *fails: bytes) -> None:
        super().__init__()
        self.fails = list(fails)

    def __call__(self, messages: Sequence[MessageExt]) -> None:
        for message in messages:
            if message.body in self.fails and not message.times_delivered:
                raise ValueError("not yet")
            self.append(message)

    async def until(self, n: int, *, more_s: float = 0.3) -> list[bytes]:
        """Wait for so many messages, and a moment longer for one too many; returns their bodies, sorted."""
        await wait_until(lambda: len(self) >= n, TIMEOUT_S, 0.05)
        await rest(more_s)
        assert len(self) == n, f"{len(self)} messages instead of {n}"
        return sorted(message.body for message in self)


@asynccontextmanager
async def consuming(topic: str, got: Got, expression: Expression = "*", group: str = "", **options: Any) -> Any:
    """Consume a topic."""
    options = {"consume_from": FIRST, **options}
    async with PushConsumer(server, group or f"g-{topic}", **options) as consumer:
        await consumer.subscribe(topic, got, expression)
        yield consumer


async def send(producer: Producer, topic: str, *bodies: bytes) -> None:
    """Send bodies, one after another."""
    for body in bodies:
        await producer.send(Message(topic, body))


async def main() -> None:
    """Run them all."""
    async with Producer(server) as producer, Admin(server) as admin:
        for number, (name, run) in enumerate(_FEATURES):
            if only and not any(each in name for each in only):
                continue
            topic = f"ours-{number}-{RUN}"
            outcome = "ok"
            try:
                await admin.create_topic(topic, 2)
                await run(topic, producer)
            except (RlabError, AssertionError, TimeoutError, LookupError, ValueError) as error:
                outcome = f"{type(error).__name__} {str(error)[:150]}".strip().replace("\n", " ")
            sys.stdout.write(f"feature\t{name}\t{outcome}\n")
            sys.stdout.flush()
