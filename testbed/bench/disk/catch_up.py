"""catch-up: rate at which a consumer reads a backlog from files that are not in memory.

Before each pass the broker is stopped and its files are dropped from the page cache; then it is started again, and a
new group reads everything from the first message. Measured from the first message to the last, in one Python process on
each side. catch-up is a push consumer that takes messages in batches, catch-up-single one with everything as it comes,
whose listener is called for each message; catch-up-pull only pulls and decodes.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio

from broker.store.segments.segment import LOG_SUFFIX
from client import MessageQueue
from client.admin.admin import Admin
from model.limits import PULL_BATCH
from testbed.bench.kit.consumers import consume_for
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.filling import fill_topic
from testbed.bench.kit.processes import broker_process, create_topics, name_server_process, temporary_folder
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Sizes
from testbed.bench.throughput.pull import QUEUES, leases, member_client, pull_to_end

CATCH_UP_BATCH = 256
"""Messages of a pull and of a call of the listener, as a consumer with a large lag would set them."""

Pass = Callable[[str, str], Coroutine[Any, Any, float]]
"""(name server, name of a new group) -> messages per second."""


async def bench_catch_up(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure reads of cold files."""
    sides: dict[str, Pass] = {
        "catch-up": consuming_all(sizes.cold, CATCH_UP_BATCH, CATCH_UP_BATCH),
        "catch-up-single": consuming_all(sizes.cold, PULL_BATCH, 1),
        "catch-up-pull": pulling_all(PULL_BATCH),
    }
    rates: dict[str, list[float]] = {name: [] for name in sides}
    note = ""
    async with temporary_folder() as folder, name_server_process() as name_server:
        async with broker_process(name_server, folder):
            await create_topics(name_server, {TOPIC: QUEUES})
            await fill_topic(name_server, BODY, sizes.cold, progress)
        for number in range(sizes.passes):
            for name, measure in sides.items():
                progress(f"{name}, pass {number + 1} of {sizes.passes}")
                if not await anyio.to_thread.run_sync(drop_page_cache, folder):
                    note = "this system cannot drop files from its page cache: they were warm"
                async with broker_process(name_server, folder):
                    rates[name].append(await measure(name_server, f"{name}-{number}"))
    return [
        Result(name=name, value=statistics.median_low(each), unit="messages/s", note=note)
        for name, each in rates.items()
    ]


def drop_page_cache(folder: Path) -> bool:
    """Drop the log from the page cache; returns False if the system cannot do that."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in folder.glob(f"*{LOG_SUFFIX}"):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(fd)  # a page that is not written cannot be dropped
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    return True


def consuming_all(count: int, pull_batch: int, consume_batch: int) -> Pass:
    """A pass of a push consumer with an empty listener.

    `count` is how many messages there are; for the batches see `ConsumerOptions`.
    """

    async def run(name_server: str, group: str) -> float:
        batches = {"pull_batch": pull_batch, "consume_batch": consume_batch}
        return await consume_for(math.inf, name_server, group, TOPIC, count, **batches)

    return run


def pulling_all(pull_batch: int) -> Pass:
    """A pass of pulls under leases, all queues at the same time, each answer decoded to messages."""

    async def run(name_server: str, group: str) -> float:
        async with member_client() as remoting, Admin(name_server) as admin:
            (broker,) = await admin.brokers()
            info = (await admin.broker_info(broker.broker_name)).topic(TOPIC)
            assert info is not None, "it was filled"
            connection = await remoting.connect(broker.addresses[0])
            queues = [MessageQueue(TOPIC, broker.broker_name, queue_id) for queue_id in range(len(info.ranges))]
            tokens = await leases(connection, queues)
            started = time.perf_counter()
            async with anyio.create_task_group() as tasks:
                for queue, each in zip(queues, info.ranges, strict=True):
                    tasks.start_soon(pull_to_end, connection, queue, tokens[queue], each.max_offset, pull_batch)
            return sum(each.max_offset for each in info.ranges) / (time.perf_counter() - started)

    return run
