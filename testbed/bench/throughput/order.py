"""order and order-cost: gain of the order by key over the order by queue, and its cost against no order.

One queue, messages of 64 keys in turns, a listener that waits 5 ms, 32 workers. In the order of the queue messages are
processed one after the other; in the order of keys there are as many at a time as workers. order-cost has an empty
listener and thousands of keys, against the same consumer without an order: the difference is the cost of the lanes.
Measured from the first message on.
"""

from __future__ import annotations

from client import Message, Producer
from client.options import ConsumeOrder
from testbed.bench.kit.consumers import consuming
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.processes import cluster_processes
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Round, Sizes, in_turns, make_result

KEYS, WORKERS, LISTENER_S = 64, 32, 0.005
MANY_KEYS = 4096
MANY_TOPIC = "bench-many-keys"
FILL_BATCH = 512


async def bench_order(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure consumers in order."""
    async with cluster_processes({TOPIC: 1, MANY_TOPIC: 1}) as cluster:
        progress("filling the queues")
        await fill_keys(cluster.name_server, TOPIC, KEYS, sizes.backlog)
        await fill_keys(cluster.name_server, MANY_TOPIC, MANY_KEYS, sizes.backlog)
        rounds = {
            (topic, order): consuming_in_order(cluster.name_server, topic, order, sizes, progress, listener_s)
            for topic, order, listener_s in (
                (TOPIC, ConsumeOrder.KEY, LISTENER_S),
                (TOPIC, ConsumeOrder.QUEUE, LISTENER_S),
                (MANY_TOPIC, ConsumeOrder.KEY, 0.0),
                (MANY_TOPIC, ConsumeOrder.NONE, 0.0),
            )
        }
        gain = await in_turns(rounds[TOPIC, ConsumeOrder.KEY], rounds[TOPIC, ConsumeOrder.QUEUE], sizes.repeat)
        cost = await in_turns(rounds[MANY_TOPIC, ConsumeOrder.KEY], rounds[MANY_TOPIC, ConsumeOrder.NONE], sizes.repeat)
    return [make_result("order", gain), make_result("order-cost", cost)]


async def fill_keys(name_server: str, topic: str, keys: int, backlog: int) -> None:
    """Send messages with keys in turns to a topic of one queue; `backlog` is a multiple of `FILL_BATCH`."""
    async with Producer(name_server) as producer:
        for first in range(0, backlog, FILL_BATCH):
            await producer.send_batch(
                [Message(topic, BODY, keys=[f"key-{n % keys}"]) for n in range(first, first + FILL_BATCH)]
            )


def consuming_in_order(
    name_server: str, topic: str, order: ConsumeOrder, sizes: Sizes, progress: Progress, listener_s: float
) -> Round:
    """A round of a push consumer in a new group, which begins with the first message.

    It ends early with the last of `sizes.backlog` messages; the listener waits `listener_s` with each.
    """
    where = (name_server, topic, sizes.backlog, sizes, progress)
    return consuming(f"{topic}-{order}", *where, listener_s=listener_s, order=order, max_workers=WORKERS)
