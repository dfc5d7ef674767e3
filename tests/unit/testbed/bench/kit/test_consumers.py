from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client import MessageQueue
from client.admin.admin import Admin
from client.instance.member import ServiceState
from model.names import retry_topic
from testbed.bench.kit.consumers import consume_for, group_queues, ignore, make_consumer, running, targets
from testbed.bench.kit.convergence import ConvergenceWatch
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.filling import fill_topic
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded, quiet


@given(st.integers(1, 12), st.integers(1, 30))
def test_the_shares_of_a_group_cover_every_queue_once(members: int, queues: int) -> None:
    of_topic = [MessageQueue("t", "b", queue_id) for queue_id in range(queues)]
    retry = [MessageQueue(retry_topic("g"), "b", 0)]
    found = targets("g", [f"c{n}" for n in range(members)], {"t": of_topic, retry_topic("g"): retry})
    assert sorted(queue for share in found.values() for queue in share) == sorted(of_topic + retry)
    assert all(share == sorted(share) for share in found.values())


def test_consumers_come_to_own_exactly_their_shares_and_leave_nothing_behind(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, 7) as cluster:
            watch = ConvergenceWatch()
            consumers = [make_consumer(cluster.name_server, "g", number, watch.record) for number in (3, 1, 2)]
            async with running(consumers):
                ids = [consumer.client_id for consumer in consumers]
                assert sorted(ids) == [ids[1], ids[2], ids[0]]
                target = targets("g", ids, await group_queues(cluster.name_server, "g"))
                watch.expect(target)
                await watch.wait_converged(10.0)
                assert {consumer.client_id: consumer.queues for consumer in consumers} == target
            watch.expect({})
            await watch.wait_converged(0.0)
            with pytest.raises(Exception, match=ServiceState.SHUTDOWN_ALREADY):
                await consumers[0].start()

    run_simulation(main)


def test_the_listener_accepts_what_it_gets() -> None:
    async def main(simulation: Simulation) -> None:
        assert await ignore([]) is None  # type: ignore[func-returns-value]

    run_simulation(main)


def test_a_topic_is_consumed_from_its_first_message_to_its_last(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, 4) as cluster, Admin(cluster.name_server) as admin:
            await fill_topic(cluster.name_server, BODY, 1_000, quiet)
            await consume_for(math.inf, cluster.name_server, "bench", TOPIC, 1_000, consume_batch=32)
            group = await admin.group("bench")
        assert sum(each.committed or 0 for each in group.queues if each.queue.topic == TOPIC) == 1_000

    run_simulation(main)
