"""Valves that break or hold the connections of one client of this process, without its help.

Shipped clients cannot fail on purpose, and should not. All their connections come from the running loop's
`create_connection`; while the block of `Valves` runs, it puts a valve into each connection of a named client. The name
of a client is a context variable that its tasks inherit.

    with Valves() as valves:
        with valves.named("c1"):
            await consumer.start()
        valves.cut("c1")         # its connections break, as when a cable is pulled
        valves.hold("c1")        # nothing goes in or out and nothing closes, as when its process hangs
        valves.release("c1")     # what was held goes out, what waited comes in

Invariant: a held client loses no byte; while it is held it makes no new connection either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import anyio

_client: ContextVar[str] = ContextVar("valve_client", default="")


class _Valve(asyncio.Protocol):
    """Stands between a transport and its protocol: each of them takes it for the other one."""

    def __init__(self, protocol: asyncio.Protocol, held: Callable[[], bool], gone: Callable[[_Valve], object]) -> None:
        self.protocol = protocol
        self.transport = cast(asyncio.Transport, None)
        self._held = held
        self._gone = gone
        self._unsent: list[bytes] = []

    # --- as a protocol -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.protocol.connection_made(cast(asyncio.BaseTransport, self))

    def data_received(self, data: bytes) -> None:
        self.protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self.protocol.eof_received()

    def pause_writing(self) -> None:
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        self.protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone(self)
        self.protocol.connection_lost(exc)

    # --- as a transport ----------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Write, or keep the bytes while held."""
        if self._held():
            self._unsent.append(bytes(data))
        else:
            self.transport.write(data)

    def __getattr__(self, name: str) -> Any:
        # All other methods of a transport pass through.
        return getattr(self.transport, name)

    # --- as a valve --------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def release(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"".join(self._unsent))
            self.transport.resume_reading()
        self._unsent.clear()


class Valves:
    """Valves of all named clients: a context manager, entered while the loop runs; see the module header."""

    def __init__(self) -> None:
        self._valves: dict[str, dict[_Valve, None]] = {}
        self._released: dict[str, anyio.Event] = {}

    def __enter__(self) -> Valves:
        self._loop = asyncio.get_running_loop()
        # An attribute of this one loop hides the method of its class until the end of the block. A loop class of our
        # own would need a loop that is made with it.
        self._connect = self._loop.create_connection
        setattr(self._loop, "create_connection", self._create_connection)  # noqa: B010 - mypy rejects the assignment
        return self

    def __exit__(self, *_error: object) -> None:
        delattr(self._loop, "create_connection")
        for client in list(self._released):
            self.release(client)

    @contextmanager
    def named(self, client: str) -> Iterator[None]:
        """Connections that are made in the block, and by tasks that are started in it, belong to this client."""
        token = _client.set(client)
        try:
            yield
        finally:
            _client.reset(token)

    def cut(self, client: str) -> int:
        """Abort the connections of a client; returns how many. It may make new ones at once."""
        valves = list(self._valves.get(client, ()))
        with self.named(client):  # its reconnects belong to it, too
            for valve in valves:
                valve.transport.abort()
        return len(valves)

    def hold(self, client: str) -> None:
        """Hold all data from and to a client until `release`. Idempotent."""
        if client not in self._released:
            self._released[client] = anyio.Event()
            for valve in self._valves.get(client, ()):
                valve.hold()

    def release(self, client: str) -> None:
        """Undo `hold`. Idempotent."""
        released = self._released.pop(client, None)
        if released is not None:
            released.set()
            for valve in self._valves.get(client, ()):
                valve.release()

    async def _create_connection(self, factory: Callable[[], asyncio.Protocol], *args: Any, **options: Any) -> Any:
        """Replacement of the loop's `create_connection`."""
        client = _client.get()
        if not client:
            return await self._connect(factory, *args, **options)
        while client in self._released:
            await self._released[client].wait()
        valves = self._valves.setdefault(client, {})

        def make() -> _Valve:
            valve = _Valve(factory(), lambda: client in self._released, lambda gone: valves.pop(gone, None))
            valves[valve] = None
            return valve

        transport, valve = await self._connect(make, *args, **options)
        return transport, valve.protocol
