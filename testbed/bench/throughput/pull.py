"""pull-32 and consume: messages per second that one Python client reads, against the bare echo with 64 in flight.

pull-32 measures the path of a message up to the consumer's own work: pulls under a lease, one after another in each of
eight queues and all queues concurrently, each answer decoded to messages. At the end of a queue it starts over. consume
is a whole push consumer: pull, process queue, workers, an empty listener for each message, commits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, NamedTuple

import msgpack

from client import ConsumeFrom, Message, MessageExt, MessageQueue, Producer
from model.decode import decode_messages
from model.heartbeat import ConsumerData, ConsumeType, HeartbeatData, MessageModel
from model.limits import MEMBER_EXPIRY_S, PULL_BATCH, PULL_SUSPEND_S, PULL_TIMEOUT_S
from model.subscription import make_subscription
from remoting.client import RemotingClient, raise_for_code
from remoting.connection import Connection
from remoting.request_code import RequestCode
from testbed.bench.kit.consumers import consuming
from testbed.bench.kit.echo import BODY, TOPIC, connect_echo
from testbed.bench.kit.processes import ClusterProcesses, cluster_processes, echo_process
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Round, Sizes, Window, Work, in_turns, make_result
from testbed.bench.throughput.send import IN_FLIGHT, echoing, make_round

QUEUES = 8
FILL_BATCH = 512
_GROUP = "bench"
_CLIENT_ID = "127.0.0.1@bench"
_PULL = int(RequestCode.PULL_MESSAGE)


async def bench_pull(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure pulls."""
    async with filled_cluster(sizes, progress) as (cluster, queues, echo), member_client() as remoting:
        connection = await remoting.connect(cluster.broker.address)
        tokens = await leases(connection, queues)
        work = pulling(connection, tokens, sizes.backlog)
        turns = await in_turns(make_round(work, QUEUES, sizes, progress, f"pull-{PULL_BATCH}"), echo, sizes.repeat)
    return [make_result(f"pull-{PULL_BATCH}", turns)]


async def bench_consume(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure a push consumer; see `bench_pull`."""
    async with filled_cluster(sizes, progress) as (cluster, _, echo):
        consume = consuming("consume", cluster.name_server, TOPIC, QUEUES * sizes.backlog, sizes, progress)
        turns = await in_turns(consume, echo, sizes.repeat)
    return [make_result("consume", turns)]


class FilledCluster(NamedTuple):
    """A cluster with messages, and the baseline."""

    cluster: ClusterProcesses
    queues: list[MessageQueue]  # of `TOPIC`, each with `Sizes.backlog` messages
    echo: Round  # the bare echo, `IN_FLIGHT` frames at a time


@asynccontextmanager
async def filled_cluster(sizes: Sizes, progress: Progress) -> AsyncIterator[FilledCluster]:
    """Run a cluster and an echo server while the block runs, and fill the queues."""
    async with (
        echo_process() as echo,
        cluster_processes({TOPIC: QUEUES}) as cluster,
        connect_echo(echo.address) as client,
    ):
        progress("filling the queues")
        queues = await fill(cluster.name_server, sizes.backlog)
        baseline = make_round(echoing(client), IN_FLIGHT, sizes, progress, f"echo-{IN_FLIGHT}")
        yield FilledCluster(cluster, queues, baseline)


async def fill(name_server: str, backlog: int) -> list[MessageQueue]:
    """Send `backlog` messages, a multiple of `FILL_BATCH`, to each queue; returns the queues."""
    async with Producer(name_server) as producer:
        batch = [Message(TOPIC, BODY)] * FILL_BATCH
        for _ in range(QUEUES * backlog // FILL_BATCH):
            await producer.send_batch(batch)  # round robin over the queues
        return await producer.queues(TOPIC)


def member_client() -> RemotingClient:
    """A client for the only member of a group: it ignores notifications, which are about itself."""
    return RemotingClient({RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: lambda address, command: None})


async def leases(connection: Connection, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    """Become a member of a group and lease every queue; returns the tokens."""
    data = ConsumerData(
        group=_GROUP,
        consume_type=ConsumeType.PASSIVELY,
        model=MessageModel.CLUSTERING,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        consume_timestamp_ms=0,
        strategy="AVG",
        session_timeout_s=MEMBER_EXPIRY_S,
        group_created_ms=0,
        subscriptions=(make_subscription(TOPIC, "*", 1),),
    )
    heartbeat = HeartbeatData(client_id=_CLIENT_ID, consumers=(data,), producer_groups=(), cause="")
    raise_for_code(await connection.request(RequestCode.HEART_BEAT, {}, msgpack.packb(heartbeat.to_wire())))
    body = msgpack.packb([[queue.topic, queue.queue_id] for queue in queues])
    header = {"group": _GROUP, "client_id": _CLIENT_ID, "cause": ""}
    answer = raise_for_code(await connection.request(RequestCode.LOCK_BATCH_MQ, header, body))
    outcome: Any = msgpack.unpackb(answer.body or b"")
    token_of = {queue_id: token for _, queue_id, token, _ in outcome[0]}
    return {queue: token_of[queue.queue_id] for queue in queues}


def pulling(connection: Connection, tokens: dict[MessageQueue, int], backlog: int) -> Work:
    """A worker that pulls and decodes one queue; each worker of a round takes the next queue."""
    queues = list(tokens)
    turn = count()

    async def work(window: Window) -> None:
        queue = queues[next(turn) % len(queues)]
        offset = done = 0
        while window.open:
            messages, next_offset = await _pull(connection, queue, tokens[queue], offset, PULL_BATCH)
            done += len(messages)
            offset = next_offset % backlog
        window.done += done

    return work


async def pull_to_end(connection: Connection, queue: MessageQueue, token: int, end_offset: int, batch: int) -> None:
    """Pull and decode a whole queue, `batch` messages at a time."""
    offset = 0
    while offset < end_offset:
        _, offset = await _pull(connection, queue, token, offset, batch)


async def _pull(
    connection: Connection, queue: MessageQueue, token: int, offset: int, batch: int
) -> tuple[list[MessageExt], int]:
    """Pull once; returns the messages and the next offset."""
    header = {
        "group": _GROUP,
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "offset": offset,
        "max_n": batch,
        "suspend_ms": int(PULL_SUSPEND_S * 1000),
        "client_id": _CLIENT_ID,
        "token": token,
    }
    response = raise_for_code(await connection.request(_PULL, header, None, PULL_TIMEOUT_S))
    return decode_messages(queue, response.body or b""), response.header["next_offset"]
