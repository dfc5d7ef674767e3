from __future__ import annotations

from pathlib import Path

from client import Producer
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.rounds import Sizes, Window, rate
from testbed.bench.throughput.send import echoing, make_round, sending
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import done_and_stored, echo_connected, embedded

SIZES = Sizes(seconds=0.5)


def test_every_send_that_counts_is_stored(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, 2) as cluster, Producer(cluster.name_server) as producer:
            done, stored = await done_and_stored(simulation, cluster, TOPIC, sending(producer))
            assert stored == done > 100

    run_simulation(main)


def test_more_in_flight_get_more_done(tmp_path: Path) -> None:
    """In the simulation only latency takes time, so 64 in flight do 64 times as much as one."""

    async def main(simulation: Simulation) -> None:
        labels: list[str] = []
        async with echo_connected() as client:
            work, done = echoing(client), []
            for workers in (1, 64):
                window = Window()

                async def counted(_: Window, window: Window = window) -> None:
                    await work(window)

                simulation.loop.call_later(SIZES.seconds, window.close)
                await rate(counted, workers, SIZES.seconds)
                done.append(window.done)
            assert done[1] == 64 * done[0]
            assert await make_round(work, 2, SIZES, labels.append, "echo-2")() > 0
            assert labels == ["echo-2"]

    run_simulation(main)


def test_bodies_have_the_size_that_is_claimed() -> None:
    assert len(BODY) == 256
