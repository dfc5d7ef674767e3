"""The small transactional state of a broker: one SQLite file, in which each room has its own tables.

Changes are collected by the handlers of one event-loop iteration and committed together by the write barrier, before
anybody is answered. With a write-ahead log and `FlushMode.ASYNC` (`synchronous = NORMAL`) a killed process loses
nothing, and a power cut may lose the last commits, as it may lose messages. With `FlushMode.SYNC` (`FULL`) each commit
is on the disk when it returns: a message whose topic is lost is lost. That sync is waited for on the event loop;
changes are rare beside messages.

A room declares its tables by their schema, and changes them row by row:

    metadata.add_tables("create table if not exists offsets (... primary key (group_name, topic, queue_id)) ...")
    offsets = Table(metadata, "offsets")
    offsets.put("g", "t", 0, 42)            # takes effect at the next commit, as do the next two
    offsets.delete("g", "t", 0)
    offsets.delete_where("topic", "t")
    offsets.rows()                          # the committed rows
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack

from broker.store.disk.directory import METADATA_NAME, to_store_error
from broker.store.disk.errors import StoreError, StoreNotWritable
from broker.store.disk.files import Files
from model.errors import ConfigError, InvalidParameter, RlabError, ServiceNotAvailable, StorageFull, SystemError_
from model.record import FlushMode

_CHECKPOINT_PAGES = 4_000
"""Pages of 4 KiB in the write-ahead log before SQLite moves them to the file. It syncs then, and the loop waits: with
its own 1,000, a group that pops at full speed would stand still four times as often."""

_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises about a damaged file; the second if its own message quotes a damaged name."""
_DAMAGES = (*_UNREADABLE, InvalidParameter, SystemError_, ValueError, TypeError, LookupError, msgpack.UnpackException)
"""What a feature raises that loads a damaged row: another type, no msgpack, a name that is not legal or not there."""

_SCHEMA = "create table if not exists numbers (name text primary key, value integer not null);"


class MetadataStore:
    """The open file in a broker's data directory, which the message store has already locked; a context manager.

    `flush` says what a commit has to survive, and `files` is asked whether the file may be written.

    Raises:
        ConfigError: the file cannot be opened or written, or is not a database; the text says what to do.
    """

    def __init__(self, directory: Path, *, flush: FlushMode = FlushMode.ASYNC, files: Files | None = None) -> None:
        path = directory / METADATA_NAME
        self._files = files or Files()
        _check_writable(path, self._files)
        self.path = path
        self._synchronous = "full" if flush is FlushMode.SYNC else "normal"
        self._must_sync = False
        self._db = _open(path, self._synchronous, is_shared=self._files.is_shared)
        # (table, primary key) -> the newest change of that row, in the order of those changes. One for each row: a disk
        # that stays full for hours must not make a list of every commit of those hours.
        self._pending: dict[tuple[object, ...], tuple[str, tuple[object, ...]]] = {}
        self._journals: list[Journal] = []
        self._table_read = ""
        self._refusal: RlabError | None = None

    def __enter__(self) -> MetadataStore:
        return self

    def __exit__(self, *_error: object) -> None:
        # A broker that could not be made may have scheduled a commit, which must find nothing to do.
        self._pending.clear()
        for journal in self._journals:
            journal.pending.clear()
        self._db.close()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Read the stored rows in the block. SQLite checks only the types of its rows; it has no checksums.

        Raises:
            ConfigError: a row has a value that cannot be one; the text names file and table, and says what to do.
        """
        try:
            yield
        except (ConfigError, StoreError):
            raise
        except _DAMAGES as error:
            cause = f"{type(error).__name__}: {error}"
            raise ConfigError(
                f"{self.path} is damaged: table {self._table_read!r} cannot be loaded ({cause}): put the newest "
                "copy of the file back (docs/storage.md), or remove it and start once with --recover-topics"
            ) from error

    def number(self, name: str) -> int:
        """A stored number, 0 if it was never stored."""
        self._table_read = "numbers"
        row = self._db.execute("select value from numbers where name = ?", (name,)).fetchone()
        return 0 if row is None else int(row[0])

    def save_number(self, name: str, value: int) -> None:
        """Store a number under a name with the next commit."""
        self.change(("numbers", name), "insert or replace into numbers values (?, ?)", name, value)

    def add_tables(self, schema: str) -> None:
        """Make the tables of a room, where they are missing.

        Raises:
            ConfigError: they cannot be made; the text says what to do.
        """
        try:
            self._db.executescript(schema)
        except _UNREADABLE as error:
            raise _cannot_open(self.path, error) from error

    def add_journal(self, journal: Journal) -> None:
        """Write the entries of a journal with each commit from now on."""
        self._journals.append(journal)

    def rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """What a query of committed rows finds.

        Raises:
            ConfigError: the file is damaged; the text says what to do.
        """
        try:
            self._table_read = query.rpartition(" from ")[2].partition(" ")[0]
            return iter(self._db.execute(query).fetchall())
        except _UNREADABLE as error:
            raise _cannot_open(self.path, error) from error

    def change(self, row: tuple[object, ...], statement: str, *values: object) -> None:
        """Execute a statement for a row (table, primary key) with the next commit; of two for a row the newer one."""
        # Last in line again, and not in the place of the earlier change: the topic may have been deleted in between.
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
        """Commit nothing any more, because the file may be another broker's now; each commit raises this error."""
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
        execute = self._db.execute
        try:
            if self._must_sync:
                execute("pragma synchronous = full")
            execute("begin immediate")
            for statement, values in self._pending.values():
                execute(statement, values)
            for journal, data in journals:
                # Behind the changes: a snapshot among them is older than these.
                execute(f"insert into {journal.table} (data) values (?)", (data,))
            execute("commit")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                execute("rollback")
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise StorageFull("the disk of the broker is full: make room, or add a broker") from error
            try:
                _check_writable(self.path, self._files)  # SQLite does not say why
            except StoreNotWritable:
                raise ServiceNotAvailable(
                    f"{self.path} cannot be written now: check whether its file system is read-only; the broker goes "
                    "on as soon as it takes a write"
                ) from error
            raise SystemError_(f"the broker's metadata could not be written: {error} ({self.path})") from error
        if self._must_sync:
            self._must_sync = False
            execute(f"pragma synchronous = {self._synchronous}")
        self._pending.clear()
        for journal, data in journals:
            journal.pending.clear()
            journal.written_bytes += len(data)


