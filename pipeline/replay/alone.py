"""The what-if job for a trace that fits into this process: the same replays as in `job.py`, without Spark and Java.

The start of Spark takes longer than all replays of a short trace, because most rules give the same owners.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from model.events import Event
from pipeline.replay.job import Trials, TriedRules, costs_batch
from pipeline.replay.recorded import RecordedGroup
from pipeline.replay.rules import Rules
from pipeline.trace.alone import is_for_one_process, read_events
from pipeline.trace.files import other_lines, plain_files


def files_for_one_process(paths: Sequence[Path]) -> list[Path] | None:
    """Return the files of a trace, also those in folders; None if it has too many events, or only Spark can read it.

    Raises:
        ConfigError: a file with the name of a Parquet file is not Parquet.
    """
    files = plain_files(paths)
    return files if files is not None and is_for_one_process(files) else None


def collect_events(files: Sequence[Path], report: Callable[[str], object] = lambda note: None) -> list[Event]:
    """Read the events of trace files; see `job.collect_events`."""
    events, others = read_events(files)
    if others:
        report(other_lines(others))
    return events


def try_all(recorded: RecordedGroup, rules: Sequence[Rules], capacity_per_s: float | None = None) -> list[TriedRules]:
    """Replay a trace under each of these rules, in their order."""
    return Trials(recorded, capacity_per_s).run(rules)


def write_costs(tried: Sequence[TriedRules], folder: Path) -> None:
    """Write the table of `job.try_all` to a folder, which is replaced, as Parquet."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_batches([costs_batch(list(enumerate(tried)))]), folder / "part-0.parquet")
