from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pipeline.trace.files
from model.errors import ConfigError
from model.event_log import encode_events
from model.events import Event
from pipeline.trace.alone import is_for_one_process
from pipeline.trace.files import EVENT_SCHEMA, PIECE_BYTES, read_file, read_lines, read_pieces, split_files

EVENTS = [Event(float(n), "n" * (n % 7 + 1), n, "MEMBER_JOIN", detail="x" * (n % 5)) for n in range(40)]


def read_all(paths: list[Path]) -> list[list[int]]:
    """The numbers of the events in each task."""
    tasks = split_files(paths)
    assert tasks is not None
    return [[n for table in read_pieces(task) for n in table["seq"].to_pylist()] for task in tasks]


@given(size=st.integers(1, 400), whole=st.booleans())
def test_each_line_is_in_one_piece_wherever_a_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, size: int, whole: bool
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    path.write_bytes(encode_events(EVENTS[:7]).removesuffix(b"" if whole else b"\n"))  # a piece is a task: some ms
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline.trace.files, "PIECE_BYTES", size)
        tasks = read_all([path])
    assert [n for task in tasks for n in task] == list(range(7))
    assert len(tasks) == -(-path.stat().st_size // size)


def test_a_line_that_is_not_an_event_is_a_row_of_nulls_in_its_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(encode_events(EVENTS[:1]) + b'{"t_ms": 1}\n' + encode_events(EVENTS[1:2]) + b'{"t_ms": tr')
    for size in (50, PIECE_BYTES):
        monkeypatch.setattr(pipeline.trace.files, "PIECE_BYTES", size)
        assert [n for task in read_all([path]) for n in task] == [0, None, 1, None]


@pytest.mark.parametrize(
    "value", ['"seq": 1180591620717411303424', '"t_ms": -9223372036854775809', r'"node": "\ud800"']
)
def test_a_line_with_a_value_that_no_column_can_have_is_a_row_of_nulls_there_alone(value: str) -> None:
    """It ended a report with an error of Python, and no word of the trace."""
    line = json.dumps(Event(1.0, "n", 2, "K")._asdict())
    wrong = re.sub(value.partition(" ")[0] + r" [^,]+", lambda _: value, line)
    assert wrong != line
    read = read_lines(f"{line}\n{wrong}\nno JSON\n".encode())
    column = value.partition(":")[0].strip('"')
    assert read[column].to_pylist() == [getattr(Event(1.0, "n", 2, "K"), column), None, None]


def test_row_groups_of_a_folder_of_parquet_are_pieces_that_tasks_share_by_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.Table.from_pylist([event._asdict() for event in EVENTS], EVENT_SCHEMA)
    pq.write_table(table, tmp_path / "part-0.parquet", row_group_size=10)
    (tmp_path / "_SUCCESS").touch()
    monkeypatch.setattr(pipeline.trace.files, "PIECE_ROWS", 30)
    assert [len(task) for task in read_all([tmp_path])] == [30, 10]


@pytest.mark.parametrize("name", ["_spark_metadata/0", "day=1/part-0.parquet", "part-0.json"])
def test_a_folder_in_which_other_than_files_of_parquet_counts_is_for_spark(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert split_files([tmp_path]) is None


def test_compressed_lines_are_for_spark_because_no_one_can_begin_in_the_middle(tmp_path: Path) -> None:
    assert split_files([tmp_path / "trace.jsonl.gz"]) is None


def test_what_is_not_parquet_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    path.write_bytes(b"{}")
    for read in (read_file, lambda path: split_files([path]), lambda path: is_for_one_process([path])):
        with pytest.raises(ConfigError, match=r"trace\.parquet is not a trace in Parquet"):
            read(path)
