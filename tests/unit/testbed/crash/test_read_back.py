from __future__ import annotations

from pathlib import Path

import pytest

from client import Message, MessageExt, MessageQueue, Producer
from model.errors import ServiceNotAvailable
from model.limits import MAX_PULL_BATCH
from testbed.crash.read_back import read_back
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded


def test_every_message_comes_with_its_offset_queue_by_queue(tmp_path: Path) -> None:
    n = 2 * MAX_PULL_BATCH + 3
    parts: list[tuple[MessageQueue, range, list[MessageExt]]] = []

    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, "t", 2) as cluster:
            async with Producer(cluster.name_server) as producer:
                for number in range(n):
                    await producer.send(Message("t", b"%d" % number), queue=MessageQueue("t", "broker-a", 0))
            await read_back(cluster.name_server, ["broker-a"], "t", lambda *part: parts.append(part))
            with pytest.raises(ServiceNotAvailable, match="broker-a has lost topic 'other'"):
                await read_back(cluster.name_server, ["broker-a"], "other", lambda *part: None)

    run_simulation(main)
    assert {queue for queue, _, _ in parts} == {MessageQueue("t", "broker-a", 0)}
    assert [offset for _, offsets, _ in parts for offset in offsets] == list(range(n))
    rows = [row for _, _, part in parts for row in part]
    assert [(row.offset, row.body) for row in rows] == [(number, b"%d" % number) for number in range(n)]
