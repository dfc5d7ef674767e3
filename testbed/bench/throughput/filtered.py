"""filters: pulls with a filter by SQL, beside pull-32 of the same messages without one, in turns.

filter-all has a filter that every message matches: the messages that a client reads per second. filter-1% has one that
one message in a hundred matches: the messages that the broker examines per second for one client.
"""

from __future__ import annotations

from itertools import count

from client import Message, MessageQueue, Producer
from model.decode import decode_messages
from model.limits import PULL_BATCH, PULL_TIMEOUT_S
from model.response_code import ResponseCode
from remoting.client import raise_for_code
from remoting.connection import Connection
from remoting.request_code import RequestCode
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.processes import cluster_processes
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes, Window, Work, in_turns, make_result
from testbed.bench.throughput.pull import FILL_BATCH, QUEUES, leases, member_client, pulling
from testbed.bench.throughput.send import make_round

ALL, ONE_IN_A_HUNDRED = "price >= 0 AND region = 'north'", "price = 7 AND region = 'north'"
_PRICES = 100
_READ = (0, int(ResponseCode.PULL_NOT_FOUND), int(ResponseCode.PULL_RETRY_IMMEDIATELY))


async def bench_filters(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure pulls with both filters."""
    results = []
    async with cluster_processes({TOPIC: QUEUES}) as cluster, member_client() as remoting:
        progress("filling the queues")
        await fill_priced(cluster.name_server, sizes.backlog)
        connection = await remoting.connect(cluster.broker.address)
        queues = [MessageQueue(TOPIC, cluster.broker.name, queue_id) for queue_id in range(QUEUES)]
        plain = pulling(connection, await leases(connection, queues), sizes.backlog)
        baseline = make_round(plain, QUEUES, sizes, progress, f"pull-{PULL_BATCH}")
        for name, sql in (("filter-all", ALL), ("filter-1%", ONE_IN_A_HUNDRED)):
            work = examining(connection, queues, sql, sizes.backlog)
            turns = await in_turns(make_round(work, QUEUES, sizes, progress, name), baseline, sizes.repeat)
            results.append(make_result(name, turns, f"baseline: pull-{PULL_BATCH} of these messages"))
    return results


async def fill_priced(name_server: str, backlog: int) -> None:
    """Send `backlog` messages, a multiple of `FILL_BATCH`, to each queue, with prices from 0 to 99 in turns."""
    prices = count()
    async with Producer(name_server) as producer:
        for _ in range(QUEUES * backlog // FILL_BATCH):
            batch = [
                Message(TOPIC, BODY, properties={"price": str(next(prices) % _PRICES), "region": "north"})
                for _ in range(FILL_BATCH)
            ]
            await producer.send_batch(batch)  # round robin over the queues


def examining(connection: Connection, queues: list[MessageQueue], sql: str, backlog: int) -> Work:
    """A worker that reads one queue by a filter, and counts the messages that were examined for it."""
    turn = count()

    async def work(window: Window) -> None:
        queue = queues[next(turn) % len(queues)]
        header = {"group": "reader", "topic": queue.topic, "queue_id": queue.queue_id, "max_n": PULL_BATCH, "sql": sql}
        offset = done = 0
        while window.open:
            query = {**header, "offset": offset, "suspend_ms": 0}
            answer = await connection.request(RequestCode.PULL_MESSAGE_BY_SQL, query, None, PULL_TIMEOUT_S)
            if answer.code not in _READ:
                raise_for_code(answer)
            decode_messages(queue, answer.body or b"")
            done += answer.header["next_offset"] - offset
            offset = answer.header["next_offset"] % backlog
        window.done += done

    return work
