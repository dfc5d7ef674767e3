"""The SQLite file of a broker's metadata: how it is opened, read, written in transactions, and copied to a replica.

With a write-ahead log and `FlushMode.ASYNC` (`synchronous = NORMAL`) a killed process loses nothing, and a power cut
may lose the last commits, as it may lose messages. With `FlushMode.SYNC` (`FULL`) each commit is on the disk when it
returns: a message whose topic is lost is lost. That sync is waited for on the event loop; changes are rare beside
messages.

A replica that follows its master has no rooms, and uses the file as it is here: it loads a snapshot, and then applies
the changes of each commit of the master.

    with file.load_snapshot() as load:
        load.add(chunk)                                       # and the others
    file.apply([RowChange("offsets", PUT, ("g", "t", 0, 42))])
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgpack

from broker.durability.changes import SYNC, RowChange, TableSchema
from broker.durability.snapshot import SnapshotLoad, read_table_schema, take_snapshot
from broker.store.disk.directory import METADATA_NAME, to_store_error
from broker.store.disk.errors import StoreError, StoreNotWritable
from broker.store.disk.files import Files
from model.errors import ConfigError, InvalidParameter, RlabError, ServiceNotAvailable, StorageFull, SystemError_
from model.record import FlushMode

_CHECKPOINT_PAGES = 4_000
"""Pages of 4 KiB in the write-ahead log before SQLite moves them to the file. It syncs then, and the loop waits: with
its own 1,000, a group that pops at full speed would stand still four times as often."""

_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""Errors of SQLite for a damaged file; the second occurs if its own message quotes a damaged name."""
_DAMAGES = (*_UNREADABLE, InvalidParameter, SystemError_, ValueError, TypeError, LookupError, msgpack.UnpackException)
"""Errors of a feature that loads a damaged row: a wrong type, no msgpack, a name that is not legal or not known."""

_SCHEMA = "create table if not exists numbers (name text primary key, value integer not null);"


class MetadataFile:
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
        self._db = _open(path, self._synchronous, is_shared=self._files.is_shared)
        self._shapes: dict[str, TableSchema] = {}
        self._table_read = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
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

    def add_tables(self, schema: str) -> None:
        """Make the tables of a room, where they are missing.

        Raises:
            ConfigError: they cannot be made; the text says what to do.
        """
        try:
            self._db.executescript(schema)
        except _UNREADABLE as error:
            raise _cannot_open(self.path, error) from error

    def rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The result of a query of committed rows.

        Raises:
            ConfigError: the file is damaged; the text says what to do.
        """
        try:
            self._table_read = query.rpartition(" from ")[2].partition(" ")[0]
            return iter(self._db.execute(query).fetchall())
        except _UNREADABLE as error:
            raise _cannot_open(self.path, error) from error

    def shape(self, table: str) -> TableSchema:
        """The columns of a table.

        Raises:
            InvalidParameter: there is no such table.
        """
        shape = self._shapes.get(table) or read_table_schema(self._db, table)
        if shape is None:
            raise InvalidParameter(f"there is no table {table!r:.80} here: a change came before its snapshot")
        self._shapes[table] = shape
        return shape

    def apply(self, changes: Iterable[RowChange]) -> None:
        """Apply the changes of one commit of the master, in one transaction.

        Raises:
            InvalidParameter: a change does not fit the tables here; nothing is changed.
            StorageFull, ServiceNotAvailable, SystemError_: as `MetadataStore.commit`; nothing is changed.
        """
        statements, must_sync = [], False
        for change in changes:
            if change.kind == SYNC:
                must_sync = True
            else:
                statements.append(self.shape(change.table).statement(change))
        if statements:
            self._write(statements, must_sync=must_sync)

    def copy_tables(self, tables: Sequence[str], numbers: Sequence[str]) -> Iterator[bytes]:
        """Copy the committed rows of these tables and numbers now; returns the chunks of the copy.

        Raises:
            StorageFull, SystemError_: the copy could not be made.
        """
        try:
            return take_snapshot(self._db, tables, numbers)
        except sqlite3.Error as error:
            raise self._failure(error) from error

    @contextmanager
    def load_snapshot(self) -> Iterator[SnapshotLoad]:
        """Replace the replicated tables by the chunks that are added in the block, in one transaction.

        The block may await, while only it may use the file.

        Raises:
            InvalidParameter: chunks are missing, or do not fit; nothing is changed.
            StorageFull, ServiceNotAvailable, SystemError_: as `MetadataStore.commit`; nothing is changed.
        """
        self._shapes.clear()
        try:
            self._db.execute("begin immediate")
            load = SnapshotLoad(self._db)
            yield load
            if not load.is_complete:
                raise InvalidParameter("a snapshot ended before its last chunk: nothing of it is loaded")
            self._db.execute("commit")
        except sqlite3.Error as error:
            raise self._failure(error) from error
        finally:
            if self._db.in_transaction:
                self._db.execute("rollback")

    def _write(self, statements: Iterable[tuple[str, tuple[Any, ...]]], *, must_sync: bool) -> None:
        """Execute statements in one transaction: all or none."""
        execute = self._db.execute
        try:
            if must_sync:
                execute("pragma synchronous = full")
            execute("begin immediate")
            for sql, values in statements:
                execute(sql, values)
            execute("commit")
        except sqlite3.Error as error:
            raise self._failure(error) from error
        finally:
            if self._db.in_transaction:
                execute("rollback")
            if must_sync:
                execute(f"pragma synchronous = {self._synchronous}")

    def _failure(self, error: sqlite3.Error) -> RlabError:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return StorageFull("the disk of the broker is full: make room, or add a broker")
        try:
            _check_writable(self.path, self._files)  # SQLite does not say why
        except StoreNotWritable:
            return ServiceNotAvailable(
                f"{self.path} cannot be written now: check whether its file system is read-only; the broker goes "
                "on as soon as it takes a write"
            )
        return SystemError_(f"the broker's metadata could not be written: {error} ({self.path})")


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
