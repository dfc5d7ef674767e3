"""recovery: time that a killed broker takes to serve again.

Every row is the fastest of a few restarts after SIGKILL, because other load can only add time: from the start of the
process to its announcement. A restart reads the log written since the last checkpoint, which is the last segment with
an index file (`broker/store/recovery.py`); a broker that stopped or recovered has index files for all segments. So

    recovery-stored-1x, 4x, 16x       little written since, more and more stored before: the same time
    recovery-since-1, 4, 16, 60       the same stored before, more and more (MiB) written since: more time

The baseline of a row is the first of its kind. The pages of the files are in memory, as they are after a kill.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anyio import to_thread

from broker.store.segments.segment import INDEX_SUFFIX, LOG_SUFFIX
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.filling import fill_topic
from testbed.bench.kit.processes import broker_process, create_topics, kill, name_server_process, temporary_folder
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import MIB, Progress, Sizes
from testbed.bench.throughput.send import QUEUES

STORED = (1, 4, 16)
"""Multiples of `Sizes.recovery_bytes` stored before the checkpoint, with little written since."""
SINCE = (1, 4, 16, 60)
"""64ths of `Sizes.recovery_bytes`, by default a segment, written since the checkpoint."""
_RECORD_BYTES = 343
"""Size in the log of the messages that are sent here."""


async def bench_recovery(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure restarts."""
    async with name_server_process(quiet=True) as name_server:
        stored = await _by_stored(name_server, sizes, progress)
        since = await _by_since(name_server, sizes, progress)
    return make_results(stored) + make_results(since)


@dataclass(slots=True, kw_only=True)
class Row:
    """Restarts of one kind; the sizes are those at the last of them."""

    name: str
    times_s: list[float] = field(default_factory=list)
    stored_bytes: int = 0
    since_bytes: int = 0  # of segments without an index, which a restart has to read

    async def add(self, name_server: str, folder: Path) -> None:
        """Restart a broker that was killed."""
        sizes = await to_thread.run_sync(log_sizes, folder)
        self.stored_bytes, self.since_bytes = sizes
        self.times_s.append(await restart(name_server, folder))


def log_sizes(folder: Path) -> tuple[int, int]:
    """Bytes of the log in a folder, and of its segments without an index."""
    logs = {log: log.stat().st_size for log in folder.glob(f"*{LOG_SUFFIX}")}
    since = sum(size for log, size in logs.items() if not log.with_suffix(INDEX_SUFFIX).exists())
    return sum(logs.values()), since


def make_results(rows: Sequence[Row]) -> list[Result]:
    """Make results; the first row is the baseline of all rows."""
    first = min(rows[0].times_s)
    return [
        Result(
            name=row.name,
            value=min(row.times_s) * 1000,
            unit="ms",
            baseline_value=first * 1000,
            ratio=min(row.times_s) / first,
            note=f"{row.since_bytes / MIB:,.1f} MiB to read of {row.stored_bytes / MIB:,.0f} MiB stored",
        )
        for row in rows
    ]


async def _by_stored(name_server: str, sizes: Sizes, progress: Progress) -> list[Row]:
    little = sizes.recovery_bytes * SINCE[0] // 64
    rows: list[Row] = []
    stored = 0
    async with temporary_folder() as folder:
        for factor in STORED:
            target_bytes = factor * sizes.recovery_bytes
            await write(name_server, folder, target_bytes - stored, progress)
            stored = target_bytes + sizes.passes * little
            rows.append(Row(name=f"recovery-stored-{factor}x"))
            for number in range(sizes.passes):
                await write(name_server, folder, little, progress, to_be_killed=True)
                progress(f"{factor} × stored: restart {number + 1} of {sizes.passes}")
                await rows[-1].add(name_server, folder)
    return rows


async def _by_since(name_server: str, sizes: Sizes, progress: Progress) -> list[Row]:
    rows: list[Row] = []
    async with temporary_folder() as folder:
        await write(name_server, folder / "before", 2 * sizes.recovery_bytes, progress)
        for part in SINCE:
            rows.append(Row(name=f"recovery-since-{part}"))
            for number in range(sizes.passes):
                copy = folder / "copy"
                await to_thread.run_sync(shutil.copytree, folder / "before", copy)
                await write(name_server, copy, sizes.recovery_bytes * part // 64, progress, to_be_killed=True)
                progress(f"{part}/64 written since: restart {number + 1} of {sizes.passes}")
                await rows[-1].add(name_server, copy)
                await to_thread.run_sync(shutil.rmtree, copy)
    return rows


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
