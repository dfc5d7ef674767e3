"""A tap on a simulated network: the frames of its connections. Run as a script, it records a commit.

`python -m tests.compat.taps FILE`, with the tree of a commit and then this one on PYTHONPATH, runs `scenario.py` with
the servers and clients of that commit, and writes what was said as msgpack:

    {"seen": what the clients saw, "schema": request code -> fields of its header, "frames": [[second, connection,
    host of the client, host of the server, whether the server sent it, frame without its length], ...]}

It imports no module that only one of the commits has, but through `_module`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import msgpack

from tests.compat.scenario import act

SERVER_PORTS = (9876, 10911)
_LENGTH_BYTES = 4
T = TypeVar("T")


class Tap:
    """Frames in the order in which they were sent."""

    def __init__(self) -> None:
        self.frames: list[list[Any]] = []
        self._numbers: dict[tuple[Any, Any], int] = {}
        self._unfinished: dict[tuple[int, bool], bytes] = {}

    def sent(self, now_s: float, source: tuple[str, int], target: tuple[str, int], data: bytes) -> None:
        """Take bytes that a socket has sent; a frame is noted with its last byte."""
        from_server = source[1] in SERVER_PORTS
        client, server = (target, source) if from_server else (source, target)
        number = self._numbers.setdefault((client, server), len(self._numbers))
        stream = self._unfinished.pop((number, from_server), b"") + data
        while len(stream) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(stream[:_LENGTH_BYTES], "big")
            if len(stream) < end:
                break
            frame, stream = stream[_LENGTH_BYTES:end], stream[end:]
            self.frames.append([round(now_s, 4), number, client[0], server[0], from_server, frame])
        self._unfinished[number, from_server] = stream


def listen(socket_class: Any, tap: Tap) -> None:
    """Have all sockets of a class tell the tap what they send."""
    send = socket_class.send

    def tapped(self: Any, data: Any) -> int:
        n = send(self, data)
        tap.sent(self._kernel.now_s, self.getsockname(), self.getpeername(), bytes(memoryview(data).cast("B")[:n]))
        return int(n)

    socket_class.send = tapped


def _module(*names: str) -> Any:
    """The first of these modules that there is: some have moved."""
    for name in names[:-1]:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    return import_module(names[-1])


def run_on_a_broker(main: Callable[[Any], Awaitable[T]], folder: Path) -> T:
    """Run a scenario on a simulated cluster of the code that is on the path, whose broker stores below the folder."""
    cluster_class = _module("testbed.simulation.cluster.cluster", "testbed.simulation.cluster").SimulatedCluster

    async def on_cluster(simulation: Any) -> T:
        async with cluster_class(simulation, folder, brokers=1):
            return await main(simulation)

    result: T = _module("testbed.simulation.kernel.run", "simulation.run").run_simulation(on_cluster, seed=1)
    return result


def record() -> dict[str, Any]:
    """Run the scenario with the code that is on the path."""
    schema = _module("remoting.wire.schema", "remoting.schema").SCHEMA
    tap = Tap()
    listen(_module("testbed.simulation.kernel.sockets", "simulation.sockets").VirtualSocket, tap)
    with tempfile.TemporaryDirectory() as folder:
        seen = run_on_a_broker(act, Path(folder))
    fields = {
        int(code): [[f.name, f.type.__name__, f.required, f.minimum, f.maximum] for f in each.fields]
        for code, each in schema.items()
    }
    recorded: dict[str, Any] = {"seen": seen, "schema": fields, "frames": tap.frames}
    return recorded


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(msgpack.packb(record()))
