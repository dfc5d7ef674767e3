"""recovery: how long a broker that was killed takes to serve again.

Every row is the median of a few restarts after SIGKILL, from the start of the process to the line that says that it
serves. What it has to read is what was written since the last checkpoint, that is since the last segment with an index
file (`broker/store/recovery.py`); a broker that stopped or recovered has one for all that it stored. So

    recovery-stored-1x, 4x, 16x       little written since, more and more stored before: the same time
    recovery-since-1, 4, 16, 60       the same stored before, more and more (MiB) written since: more time

The baseline of a row is the first of its kind. The pages of the files are in memory, as they are after a kill.
"""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path

from anyio import to_thread

from cli.bench.echo import BODY, TOPIC
from cli.bench.filling import fill_topic
from cli.bench.processes import broker_process, create_topics, kill, name_server_process, temporary_folder
from cli.bench.report import Result
from cli.bench.rounds import Progress, Sizes
from cli.bench.send import QUEUES

STORED = (1, 4, 16)
"""Multiples of `Sizes.recovery_bytes` that are stored when little was written since."""
SINCE = (1, 4, 16, 60)
"""64ths of `Sizes.recovery_bytes`, which is a segment by default, that were written since."""
_RECORD_BYTES = 343
"""Of the messages that are sent here, in the log."""


async def bench_recovery(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure restarts.

    Raises:
        RlabError: a broker did not start, or a send failed.

    Cancellation: every process is stopped and the files are removed.
    """
    async with name_server_process(quiet=True) as name_server:
        stored = await _by_stored(name_server, sizes, progress)
        since = await _by_since(name_server, sizes, progress)
    return results_of("recovery-stored-{}x", stored) + results_of("recovery-since-{}", since)


def results_of(name: str, times: dict[int, list[float]]) -> list[Result]:
    """Make rows, named by their number, of seconds that restarts took; the first is the baseline of all."""
    medians = {number: statistics.median_low(each) for number, each in times.items()}
    first = next(iter(medians.values()))
    return [
        Result(
            name=name.format(number), value=median * 1000, unit="ms", baseline_value=first * 1000, ratio=median / first
        )
        for number, median in medians.items()
    ]


async def _by_stored(name_server: str, sizes: Sizes, progress: Progress) -> dict[int, list[float]]:
    little = sizes.recovery_bytes * SINCE[0] // 64
    times: dict[int, list[float]] = {}
    stored = 0
    async with temporary_folder() as folder:
        for factor in STORED:
            wanted = factor * sizes.recovery_bytes
            await write(name_server, folder, wanted - stored, progress)
            stored = wanted + sizes.passes * little
            times[factor] = []
            for number in range(sizes.passes):
                await write(name_server, folder, little, progress, to_be_killed=True)
                progress(f"{factor} × stored: restart {number + 1} of {sizes.passes}")
                times[factor].append(await restart(name_server, folder))
    return times


async def _by_since(name_server: str, sizes: Sizes, progress: Progress) -> dict[int, list[float]]:
    times: dict[int, list[float]] = {}
    async with temporary_folder() as folder:
        await write(name_server, folder / "before", 2 * sizes.recovery_bytes, progress)
        for part in SINCE:
            times[part] = []
            for number in range(sizes.passes):
                copy = folder / "copy"
                await to_thread.run_sync(shutil.copytree, folder / "before", copy)
                await write(name_server, copy, sizes.recovery_bytes * part // 64, progress, to_be_killed=True)
                progress(f"{part}/64 written since: restart {number + 1} of {sizes.passes}")
                times[part].append(await restart(name_server, copy))
                await to_thread.run_sync(shutil.rmtree, copy)
    return times


async def write(name_server: str, folder: Path, size: int, progress: Progress, *, to_be_killed: bool = False) -> None:
    """Run a broker, store about `size` bytes, and end it."""
    async with broker_process(name_server, folder) as broker:
        await create_topics(name_server, {TOPIC: QUEUES})
        await fill_topic(name_server, BODY, max(1, size // _RECORD_BYTES), progress)
        if to_be_killed:
            await kill(broker)


async def restart(name_server: str, folder: Path) -> float:
    """Start a broker and stop it again; returns the seconds until it served."""
    started = time.perf_counter()
    async with broker_process(name_server, folder):
        return time.perf_counter() - started
