"""What is in flight by POP, in the metadata file: a snapshot of each window, and a journal of what changed since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.durability.metadata import Journal, MetadataStore, Table
from broker.pop.journal import WindowRow

_SCHEMA = """
create table if not exists pop_windows (
    number integer primary key, group_name text not null, topic text not null, queue_id integer not null,
    data blob not null
);
create table if not exists pop_journal (seq integer primary key, data blob not null);
"""


class PopStore:
    """Reads and changes the two tables.

    Attributes:
        journal: of the entries since the snapshot.
    """

    def __init__(self, metadata: MetadataStore) -> None:
        metadata.add_tables(_SCHEMA)
        self._windows = Table(metadata, "pop_windows")
        self.journal = Journal(metadata, "pop_journal")

    def windows(self) -> Iterator[WindowRow]:
        """The last snapshot."""
        return (WindowRow(*row) for row in self._windows.rows("number"))

    def save_windows(self, rows: Iterable[WindowRow]) -> None:
        """Store a snapshot in the place of the journal, whose entries it has in it."""
        self.journal.clear()
        self._windows.replace_all(rows)
