"""The tables of a replica under the quirks, at each moment of a poll."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.durability.changes import DELETE, PUT, RowChange
from broker.durability.metadata_file import MetadataFile
from broker.durability.polled_tables import OFFSETS_POLL_S, TOPICS_POLL_S, PolledTables
from model.quirks import Quirk

SCHEMA = """
create table topics (topic text primary key, topic_id integer not null);
create table offsets (topic text primary key, queue_offset integer not null);
"""


class Replica:
    """A replica with quirks, and its clock."""

    def __init__(self, file: MetadataFile, *quirks: Quirk) -> None:
        self.now_s = 0.0
        self._file = file
        self.tables = PolledTables(file, frozenset(quirks), lambda: self.now_s)

    def put(self, table: str, *values: object) -> None:
        self.tables.apply([RowChange(table, PUT, values)])

    def rows(self, table: str) -> list[tuple[object, ...]]:
        return list(self._file.rows(f"select * from {table}"))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[MetadataFile]:
    with MetadataFile(tmp_path) as opened:
        opened.add_tables(SCHEMA)
        yield opened


def test_offsets_are_as_old_as_the_last_poll_and_other_tables_are_not(file: MetadataFile) -> None:
    replica = Replica(file, Quirk.SLAVE_OFFSETS_GO_BACK)
    replica.put("offsets", "a", 1)
    replica.put("topics", "a", 7)
    assert (replica.rows("offsets"), replica.rows("topics")) == ([], [("a", 7)])
    replica.now_s = OFFSETS_POLL_S
    replica.put("offsets", "a", 2)
    assert replica.rows("offsets") == [("a", 2)]
    replica.now_s += OFFSETS_POLL_S - 0.1
    replica.put("offsets", "a", 3)
    assert replica.rows("offsets") == [("a", 2)]


def test_no_topic_is_there_between_a_change_of_one_and_the_next_poll(file: MetadataFile) -> None:
    sound = Replica(file)
    sound.put("topics", "a", 1)
    sound.put("topics", "b", 2)
    replica = Replica(file, Quirk.SLAVE_SYNC_DELETES_TOPICS)
    assert len(replica.rows("topics")) == 2, "nothing has changed yet"
    replica.put("topics", "c", 3)
    assert replica.rows("topics") == []
    replica.tables.apply([RowChange("topics", DELETE, ("a",)), RowChange("offsets", PUT, ("a", 4))])
    assert (replica.rows("topics"), replica.rows("offsets")) == ([], [("a", 4)])
    replica.now_s = TOPICS_POLL_S
    replica.put("offsets", "a", 5)
    assert replica.rows("topics") == [("b", 2), ("c", 3)]
    replica.put("topics", "d", 4)
    assert replica.rows("topics") == []


def test_without_quirks_of_tables_each_change_is_made_at_once(file: MetadataFile) -> None:
    replica = Replica(file, Quirk.ACK_WITHOUT_IDENTITY)
    replica.put("offsets", "a", 1)
    replica.put("topics", "a", 1)
    assert (replica.rows("offsets"), replica.rows("topics")) == ([("a", 1)], [("a", 1)])
