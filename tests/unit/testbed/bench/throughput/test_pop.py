from __future__ import annotations

from pathlib import Path

from remoting.client import RemotingClient
from testbed.bench.kit.echo import TOPIC
from testbed.bench.kit.rounds import Sizes, rate
from testbed.bench.throughput.pop import WORKERS, ack, consuming, pop, popping
from testbed.bench.throughput.pull import FILL_BATCH, QUEUES, fill
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded, quiet

SIZES = Sizes(seconds=0.5, backlog=FILL_BATCH)


def test_pops_go_on_with_another_group_when_everything_is_taken(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, QUEUES) as cluster, RemotingClient({}) as remoting:
            await fill(cluster.name_server, SIZES.backlog)
            connection = await remoting.connect(cluster.broker)
            messages = await pop(connection, "g", 60_000)
            await ack(connection, "g", messages)
            assert len({(message.queue, message.offset) for message in messages}) == 32
            assert await rate(popping(connection), WORKERS, 0.3) > 0
            assert len(messages) + sum([len(await pop(connection, "g", 60_000)) for _ in range(3)]) == 4 * 32

    run_simulation(main)


def test_a_pop_consumer_of_each_round_gets_everything_once(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, QUEUES) as cluster:
            await fill(cluster.name_server, SIZES.backlog)
            measure = consuming(cluster.name_server, SIZES, quiet)
            assert await measure() > 0
            assert await measure() > 0

    run_simulation(main)
