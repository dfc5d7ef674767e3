"""A cluster of real processes for the tests of the pipeline: what they do to it, in one line each."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from client import Admin, Message, Producer
from pipeline.wire import WireClient
from tests.tcp.rlab_process import Daemon, daemon, wait_until

IN_FLIGHT = 2_000
BATCH = 512


class ClusterProcesses:
    """A name server and one broker, `broker-a`.

    Attributes:
        address: of the name server.
    """

    def __init__(self, cwd: Path, stack: ExitStack, broker_options: Sequence[str]) -> None:
        self._cwd, self._stack, self._options = cwd, stack, broker_options
        self.address = stack.enter_context(daemon("namesrv", "--listen", "127.0.0.1:0", cwd=cwd)).address
        self._broker = self._start_broker()

    def _start_broker(self) -> Daemon:
        arguments = ["broker", "--listen", "127.0.0.1:0", "--name", "broker-a", "--namesrv", self.address]
        broker = self._stack.enter_context(daemon(*arguments, "--data", "data", *self._options, cwd=self._cwd))
        self._wait_registered(broker.address)
        return broker

    def _wait_registered(self, address: str) -> None:
        with WireClient(self.address) as client:
            wait_until(lambda: client.masters().get("broker-a") == address)

    def kill_broker(self) -> None:
        self._broker.signal(signal.SIGKILL)

    def restart_broker(self) -> None:
        """Start it again on its data, at another address."""
        before = self._broker.address
        self._broker = self._start_broker()
        assert self._broker.address != before

    def create_topic(self, topic: str, queues: int) -> None:
        async def run() -> None:
            async with Admin(self.address) as admin:
                await admin.create_topic(topic, queues=queues)

        asyncio.run(run())

    def add_queues(self, topic: str, queues: int) -> None:
        async def run() -> None:
            async with Admin(self.address) as admin:
                await admin.scale_topic(topic, read=queues, write=queues)

        asyncio.run(run())

    def delete_topic(self, topic: str) -> None:
        async def run() -> None:
            async with Admin(self.address) as admin:
                await admin.delete_topic(topic)

        asyncio.run(run())

    def groups(self) -> set[str]:
        async def run() -> set[str]:
            async with Admin(self.address) as admin:
                return {summary.group for summary in await admin.groups()}

        return asyncio.run(run())

    def committed(self, group: str) -> dict[int, int]:
        """Queue id -> committed offset."""

        async def run() -> dict[int, int]:
            async with Admin(self.address) as admin:
                info = await admin.group(group)
                return {one.queue.queue_id: one.committed or 0 for one in info.queues}

        return asyncio.run(run())

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages; they are spread over the queues in turn."""

        async def run() -> None:
            async with Producer(self.address) as producer:
                for start in range(0, len(messages), IN_FLIGHT):
                    await asyncio.gather(*(producer.send(message) for message in messages[start : start + IN_FLIGHT]))

        asyncio.run(run())

    def send_bodies(self, topic: str, bodies: Sequence[bytes]) -> None:
        """Send many messages quickly; each queue gets as many as any other, or one batch more."""

        async def run() -> None:
            async with Producer(self.address) as producer:
                for start in range(0, len(bodies), BATCH):
                    await producer.send_batch([Message(topic, body) for body in bodies[start : start + BATCH]])

        asyncio.run(run())

    def send_numbers(self, topic: str, numbers: range, tag: str = "") -> None:
        """Send messages whose bodies are these numbers."""
        self.send([Message(topic, str(number).encode(), tags=tag) for number in numbers])


@contextmanager
def cluster_processes(cwd: Path, *broker_options: str) -> Iterator[ClusterProcesses]:
    """Run a cluster as long as the block."""
    with ExitStack() as stack:
        yield ClusterProcesses(cwd, stack, broker_options)
