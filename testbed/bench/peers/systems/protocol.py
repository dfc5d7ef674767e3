"""System: the protocol of a system that is compared, with its server, its sends, its consumption and its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

OURS = "rlab"
"""The name of rebalance-lab among the systems."""
TOPIC = "bench"
LATENCY = "latency"
"""The kind of the measurements `latency-20000` and so on: messages per second."""
QUEUES = 8
"""Queues or partitions of the topic, where a system has them."""
SENDERS = 64
"""Connections of a client that cannot have several requests outstanding on one."""

Take = Callable[[Sequence[bytes]], None]
"""Gets the bodies of each message, or of each batch, as the consumer passes them on. Called in any one thread."""


class Settings(NamedTuple):
    """The settings that affect the figures."""

    server: str
    client: str


class Sender(Protocol):
    """A connected producer."""

    async def send(self, body: bytes) -> None:
        """Send a message and wait until the server has acknowledged it."""
        ...

    async def send_batch(self, bodies: Sequence[bytes]) -> None:
        """Send several messages together and wait until all are acknowledged."""
        ...


class System(Protocol):
    """One system."""

    @property
    def name(self) -> str:
        """The name in tables: the client's name, because a server may have several clients."""
        ...

    @property
    def server(self) -> str:
        """The name of its server, a word of `--peers`; systems with one name share the server."""
        ...

    @property
    def modules(self) -> Sequence[str]:
        """The Python modules that it needs."""
        ...

    @property
    def programs(self) -> Sequence[str]:
        """The programs that it needs."""
        ...

    @property
    def measurements(self) -> frozenset[str]:
        """The names of the measurements that it takes part in."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings of its server and its client."""
        ...

    def serve(self, folder: Path) -> AbstractAsyncContextManager[str]:
        """Run the server while the block runs, with its files in a folder; yields its address."""
        ...

    async def create(self, address: str, topic: str) -> None:
        """Create a topic."""
        ...

    def sender(self, address: str, topic: str) -> AbstractAsyncContextManager[Sender]:
        """Connect a producer while the block runs."""
        ...

    async def fill(self, address: str, topic: str, body: bytes, count: int) -> None:
        """Store messages as fast as possible, before a measurement."""
        ...

    async def consume(self, address: str, topic: str, group: str, batch: int, take: Take) -> None:
        """Consume a topic from its first message in a new group, and acknowledge, until cancelled.

        `batch` 1 passes on message by message, as the client does by its nature; more is the largest batch.
        """
        ...
