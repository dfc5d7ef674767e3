"""Stores the invisible messages in the metadata: a snapshot of each window, and a journal of the changes since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.durability.metadata import Journal, MetadataStore, Table
from broker.pop.journal import Times, WindowRow
from broker.pop.ledger import PopLedger
from model.errors import StorageFull
from model.limits import MAX_POP_BACKLOG, MAX_POP_JOURNAL_BYTES

_SCHEMA = """
create table if not exists pop_windows (
    number integer primary key, group_name text not null, topic text not null, queue_id integer not null,
    data blob not null
);
create table if not exists pop_journal (seq integer primary key, data blob not null);
"""


class PopStore:
    """The two tables of POP. When the journal has `journal_limit` bytes, a new snapshot has to be stored."""

    def __init__(self, metadata: MetadataStore) -> None:
        metadata.add_tables(_SCHEMA)
        self._windows = Table(metadata, "pop_windows", replicated=True)
        self.journal_limit = MAX_POP_JOURNAL_BYTES
        self.journal = Journal(metadata, "pop_journal", replicated=True)

    def windows(self) -> Iterator[WindowRow]:
        """The last snapshot."""
        return (WindowRow(*row) for row in self._windows.rows("number"))

    def check_backlog(self) -> None:
        """Check that changes can be stored.

        Raises:
            StorageFull: the disk has taken none for a while.
        """
        if len(self.journal.pending) > MAX_POP_BACKLOG:
            raise StorageFull("the broker cannot store which messages are invisible: make room on its disk")

    def compact_if_long(self, ledger: PopLedger, times: Times) -> None:
        """Store a new snapshot once the journal has become long."""
        if self.journal.written_bytes > self.journal_limit:
            self.compact(ledger, times)

    def compact(self, ledger: PopLedger, times: Times) -> None:
        """Store a new snapshot of every window in the place of the journal."""
        self.save_windows(ledger.snapshot(times))

    def save_windows(self, rows: Sequence[WindowRow]) -> None:
        """Store a snapshot in the place of the journal, whose entries are part of it."""
        self.journal_limit = max(MAX_POP_JOURNAL_BYTES, 2 * sum(len(row.data) for row in rows))
        self.journal.clear()
        self._windows.replace_all(rows)
