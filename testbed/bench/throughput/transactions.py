"""transactions and transactions-open: transactions against plain sends, and the memory of open transactions.

transactions         transactions/s of one producer, 64 of them at the same time, each a half message and a commit,
                     against plain awaited sends of the same producer and broker
transactions-open    the memory of a broker for 100,000 half messages that are open, and the time of a restart
                     after `kill -9`, in which the broker finds them again; it includes the start of Python
"""

from __future__ import annotations

import time

import anyio

from client import Message, MessageExt, TransactionProducer, TransactionState
from client.admin.admin import Admin
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.processes import (
    broker_process,
    cluster_processes,
    create_topics,
    kill,
    name_server_process,
    rss_bytes,
    temporary_folder,
)
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import MIB, Progress, Sizes, Window, Work, in_turns, make_result
from testbed.bench.throughput.send import IN_FLIGHT, QUEUES, make_round, sending

_NEVER_S = 3_600
"""Transaction timeout that is longer than the benchmark, so that the broker sends no checks."""


async def bench_transactions(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure transactions against plain sends, in turns."""
    async with (
        cluster_processes({TOPIC: QUEUES}) as cluster,
        TransactionProducer(cluster.name_server, "bench", check=answer_rollback) as producer,
    ):
        turns = await in_turns(
            make_round(transacting(producer), IN_FLIGHT, sizes, progress, "transactions"),
            make_round(sending(producer), IN_FLIGHT, sizes, progress, f"send-{IN_FLIGHT}"),
            sizes.repeat,
        )
    return [make_result("transactions", turns, "half message and commit, against plain sends")]


async def answer_rollback(message: MessageExt) -> TransactionState:
    """The answer to a check, which a producer needs; these benchmarks are over before any transaction is checked."""
    return TransactionState.ROLLBACK


def transacting(producer: TransactionProducer) -> Work:
    """A worker that commits one transaction after another."""

    async def work(window: Window) -> None:
        done = 0
        while window.open:
            async with producer.transaction(Message(TOPIC, BODY)):
                pass
            done += 1
        window.done += done

    return work


async def bench_open_transactions(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure memory and a restart with many open half messages."""
    n, options = sizes.open_transactions, ("--no-trace-topic", "--transaction-timeout", str(_NEVER_S))
    async with temporary_folder() as folder, name_server_process(quiet=True) as name_server:
        async with broker_process(name_server, folder, *options) as broker:
            await create_topics(name_server, {TOPIC: QUEUES})
            await leave_open(name_server, IN_FLIGHT)  # a warm-up: memory that does not grow with open transactions
            rss_before = await rss_bytes(broker)
            progress(f"{n:,} half messages")
            await leave_open(name_server, n)
            rss_after = await rss_bytes(broker)
            await kill(broker)
        progress("restart")
        started = time.perf_counter()
        async with broker_process(name_server, folder, *options):
            took_s = time.perf_counter() - started
            async with Admin(name_server) as admin:
                (group,) = await admin.producer_groups()
    note = f"{group.open:,} open after a restart of {took_s:.2f} s"
    return [Result(name="transactions-open", value=(rss_after - rss_before) / MIB, unit="MiB", note=note)]


async def leave_open(name_server: str, n: int) -> None:
    """Leave `n` transactions open."""

    async def leave_some_open(producer: TransactionProducer, count: int) -> None:
        for _ in range(count):
            async with producer.transaction(Message(TOPIC, BODY)) as transaction:
                transaction.unknown()

    async with (
        TransactionProducer(name_server, "bench", check=answer_rollback) as producer,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(IN_FLIGHT):
            tasks.start_soon(leave_some_open, producer, n // IN_FLIGHT)
