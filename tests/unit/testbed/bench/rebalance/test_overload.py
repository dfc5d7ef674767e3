"""overload: the flood, which holds back as a client would, and its counts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from remoting.codec import CODEC
from remoting.command import RESPONSE
from testbed.bench.kit.echo import TOPIC
from testbed.bench.rebalance.overload import KINDS, MAX_OUTSTANDING, Flood, flood, floods, peak
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded

SENDS = KINDS[0]


class Sink(asyncio.Transport):
    """Counts the frames that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = 0

    def write(self, data: Any) -> None:
        self.frames += len(CODEC.decoder().feed(bytes(data)))


def test_no_more_are_outstanding_than_a_client_would_have_until_it_gives_them_up() -> None:
    async def main(_: Simulation) -> None:
        connection, sink = Flood(SENDS), Sink()
        connection.connection_made(sink)
        connection.send(MAX_OUTSTANDING + 100)
        assert (sink.frames, connection.unsent) == (MAX_OUTSTANDING, 100)
        answers = [CODEC.encode(RESPONSE, code, 0, {}, None) for code in (0, 0, 2)]
        connection.data_received(b"".join(answers)[:-1])
        connection.data_received(answers[-1][-1:])
        assert connection.answers == {0: 2, 2: 1}
        connection.send(5)
        assert (sink.frames, connection.unsent) == (MAX_OUTSTANDING + 3, 102)
        await anyio.sleep(1.1)
        connection.send(5)
        assert (sink.frames, connection.unsent) == (MAX_OUTSTANDING + 8, 102)

    run_simulation(main)


@pytest.mark.parametrize("kind", KINDS[::2], ids=["sends", "routes"])
def test_what_a_server_that_is_not_late_is_sent_it_completes(tmp_path: Path, kind: Any) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, 2) as cluster:
            address = cluster.name_server if kind.to_name_server else cluster.broker
            async with floods(kind, address) as connections:
                assert await flood(connections, 500.0, 2.0) == pytest.approx(500, rel=0.02)
                assert all(set(connection.answers) == {0} for connection in connections)
            assert await peak(kind, address, 0.004) > 1000

    run_simulation(main)
