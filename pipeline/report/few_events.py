"""Reads the events of rare kinds from the table of all events; most of its row groups have none of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from model.events import Event
from pipeline.arrow_arrays import texts


def events_of(folder: Path, kinds: frozenset[str]) -> Iterator[Event]:
    """Yield the events of these kinds in the table `events`, file by file, so not in order of time."""
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path, read_dictionary=["kind"]) as file:
            for number in range(file.num_row_groups):
                chunks = file.read_row_group(number, ["kind"])["kind"].chunks
                if all(kinds.isdisjoint(chunk.dictionary.to_pylist()) for chunk in chunks):
                    continue
                read = file.read_row_group(number, list(Event._fields))
                is_wanted = pc.is_in(read["kind"].cast(pa.string()), value_set=texts(sorted(kinds)))
                for row in read.filter(is_wanted).to_pylist():
                    yield Event(**row)
