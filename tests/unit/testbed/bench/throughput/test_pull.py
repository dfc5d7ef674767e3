from __future__ import annotations

from pathlib import Path

import anyio

from client import MessageQueue
from client.admin.admin import Admin
from model.decode import decode_messages
from remoting.client import RemotingClient, raise_for_code
from remoting.request_code import RequestCode
from testbed.bench.kit.consumers import consuming
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.rounds import Sizes, Window
from testbed.bench.throughput.pull import FILL_BATCH, QUEUES, fill, leases, pulling
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import embedded, quiet

SIZES = Sizes(seconds=30.0, backlog=FILL_BATCH)


def test_every_queue_is_filled_alike(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, QUEUES) as cluster:
            queues = await fill(cluster.name_server, SIZES.backlog)
            async with Admin(cluster.name_server) as admin:
                info = (await admin.broker_info("broker-a")).topic(TOPIC)
        assert queues == [MessageQueue(TOPIC, "broker-a", queue_id) for queue_id in range(QUEUES)]
        assert info is not None
        assert [(queue.min_offset, queue.max_offset) for queue in info.ranges] == [(0, SIZES.backlog)] * QUEUES

    run_simulation(main)


def test_pulls_under_a_lease_count_each_message_and_begin_again_at_the_end(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, QUEUES) as cluster, RemotingClient({}) as remoting:
            queues = await fill(cluster.name_server, SIZES.backlog)
            connection = await remoting.connect(cluster.broker)
            tokens = await leases(connection, queues)
            assert list(tokens) == queues
            window = Window()
            work = pulling(connection, tokens, SIZES.backlog)
            simulation.loop.call_later(0.5, window.close)
            async with anyio.create_task_group() as tasks:
                for _ in queues:
                    tasks.start_soon(work, window)
            assert window.done > 2 * QUEUES * SIZES.backlog
            assert window.done % 32 == 0

    run_simulation(main)


def test_what_is_pulled_is_what_was_sent(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, QUEUES) as cluster, RemotingClient({}) as remoting:
            queues = await fill(cluster.name_server, SIZES.backlog)
            header = {"group": "g", "topic": TOPIC, "queue_id": 3, "offset": 7, "max_n": 32, "suspend_ms": 0}
            connection = await remoting.connect(cluster.broker)
            response = raise_for_code(await connection.request(RequestCode.PULL_MESSAGE, header))
            messages = decode_messages(queues[3], response.body or b"")
            assert [(message.offset, message.body) for message in messages] == [(n, BODY) for n in range(7, 39)]

    run_simulation(main)


def test_each_round_of_a_consumer_reads_the_whole_backlog_in_a_group_of_its_own(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with embedded(simulation, tmp_path, TOPIC, QUEUES) as cluster:
            await fill(cluster.name_server, SIZES.backlog)
            measure = consuming("consume", cluster.name_server, TOPIC, QUEUES * SIZES.backlog, SIZES, quiet)
            for number in (1, 2):
                before = simulation.loop.time()
                assert await measure() > 0
                assert simulation.loop.time() - before < SIZES.seconds
                async with Admin(cluster.name_server) as admin:
                    group = await admin.group(f"consume-{number}")
                committed = [each.committed for each in group.queues if each.queue.topic == TOPIC]
                assert committed == [SIZES.backlog] * QUEUES

    run_simulation(main)
