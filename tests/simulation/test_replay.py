"""A replay of what a simulated cluster did, under the rules it had, gives every queue the owners that it had.

Members join, leave, crash and hang; topics grow; passes overlap. Every lease has to go to the same members one after
the other, although only joins, leaves and routes are taken from the trace, and who gets what is computed again.
"""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from client.allocate.registry import BUILT_IN_STRATEGIES
from model.event_log import decode_events, encode_events
from model.heartbeat import ConsumeFrom
from model.message import MessageExt
from model.names import is_retry_topic
from pipeline.replay.job import find_baseline, read_group, wrong_queues
from pipeline.replay.replay import ReplayOutcome, replay
from testbed.simulation.cluster.clients import SimulatedConsumer
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.network import Fault
from tests.simulation.conftest import Simulate

pytestmark = pytest.mark.simulation

SEEDS = (0, 1)
"""Of every strategy."""
MORE_SEEDS = {
    "AVG": (46, 80),
    "AVG_BY_CIRCLE": (9, 10, 14),
    "CONSISTENT_HASH": (44, 46),
    "BALANCED_STICKY": (8, 63, 117),
}
"""Some in which a replay once went astray: members came back from a silence in many ways."""
STEPS = 14
TIMEOUT_S = 3.0


async def live_through(cluster: SimulatedCluster, strategy: str) -> None:
    chance = cluster.simulation.random
    cluster.client_options["route_poll_interval_s"] = 0.2
    await cluster.create_topic("t", queues=8)
    await cluster.create_topic("u", queues=3)
    hung: list[tuple[SimulatedConsumer, Fault]] = []

    async def work(message: MessageExt) -> None:
        await anyio.sleep(chance.random() * 0.05)

    async def send() -> None:
        producer, number = await cluster.start_producer(), 0
        while True:
            await producer.send("t" if number % 3 else "u", b"%d" % number)
            number += 1
            await anyio.sleep(0.02)

    async def join() -> None:
        consumer = cluster.make_consumer(
            "g",
            strategy=BUILT_IN_STRATEGIES[strategy].make(),
            session_timeout_s=TIMEOUT_S,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        )
        await consumer.subscribe("t", work=work)
        if chance.random() < 0.5:
            await consumer.subscribe("u", work=work)
        await consumer.start()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await join()
        for _ in range(STEPS):
            live = [consumer for consumer in cluster.consumers if consumer.live]
            step = chance.choices(["join", "leave", "crash", "hang", "heal", "grow"], [6, 3, 2, 2, 2, 1])[0]
            if step == "join" or len(live) < 2:
                await join()
            elif step == "leave":
                await chance.choice(live).stop()
            elif step == "crash":
                await chance.choice(live).crash()
            elif step == "hang":
                one = chance.choice(live)
                hung.append((one, one.hang()))
            elif step == "heal" and hung:
                back, fault = hung.pop()
                fault.heal()
                back.live = True
            elif step == "grow":
                await cluster.create_topic("t", queues=chance.randrange(8, 12))
            await anyio.sleep(chance.choice([0.01, 0.05, 0.5, 2, 4]))
        for back, fault in hung:
            fault.heal()
            back.live = True
        await anyio.sleep(5)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("strategy", "seed"),
    [(name, seed) for name in BUILT_IN_STRATEGIES for seed in (*SEEDS, *MORE_SEEDS.get(name, ()))],
)
def test_the_recorded_rules_give_the_recorded_moves(simulate: Simulate, strategy: str, seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> bytes:
        await live_through(cluster, strategy)
        return encode_events(cluster.events)

    recorded = read_group(decode_events(simulate(scenario, seed=seed))[0], "g")
    baseline = find_baseline(recorded, TIMEOUT_S, strategy)
    outcome = replay(recorded, baseline.rules)
    assert wrong_queues(recorded, outcome) == 0
    assert len(outcome.moves) == len(recorded.moves) > 30
    assert {is_retry_topic(move.queue.topic) for move in outcome.moves} == {False, True}
    other = list(BUILT_IN_STRATEGIES)[list(BUILT_IN_STRATEGIES).index(strategy) - 1]
    assert slowest_start(replay(recorded, replace(baseline.rules, strategy=other))) < 500


def slowest_start(outcome: ReplayOutcome) -> float:
    """The longest time from when a member gets the lease of a queue until it consumes it, in milliseconds."""
    begins: dict[tuple[object, str], list[float]] = {}
    for span in outcome.spans:
        begins.setdefault((span.queue, span.client), []).append(span.from_ms)
    waits = [
        min(
            (begin - move.at_ms for begin in begins.get((move.queue, move.to_client), ()) if begin >= move.at_ms),
            default=0,
        )
        for move in outcome.moves
    ]
    return max(waits)
