"""An hour in the life of a group, with faults, in virtual time; a second run gives exactly the same events.

    python examples/simulated_hour.py

The name servers, brokers, producer and consumers are the real ones. The clock is simulated: it jumps to the next
timer whenever nothing is left to do. The network is simulated too, with the faults that are injected here. One seed
decides every random choice, so a run that shows something odd can be repeated until it is understood.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter

import anyio

from rlab.model.errors import RlabError
from rlab.model.events import Event
from rlab.testbed.simulation.cluster.clients import SimulatedConsumer, SimulatedProducer
from rlab.testbed.simulation.cluster.cluster import SimulatedCluster
from rlab.testbed.simulation.kernel.run import Simulation, run_simulation
from rlab.traces.check.delivery import DeliveryCheck

SEED = 7
MINUTE_S = 60.0
SESSION_TIMEOUT_S = 10.0
"""Time without a heartbeat after which a session expires. The default is 120 s, as in RocketMQ."""


async def produce(producer: SimulatedProducer, check: DeliveryCheck, until_s: float) -> None:
    """Send a message every ten seconds, and record which were acknowledged."""
    number = 0
    while producer.simulation.loop.time() < until_s:
        try:
            await producer.send("orders", b"%d" % number)
        except RlabError:
            check.failed(0, number)
        else:
            check.acknowledged(0, number)
        number += 1
        await anyio.sleep(10)


async def hour(simulation: Simulation, data_dir: Path) -> tuple[str, list[Event]]:
    """Run the hour; returns a summary, and every event of every node."""
    check = DeliveryCheck()

    async def step(at_minute: int, title: str, do: Callable[[], Awaitable[object]]) -> None:
        await anyio.sleep(at_minute * MINUTE_S - simulation.loop.time())
        await do()
        took_s = await cluster.wait_converged(SESSION_TIMEOUT_S + 1)
        print(f"  minute {at_minute:2}: {title}: converged after {took_s:.3f} s")

    async with SimulatedCluster(simulation, data_dir, name_servers=2, brokers=2) as cluster:
        await cluster.create_topic("orders", queues=8)
        producer = await cluster.start_producer()

        async def join() -> SimulatedConsumer:
            return await cluster.start_consumer("billing", "orders", session_timeout_s=SESSION_TIMEOUT_S)

        first, second = await join(), await join()

        async def hang() -> None:
            first.hang()

        async def go_on() -> None:
            simulation.network.heal()
            first.live = True

        async def restart() -> None:
            await cluster.brokers["broker-b"].crash()
            await cluster.brokers["broker-b"].start()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(produce, producer, check, 60 * MINUTE_S)
            await step(10, "a third consumer joins", join)
            await step(20, "the first one hangs", hang)
            await step(30, "it goes on", go_on)
            await step(40, "broker-b crashes and starts again", restart)
            await step(50, "the second one leaves", second.stop)
        await anyio.sleep(MINUTE_S)
        for consumer in cluster.consumers:
            for body in consumer.bodies:
                check.received(0, int(body))
        summary = f"sent {check.sent}, lost {check.lost}, duplicates {check.duplicates}, failed {check.failed_sends}"
        return f"{summary}, {len(cluster.events)} events", cluster.events


def run(seed: int) -> tuple[str, list[Event]]:
    """Run the hour in a simulation of its own."""
    with tempfile.TemporaryDirectory() as directory:

        async def main(simulation: Simulation) -> tuple[str, list[Event]]:
            return await hour(simulation, Path(directory))

        return run_simulation(main, seed=seed)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)  # warnings about the faults are expected
    began_s = perf_counter()
    first = run(SEED)
    print(f"{first[0]}; took {perf_counter() - began_s:.1f} s")
    assert run(SEED) == first, "the same seed gave another history"
    print(f"{first[0]}; the same history twice")
