"""The small transactional state of a broker: one SQLite file, in which each room has its own tables.

Changes are collected by the handlers of one event-loop iteration and committed together by the write barrier, before
anybody is answered. `metadata_file.py` says what a commit survives.

A room declares its tables by their schema, and changes them row by row:

    metadata.add_tables("create table if not exists offsets (... primary key (group_name, topic, queue_id)) ...")
    offsets = Table(metadata, "offsets", replicated=True)
    offsets.put("g", "t", 0, 42)            # takes effect at the next commit, as do the next two
    offsets.delete("g", "t", 0)
    offsets.delete_where("topic", "t")
    offsets.rows()                          # the committed rows

Where a broker has replicas, `replicated` rows are the same at each of them: a commit also returns its changes as values
(`changes.py`), and a replica that joins begins with a snapshot of these tables (`snapshot.py`). The last reading of a
machine's clock, for instance, is not replicated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgpack

from broker.durability.changes import APPEND, CLEAR, DELETE, DELETE_WHERE, PUT, SYNC, RowChange, Statement, delete_where
from broker.durability.metadata_file import MetadataFile
from broker.durability.snapshot import NUMBERS
from broker.store.disk.files import Files
from model.errors import RlabError
from model.record import FlushMode

_ALL_NUMBERS = "select name, value from numbers"


class MetadataStore(MetadataFile):
    """The metadata of a running broker: its rooms declare their tables and change rows, the barrier commits them."""

    def __init__(self, directory: Path, *, flush: FlushMode = FlushMode.ASYNC, files: Files | None = None) -> None:
        super().__init__(directory, flush=flush, files=files)
        self._must_sync = False
        # (table, primary key) -> the newest change of that row, in the order of those changes. One for each row: a disk
        # that stays full for hours must not make a list of every commit of those hours.
        self._pending: dict[tuple[object, ...], tuple[Statement, tuple[object, ...]]] = {}
        self._journals: list[Journal] = []
        self._replicated: dict[tuple[str, str], bool] = {}  # (table, number or "") -> whether it is
        self._recorded: list[RowChange] | None = None
        self._refusal: RlabError | None = None

    def __exit__(self, *_error: object) -> None:
        # A broker that could not be made may have scheduled a commit, which must find nothing to do.
        self._pending.clear()
        for journal in self._journals:
            journal.pending.clear()
        super().__exit__()

    def add_journal(self, journal: Journal) -> None:
        """Write the entries of a journal with each commit from now on."""
        self._journals.append(journal)

    def declare(self, table: str, number: str = "", *, replicated: bool) -> None:
        """Note whether replicas have a table, or one of the numbers; called by `Table` and `StoredNumber`."""
        declared = self._replicated.setdefault((table, number), replicated)
        assert declared is replicated, f"{table} {number} is declared in two ways"

    @property
    def declared(self) -> dict[tuple[str, str], bool]:
        """(table, name of a number or "") -> whether replicas have it."""
        return dict(self._replicated)

    def change(self, row: tuple[object, ...], statement: Statement, *values: object) -> None:
        """Execute a statement for a row (table, primary key) with the next commit; of two for a row the newer one."""
        # The change goes to the end, and not to the place of the earlier one: its topic may have been deleted since.
        self._pending.pop(row, None)
        self._pending[row] = (statement, values)

    def drop_changes(self, table: str) -> None:
        """Forget the changes of a table's rows that are not committed yet."""
        for row in [row for row in self._pending if row[0] == table]:
            del self._pending[row]

    def sync_next_commit(self) -> None:
        """Let the next commit wait for the disk in any flush mode: messages are lost without it."""
        self._must_sync = True

    def refuse_commits(self, refusal: RlabError) -> None:
        """Commit nothing from now on, because the file may be another broker's now; each commit raises this error."""
        self._refusal = refusal

    def commit(self) -> None:
        """Make everything since the last commit durable, in one transaction.

        Raises:
            RlabError: the one of `refuse_commits`.
            StorageFull: no room on the disk; the changes stay pending, and the next commit tries them again.
            ServiceNotAvailable: the file system is read-only; likewise.
            SystemError_: the database failed otherwise; likewise.
        """
        journals = [(journal, msgpack.packb(journal.pending)) for journal in self._journals if journal.pending]
        if not self._pending and not journals:
            return
        if self._refusal is not None:
            raise self._refusal
        statements = [(statement.sql, values) for statement, values in self._pending.values()]
        # Behind the changes: a snapshot among them is older than these.
        statements += [(journal.insert.sql, (data,)) for journal, data in journals]
        self._write(statements, must_sync=self._must_sync)
        if self._recorded is not None:
            self._record(self._recorded, journals)
        self._must_sync = False
        self._pending.clear()
        for journal, data in journals:
            journal.pending.clear()
            journal.written_bytes += len(data)

    # --- replicas ----------------------------------------------------------------------------------------------------

    def record_changes(self) -> None:
        """Keep the replicated changes of each commit from now on, for `collect_changes`."""
        self._recorded = []

    def collect_changes(self) -> list[RowChange]:
        """Return the replicated changes that were committed since the last call, in their order."""
        changes, self._recorded = self._recorded or [], []
        return changes

    def _record(self, changes: list[RowChange], journals: list[tuple[Journal, bytes]]) -> None:
        n_before = len(changes)
        changes += [each.change(values) for each, values in self._pending.values() if each.replicated]
        changes += [journal.insert.change((data,)) for journal, data in journals if journal.insert.replicated]
        if self._must_sync and len(changes) > n_before:
            changes.append(RowChange("", SYNC, ()))

    def snapshot(self) -> Iterator[bytes]:
        """Copy the committed rows of all replicated tables and numbers now; returns the chunks of the copy.

        Raises:
            StorageFull, SystemError_: the copy could not be made.
        """
        tables = [table for (table, number), replicated in self._replicated.items() if replicated and not number]
        numbers = [number for (_, number), replicated in self._replicated.items() if replicated and number]
        return self.copy_tables(sorted({*tables, NUMBERS}), sorted(numbers))