class Table:
    """A table of a room, which `add_tables` made. Its columns are those of its schema, the primary key first."""

    def __init__(self, metadata: MetadataStore, name: str) -> None:
        self._metadata = metadata
        self._change = metadata.change
        self._name = name
        columns = list(metadata.rows(f"pragma table_info({name})"))
        key = [f"{column} = ?" for _, column, _, _, _, in_key in columns if in_key]
        self._n_key = len(key)
        self._select = f"select {', '.join(column for _, column, *_ in columns)} from {name}"
        self._put = f"insert or replace into {name} values ({', '.join('?' * len(columns))})"
        self._delete = f"delete from {name} where {' and '.join(key)}"

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
        self._change(((self._name, column), value), f"delete from {self._name} where {column} = ?", value)

    def replace_all(self, rows: Iterable[tuple[object, ...]]) -> None:
        """Replace the whole table."""
        self._metadata.drop_changes(self._name)
        self._change((self._name,), f"delete from {self._name}")
        for row in rows:
            self.put(*row)


class Journal:
    """Entries in the order in which they were appended; all entries of a commit are one row of a table (seq, data)."""

    def __init__(self, metadata: MetadataStore, table: str) -> None:
        self.table = table
        self.pending: list[tuple[Any, ...]] = []  # entries that are not committed yet: many, if the disk is full
        self.written_bytes = 0  # size of what this run has written since the journal was last cleared
        self.append = self.pending.append
        self._rows = Table(metadata, table)
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


def _check_writable(path: Path, files: Files) -> None:
    """Ask the system itself: SQLite only says that it is unable to open the file."""
    try:
        # Its companions come and go; one that another user left behind stops SQLite as well.
        for each in (path, *filter(Path.exists, (path.with_name(f"{path.name}-{end}") for end in ("wal", "shm")))):
            files.close(files.open(each, create=True))
    except OSError as error:
        raise to_store_error(path, error) from error


def metadata_exists(directory: Path) -> bool:
    """Whether a data directory has a metadata file with anything in it."""
    path = directory / METADATA_NAME
    return path.exists() and path.stat().st_size > 0


def _open(path: Path, synchronous: str, *, is_shared: bool) -> sqlite3.Connection:
    try:
        with contextlib.ExitStack() as on_failure:
            db = sqlite3.connect(path, isolation_level=None)
            on_failure.callback(db.close)
            if not is_shared:
                db.execute("pragma locking_mode = exclusive")  # a lock is kept, and not taken for each commit
            db.execute("pragma journal_mode = wal")
            db.execute(f"pragma synchronous = {synchronous}")
            db.execute(f"pragma wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            db.executescript(_SCHEMA)
            on_failure.pop_all()
    except _UNREADABLE as error:
        raise _cannot_open(path, error) from error
    return db


def _cannot_open(path: Path, error: Exception) -> ConfigError:
    return ConfigError(
        f"cannot open {path}: {error}; is it a broker's data directory? If it is damaged, put its newest copy back"
    )
