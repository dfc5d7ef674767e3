from __future__ import annotations

from pathlib import Path

import pytest

from client.options import ConsumeOrder
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.rounds import Sizes
from testbed.bench.throughput.order import FILL_BATCH, KEYS, LISTENER_S, WORKERS, consuming_in_order, fill_keys
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded, quiet

SIZES = Sizes(seconds=30.0, backlog=2 * FILL_BATCH)


@pytest.mark.parametrize(
    ("order", "at_once"), [(ConsumeOrder.KEY, WORKERS), (ConsumeOrder.QUEUE, 1), (ConsumeOrder.NONE, WORKERS)]
)
def test_a_round_reads_the_backlog_with_as_many_listeners_at_once_as_the_order_allows(
    tmp_path: Path, order: ConsumeOrder, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(simulation: Simulation) -> None:
        monkeypatch.setattr("testbed.bench.kit.consumers.time.perf_counter", simulation.loop.time)
        async with embedded(simulation, tmp_path, TOPIC, 1) as cluster:
            await fill_keys(cluster.name_server, TOPIC, KEYS, SIZES.backlog)
            rate = await consuming_in_order(cluster.name_server, TOPIC, order, SIZES, quiet, LISTENER_S)()
        # All that is left to say of it is what pulls take: the clock is a virtual one.
        assert rate == pytest.approx(at_once / LISTENER_S, rel=0.15)

    run_simulation(main)
