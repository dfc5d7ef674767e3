"""Plans the tasks of a read, and reads the ranges of a task on an executor, for batches and streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from model.errors import RlabError
from pipeline.python_worker import no_search_for_cycles
from pipeline.source.columns import arrow_batches
from pipeline.source.offsets import Range, join_pieces, join_small, split
from pipeline.source.options import SourceOptions
from pipeline.source.queue_reader import QueueReader
from pipeline.wire import WireClient

CORES_VARIABLE = "RLAB_SPARK_CORES"
"""Environment variable in which a session with a local master passes the number of its tasks at a time to planners."""
UNKNOWN_CORES = 16
"""Assumed number of cores of a session that does not pass it: rather too many tasks than idle executors."""
SMALL_TASK_ROWS = 1_000
"""Ranges share a task of at least this many messages: a task costs Spark as much as ten thousand messages."""
JOINED_ROWS = 50_000
"""Maximum number of messages of a task that ranges share; low, because a query may be slower than the read."""
JOINED_BYTES = 64 * 1024 * 1024
"""Approximate maximum number of bytes of a task that ranges share."""
_SAMPLES = 8
"""Maximum number of ranges from which the mean size of a message is estimated."""
NO_MASTERS: Mapping[str, str] = {}


class QueueRanges(InputPartition):
    """The ranges of one task. They have the names of brokers; the executor looks up the addresses.

    `masters` has the addresses that the driver knows, in case no name server answers the executor.
    """

    def __init__(self, ranges: tuple[Range, ...], masters: Mapping[str, str] = NO_MASTERS) -> None:
        super().__init__(ranges)
        self.ranges = ranges
        names = dict.fromkeys(each.queue.broker_name for each in ranges)
        self.masters = {name: masters[name] for name in names if name in masters}


def plan_tasks(
    ranges: Iterable[Range],
    options: SourceOptions,
    bytes_of: Callable[[list[Range]], float] = lambda some: 0.0,
    masters: Mapping[str, str] = NO_MASTERS,
    cores: int = UNKNOWN_CORES,
) -> list[InputPartition]:
    """Distribute the ranges over tasks, according to the options; `masters` is for `QueueRanges`.

    `bytes_of` returns the mean size of a message in some of the ranges; it is called if they may share a task. Of few
    messages there are as many tasks as `cores` run at a time, because each further task only adds its cost.
    """
    pieces = split(ranges, options.min_partitions, options.max_rows_per_partition)
    tasks: list[tuple[Range, ...]] = [(piece,) for piece in pieces]
    # minPartitions requests many small tasks, so none are joined.
    if pieces and not options.min_partitions:
        tasks = _shared(pieces, options, bytes_of, cores)
    if options.max_partitions is not None and len(tasks) > options.max_partitions:
        tasks = join_pieces(pieces, options.max_partitions)
    return [QueueRanges(task, masters) for task in tasks]


def session_cores() -> int:
    """Return the number of tasks that the session runs at a time, if it passed the number to this process."""
    text = os.environ.get(CORES_VARIABLE, "")
    return max(1, int(text)) if text.isascii() and text.isdigit() else UNKNOWN_CORES


def _shared(
    pieces: list[Range], options: SourceOptions, bytes_of: Callable[[list[Range]], float], cores: int
) -> list[tuple[Range, ...]]:
    """Join pieces to tasks of a number of messages that suits the cores."""
    total = sum(piece.end - piece.start for piece in pieces)
    rows = max(SMALL_TASK_ROWS, min(JOINED_ROWS, -(-total // cores)))
    if rows > SMALL_TASK_ROWS and len(pieces) * rows > total:
        size = bytes_of(pieces[:: -(-len(pieces) // _SAMPLES)])
        rows = max(SMALL_TASK_ROWS, min(rows, int(JOINED_BYTES / size))) if size else rows
    max_rows = options.max_rows_per_partition
    return join_pieces(pieces, -(-total // rows)) if max_rows is None else join_small(pieces, min(max_rows, rows))


def sampled_bytes(client: WireClient, options: SourceOptions, some: list[Range]) -> float:
    """Return the mean size of the first messages of some ranges; 0 if none can be read, which the tasks report."""
    sizes = []
    for each in some:
        first = Range(each.queue, each.start, each.start + 1)
        with suppress(RlabError):
            pulled = next(QueueReader(client, first, options).pulls(), None)
            sizes.append(len(pulled.body) if pulled is not None else 0)
    return sum(sizes) / len(sizes) if sizes else 0.0


def open_client(options: SourceOptions) -> WireClient:
    """Create a client with the name servers, timeout and retries of the options."""
    return WireClient(
        options.name_servers,
        timeout_s=options.pull_timeout_s,
        retries=options.fetch_retries,
        access=options.access,
    )


def read_ranges(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """Read the ranges of a task as Arrow batches. Runs on an executor."""
    # If a plan has no partitions, pyspark 4.3 passes an object of another class.
    if not isinstance(partition, QueueRanges):
        return
    with no_search_for_cycles(), open_client(options) as client:
        client.last_masters.update(partition.masters)
        readers = [QueueReader(client, queue_range, options) for queue_range in partition.ranges]
        for reader, following in zip(readers, [*readers[1:], None], strict=True):
            pulled = reader.pulls(following)
            yield from arrow_batches(reader.queue, reader.end, pulled, options, schema)
