r"""Reads the files of a trace with Arrow, whole or in pieces, without Spark: three times as fast as Spark for JSON.

A piece is a range of bytes of JSON Lines, with the lines that begin in it, or some row groups of a Parquet file.

    trace.jsonl   {"t_ms": 1, ...}\n{"t_ms": 2, ...}\n{"t_ms": 3, ...}\n
    pieces        |----------------------|---------------------|       the first one has two lines
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from model.errors import ConfigError
from model.events import Event
from pipeline import arrow_arrays
from pipeline.trace.rows import make_schema

EVENT_SCHEMA = make_schema(Event)
TEXTS = [field.name for field in EVENT_SCHEMA if pa.types.is_string(field.type)]
_CODE = pa.dictionary(pa.int32(), pa.string())
CODED = pa.schema([(field.name, _CODE if field.name in TEXTS else field.type) for field in EVENT_SCHEMA])
"""The columns of events, with each distinct text once."""
PIECE_BYTES = 64 * 1024 * 1024
"""Bytes of a piece: a fifth of a million events, a second of work."""
PIECE_ROWS = 500_000
_BLOCK_BYTES = 16 * 1024 * 1024
_COMPRESSED = {".bz2", ".deflate", ".gz", ".lz4", ".snappy", ".xz", ".zst"}
"""Spark and Arrow can read these files, but not from the middle."""
_EVENT_TYPES = get_type_hints(Event)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePiece:
    """A part of a file: a range of bytes or, of a Parquet file, of row groups."""

    path: str
    begin: int
    end: int


def split_files(paths: Sequence[Path]) -> list[list[TracePiece]] | None:
    """Return the pieces of a trace for each task; None if only Spark can read it: a stream's folder, compressed lines.

    Raises:
        ConfigError: a file is not Parquet.
    """
    files = plain_files(paths)
    if files is None:
        return None
    tasks: list[list[TracePiece]] = []
    room = 0
    for file in files:
        if file.suffix == ".parquet":
            read = read_metadata(file)
            for number in range(read.num_row_groups):
                rows = read.row_group(number).num_rows
                if not tasks or rows > room:
                    tasks.append([])
                    room = PIECE_ROWS
                room -= rows
                tasks[-1].append(TracePiece(path=str(file), begin=number, end=number + 1))
            continue
        size = file.stat().st_size
        for begin in range(0, size, PIECE_BYTES):
            tasks.append([TracePiece(path=str(file), begin=begin, end=min(begin + PIECE_BYTES, size))])
        room = 0
    return tasks


def plain_files(paths: Sequence[Path]) -> list[Path] | None:
    """Return the files of a trace; None if only Spark can read it: a stream's folder, compressed lines."""
    files = [file for path in paths for file in _files_in(path)]
    readable = [file for file in files if file is not None and file.suffix not in _COMPRESSED]
    return readable if len(readable) == len(files) else None


def _files_in(path: Path) -> Iterator[Path | None]:
    """Yield the files of a path; None for anything but files and plain folders of Parquet."""
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.iterdir()):
        if file.name == "_spark_metadata":
            yield None  # it lists the valid files
        elif not file.name.startswith(("_", ".")):
            yield file if file.suffix == ".parquet" and file.is_file() else None


def read_pieces(pieces: Iterable[TracePiece]) -> Iterator[pa.Table]:
    """Read some pieces; lines that are not events have nulls, and texts of Parquet files keep their dictionaries."""
    for piece in pieces:
        path = Path(piece.path)
        if path.suffix == ".parquet":
            groups = list(range(piece.begin, piece.end))
            with pq.ParquetFile(path, read_dictionary=TEXTS) as file:
                yield _of_events(path, CODED, partial(file.read_row_groups, groups))
        else:
            yield read_lines(_lines_from(path, piece.begin, piece.end))


def _lines_from(path: Path, begin: int, end: int) -> bytes:
    """Return the lines that begin in a range of bytes."""
    with path.open("rb") as file:
        if begin:
            file.seek(begin - 1)
            file.readline()
        n = end - file.tell()
        lines = file.read(n) if n > 0 else b""
        return lines if lines.endswith(b"\n") or not lines else lines + file.readline()


def read_lines(data: bytes) -> pa.Table:
    """Read JSON Lines; lines that are not events have nulls."""
    try:
        return _read_json(io.BytesIO(data))
    except pa.ArrowInvalid:
        # A line is broken, usually the last one of a process that died; only a slower reader can skip it.
        rows = [_columns_in(line) for line in data.split(b"\n") if line.strip()]
        return arrow_arrays.table(rows, EVENT_SCHEMA)


def read_file(path: Path) -> pa.Table:
    """Read a whole file, with all cores; lines that are not events have nulls.

    Raises:
        ConfigError: the file is not Parquet with the columns of events.
    """
    if path.suffix == ".parquet":
        return _of_events(path, EVENT_SCHEMA, partial(pq.read_table, path))
    try:
        return _read_json(path)
    except pa.ArrowInvalid:
        return read_lines(path.read_bytes())


def _read_json(source: Any) -> pa.Table:
    options = pa_json.ParseOptions(explicit_schema=EVENT_SCHEMA, unexpected_field_behavior="ignore")
    return pa_json.read_json(source, pa_json.ReadOptions(block_size=_BLOCK_BYTES), options)


def _of_events(path: Path, schema: pa.Schema, read: Callable[..., pa.Table]) -> pa.Table:
    try:
        return read(columns=schema.names).select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
        raise ConfigError(f"{path} is not a trace in Parquet: {error}") from error


def read_metadata(path: Path) -> pq.FileMetaData:
    """Read the metadata of a Parquet file, for instance the number of rows.

    Raises:
        ConfigError: the file is not Parquet.
    """
    try:
        return pq.read_metadata(path)
    except pa.ArrowInvalid as error:
        raise ConfigError(f"{path} is not a trace in Parquet: {error}") from error


def _columns_in(line: bytes) -> tuple[Any, ...]:
    """Return the columns of a line, or only None if the line is not an event."""
    try:
        read = json.loads(line)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        return (None,) * len(_EVENT_TYPES)
    return tuple(read[name] if _is(read.get(name), kind) else None for name, kind in _EVENT_TYPES.items())


def _is(value: object, kind: type) -> bool:
    """Whether a value has the type of a column and is in its range."""
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return kind is not str and -(2**63) <= value < 2**63
    if isinstance(value, str):
        # JSON can contain half of a surrogate pair, but UTF-8 cannot.
        return kind is str and not _SURROGATE.search(value)
    return isinstance(value, kind)


def other_lines(n: int) -> str:
    """Return the note about lines that are not events, e.g. the last line of a process that died."""
    return f"skipped lines of the trace that are not events: {n:,}"