class Table:
    """A table of a room, which `add_tables` made. Its columns are those of its schema, the primary key first.

    `replicated`: whether each replica of the broker has the same rows.
    """

    def __init__(self, metadata: MetadataStore, name: str, *, replicated: bool) -> None:
        metadata.declare(name, replicated=replicated)
        self._metadata = metadata
        self._change = metadata.change
        self._name = name
        self._replicated = replicated
        shape = metadata.shape(name)
        self._n_key = len(shape.key)
        self._select = f"select {', '.join(column.name for column in shape.columns)} from {name}"
        self._put = Statement(shape.sql(PUT), name, PUT, replicated)
        self._delete = Statement(shape.sql(DELETE), name, DELETE, replicated)
        self._clear = Statement(shape.sql(CLEAR), name, CLEAR, replicated)

    def rows(self, order: str = "") -> Iterator[tuple[Any, ...]]:
        """All committed rows; sorted by these columns, if any are named."""
        return self._metadata.rows(f"{self._select} order by {order}" if order else self._select)

    def put(self, *row: object) -> None:
        """Add a row, or replace the one with its key."""
        self._change((self._name, *row[: self._n_key]), self._put, *row)

    def delete(self, *key: object) -> None:
        """Delete the row with a key, if there is one."""
        self._change((self._name, *key), self._delete, *key)

    def delete_where(self, column: str, value: object) -> None:
        """Delete every row that has a value in a column, also those that are put but not committed yet."""
        sql = delete_where(self._name, column)
        statement = Statement(sql, self._name, DELETE_WHERE, self._replicated, column)
        self._change(((self._name, column), value), statement, value)

    def replace_all(self, rows: Iterable[tuple[object, ...]]) -> None:
        """Replace the whole table."""
        self._metadata.drop_changes(self._name)
        self._change((self._name,), self._clear)
        for row in rows:
            self.put(*row)


class StoredNumber:
    """A number that is stored under a name; `replicated` as of a table."""

    def __init__(self, metadata: MetadataStore, name: str, *, replicated: bool) -> None:
        metadata.declare(NUMBERS, name, replicated=replicated)
        self._metadata = metadata
        self._name = name
        self._put = Statement("insert or replace into numbers values (?, ?)", NUMBERS, PUT, replicated)

    def read(self) -> int:
        """The committed number, 0 if it was never stored."""
        return next((int(value) for name, value in self._metadata.rows(_ALL_NUMBERS) if name == self._name), 0)

    def save(self, value: int) -> None:
        """Store a number with the next commit."""
        self._metadata.change((NUMBERS, self._name), self._put, self._name, value)


class Journal:
    """Entries in the order in which they were appended; all entries of a commit are one row of a table (seq, data).

    `replicated` as of a table.
    """

    def __init__(self, metadata: MetadataStore, table: str, *, replicated: bool) -> None:
        self.pending: list[tuple[Any, ...]] = []  # entries that are not committed yet: many, if the disk is full
        self.written_bytes = 0  # size of what this run has written since the journal was last cleared
        self.append = self.pending.append
        self._rows = Table(metadata, table, replicated=replicated)
        self.insert = Statement(metadata.shape(table).sql(APPEND), table, APPEND, replicated)
        metadata.add_journal(self)

    def entries(self) -> Iterator[tuple[Any, ...]]:
        """All committed entries, in order."""
        for _, data in self._rows.rows("seq"):
            entries: Any = msgpack.unpackb(data, use_list=False)
            yield from entries

    def clear(self) -> None:
        """Delete all entries with the next commit, also those that are not committed yet."""
        self.pending.clear()
        self.written_bytes = 0
        self._rows.replace_all(())
