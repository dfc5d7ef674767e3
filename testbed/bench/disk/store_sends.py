"""store-async and store-sync: cost of stored and of synced messages for a producer.

store-async compares awaited sends, 64 in flight, with sends to a broker that writes nothing. store-sync, in which sends
are answered after the sync, compares 64 producers with a bare loop that writes and syncs single messages on the same
disk; because a sync is nearly free on many virtual machines, it is also measured on a disk whose sync takes 4 ms.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from broker.store.disk.files import Files
from client import Message, Producer
from model.message import encode_payload
from model.record import encode_record
from testbed.bench.disk.replaced_disk import DISCARD, KEEP, SlowFiles
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.processes import cluster_processes, temporary_folder
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Round, Sizes, Window, in_turns, make_result, median_turn, rate
from testbed.bench.throughput.send import IN_FLIGHT, QUEUES, make_round, sending

_REPLACED_DISK = "testbed.bench.disk.replaced_disk"
_NEARLY_FREE_MS = 0.5
"""A sync this fast is answered from a cache."""


async def bench_store_async(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure sends to a broker with files, against one without."""
    async with (
        cluster_processes({TOPIC: QUEUES}, entry=(_REPLACED_DISK, "optional")) as cluster,
        Producer(cluster.name_server) as producer,
    ):

        def side(label: str, number: signal.Signals) -> Round:
            measure = make_round(sending(producer), IN_FLIGHT, sizes, progress, label)

            async def run() -> float:
                cluster.broker.process.send_signal(number)
                return await measure()

            return run

        turns = await in_turns(side("with files", KEEP), side("without files", DISCARD), sizes.repeat)
    return [make_result("store-async", turns)]


async def bench_store_sync(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure sends that are acknowledged after the sync."""
    results = await _bench_sync("store-sync", Files(), ("rlab", "broker"), sizes, progress)
    slow = await _bench_sync("store-sync-slow", SlowFiles(), (_REPLACED_DISK, "slow"), sizes, progress)
    return results + slow


async def _bench_sync(
    name: str, files: Files, entry: tuple[str, str], sizes: Sizes, progress: Progress
) -> list[Result]:
    """Measure one disk: 64 producers against the bare loop, and one producer against it."""
    async with AsyncExitStack() as stack:
        folder = await stack.enter_async_context(temporary_folder())
        servers = cluster_processes({TOPIC: QUEUES}, "--flush", "sync", entry=entry)
        name_server = (await stack.enter_async_context(servers)).name_server
        # Each has a batcher of its own, so sends are grouped only by the broker.
        producers = [await stack.enter_async_context(Producer(name_server)) for _ in range(IN_FLIGHT)]
        bare = syncing(folder / "bare", files, sizes, progress)
        many = await in_turns(
            sending_each(producers, sizes, progress, f"{name}: {IN_FLIGHT} producers"), bare, sizes.repeat
        )
        single = await in_turns(
            sending_each(producers[:1], sizes, progress, f"{name}: 1 producer"), bare, max(1, sizes.repeat // 3)
        )
    sync_ms = 1000 / median_turn(many).baseline
    note = f"a sync takes {sync_ms:.2g} ms"
    if sync_ms < _NEARLY_FREE_MS:
        note += ", nearly nothing: grouping gains little"
    return [make_result(name, many, note), make_result(f"{name}-1", single)]


def sending_each(producers: Sequence[Producer], sizes: Sizes, progress: Progress, label: str) -> Round:
    """A round in which each producer sends one message after another."""

    async def run() -> float:
        progress(label)
        turn = iter(producers)

        async def work(window: Window) -> None:
            await sending(next(turn))(window)

        return await rate(work, len(producers), sizes.seconds)

    return run


def syncing(path: Path, files: Files, sizes: Sizes, progress: Progress) -> Round:
    """A round in which a bare loop appends the record of a send and syncs it, one after another."""
    payload = encode_payload(Message(TOPIC, BODY), 1_700_000_000_000, f"{0:024x}")
    record = encode_record(1, 0, 0, 1_700_000_000_000, 0, 0, 0, payload)

    def append_and_sync() -> float:
        fd = files.open(path, create=True)
        try:
            position, done, started = files.size(fd), 0, time.perf_counter()
            while time.perf_counter() - started < sizes.seconds:
                files.write_all(fd, record, position)
                files.sync(fd)
                position += len(record)
                done += 1
            return done / (time.perf_counter() - started)
        finally:
            files.close(fd)

    async def run() -> float:
        progress("one sync for each message")
        return await asyncio.get_running_loop().run_in_executor(None, append_and_sync)

    return run
