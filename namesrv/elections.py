"""The register of replica sets in a name server: one SQLite file with one row for each set.

    register    one row: the id of the register
    sets        for each set: broker name, encoded row, checksum

A row decides which replica is the master of a set, and which replicas may become it (`model/replica_set.py`). So a
write is on the disk before it is answered: `synchronous = full` with a journal that is truncated, and not deleted,
because a deleted journal could return after a power cut and take the last write back. One process has the file: SQLite
keeps an exclusive lock for as long as it is open. Reads and writes run in a thread, one after the other; the name
server goes on serving routes while a disk is slow.

The id of the register is a random number, stored in the file. Replicas store it too, and refuse another register: a new
file in the place of a lost one does not know who was in sync.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TypeVar
from zlib import crc32

from model.arguments import short_repr
from model.errors import ConfigError, InvalidParameter, RegisterUnavailable, RlabError
from model.replica_limits import MAX_SET_NUMBER
from model.replica_set import ReplicaSet, SetChanged, restored_rows, stored_row

logger = logging.getLogger(__name__)

FILE_NAME = "elections.sqlite"
_FORMAT = 1
_SCHEMA = """
create table register (only integer primary key check (only = 1), register_id integer not null);
create table sets (name text primary key, row blob not null, crc integer not null);
"""
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError, InvalidParameter)
"""Errors of a damaged file: of SQLite itself, of the decoder of its messages, or of the check of a row."""

T = TypeVar("T")


class Elections:
    """The open register of one directory; made by `open_elections`. It is a `Register` of `replica/register.py`.

    Attributes:
        n_sets: its number of rows.
        is_failing: whether the file could not be read or written when it was last tried.
        writes: number of writes since the start by result: `written`; `changed`, because the row has another version;
            `refused`, because the new row may not follow the stored one; `failed`.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, register_id: int) -> None:
        self.path = path
        self.register_id = register_id
        self.n_sets = 0
        self.is_failing = False
        self.writes = {"written": 0, "changed": 0, "refused": 0, "failed": 0}
        self._db = db
        self._file = _identity(path)
        self._lock = threading.Lock()  # a call whose caller was cancelled goes on in its thread

    async def read(self, name: str) -> ReplicaSet | None:
        """See `Register.read`."""
        return await self._in_thread(self._read, name)

    async def write(self, new: ReplicaSet, expected_version: int) -> ReplicaSet:
        """See `Register.write`."""
        try:
            row = await self._in_thread(self._write, new, expected_version)
        except RlabError as error:
            self.writes[_result_of(error)] += 1
            raise
        self.writes["written"] += 1
        return row

    async def remove(self, name: str, expected_version: int) -> None:
        """See `Register.remove`."""
        await self._in_thread(self._remove, name, expected_version)

    async def rows(self) -> list[ReplicaSet]:
        """See `Register.rows`."""
        return await self._in_thread(self._rows)

    def close(self) -> None:
        """Close the file, behind a write that is in progress. A second call does nothing."""
        with self._lock:
            self._db.close()

    async def _in_thread(self, act: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, self._locked, act, *arguments)

    def _locked(self, act: Callable[..., T], *arguments: object) -> T:
        with self._lock:
            try:
                result = self._called(act, *arguments)
            except RlabError as error:
                self.is_failing = isinstance(error, RegisterUnavailable)
                raise
            self.is_failing = False
            return result

    def _called(self, act: Callable[..., T], *arguments: object) -> T:
        if _identity(self.path) != self._file:
            raise RegisterUnavailable(
                f"{self.path} was removed or replaced while this name server was running: stop it, put the file "
                "back, and start it again"
            )
        try:
            return act(*arguments)
        except _UNREADABLE as error:
            logger.error("the register %s could not be read or written: %s", self.path, error)
            raise RegisterUnavailable(f"the register could not be read or written: {error}") from error
        finally:
            with contextlib.suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("rollback")

    def _read(self, name: str) -> ReplicaSet | None:
        row = self._db.execute("select * from sets where name = ?", (name,)).fetchone()
        return None if row is None else _decoded(*row)

    def _rows(self) -> list[ReplicaSet]:
        return [_decoded(*row) for row in self._db.execute("select * from sets order by name")]

    def _write(self, new: ReplicaSet, expected_version: int) -> ReplicaSet:
        self._db.execute("begin immediate")
        [n_rows] = self._db.execute("select count(*) from sets").fetchone()
        current = self._read(new.name)
        row = stored_row(current, new, expected_version, register_id=self.register_id, n_rows=n_rows)
        self._db.execute("insert or replace into sets values (?, ?, ?)", _encoded(row))
        self._db.execute("commit")
        self.n_sets = n_rows + (current is None)
        logger.info("%s is stored, %s", row, "new" if current is None else f"before: {current}")
        return row

    def _remove(self, name: str, expected_version: int) -> None:
        self._db.execute("begin immediate")
        current = self._read(name)
        if current is None or current.version != expected_version:
            actual = "has no row" if current is None else f"has version {current.version} and not {expected_version}"
            raise SetChanged(f"set {name} {actual}", current)
        self._db.execute("delete from sets where name = ?", (name,))
        self._db.execute("commit")
        self.n_sets -= 1
        logger.warning("%s is removed", current)


def _result_of(error: RlabError) -> str:
    if isinstance(error, SetChanged):
        return "changed"
    return "failed" if isinstance(error, RegisterUnavailable) else "refused"


@contextmanager
def open_elections(directory: Path, rng: Random) -> Iterator[Elections]:
    """Open the register of a directory while the block runs, and make it if it is new; `rng` draws its id.

    Raises:
        ConfigError: the directory cannot be used, another process has it, or the file is damaged.
    """
    path = directory / FILE_NAME
    is_new = _check_directory(directory, path)
    db = _opened(path)
    try:
        with _clear_errors(path):
            register_id = _make(db, rng.randint(1, MAX_SET_NUMBER)) if is_new else _checked(db)
            elections = Elections(path, db, register_id)
            elections.n_sets = len(elections._rows())
    except BaseException:  # of any class: only this function can close the database yet
        db.close()
        if is_new:
            path.unlink(missing_ok=True)  # an empty file would be taken for a damaged one
        raise
    text = "register %d in %s is new" if is_new else "register %d in %s is open, it has %d sets"
    logger.info(text, register_id, directory, *(() if is_new else (elections.n_sets,)))
    try:
        yield elections
    finally:
        elections.close()


def restore_elections(directory: Path, rows: Iterable[ReplicaSet]) -> int:
    """Make a register from a copy of the rows of a lost one, in a new directory; returns its id, which is the same.

    `restored_rows` has the rule.

    Raises:
        ConfigError: the directory is not empty or cannot be used, or the rows are not all of one register.
    """
    register_id, restored = restored_rows(rows)
    path = directory / FILE_NAME
    if not _check_directory(directory, path):
        raise ConfigError(f"{directory} has a register already: name an empty or a new directory")
    with _clear_errors(path), contextlib.closing(_opened(path)) as db:
        _make(db, register_id, restored)
    return register_id


def _check_directory(directory: Path, path: Path) -> bool:
    """Make the directory if needed; returns whether it has no register yet."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        others = sorted(each.name for each in directory.iterdir() if each != path)
        if path.exists():
            if path.stat().st_size == 0:
                raise ConfigError(
                    f"{path} is empty: remove it, and restore the register from a copy (docs/replication.md), or begin "
                    "a new one, which the replicas of an earlier one refuse"
                )
            return False
    except OSError as error:
        raise ConfigError(f"cannot use {directory} for elections ({error}): name another directory") from error
    if others:
        raise ConfigError(
            f"{directory} has no register and is not empty (it holds {others[0]!r}): name an empty or a new directory"
        )
    return True


def _opened(path: Path) -> sqlite3.Connection:
    with _clear_errors(path):
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        try:
            db.execute("pragma locking_mode = exclusive")
            db.execute("begin exclusive")  # from here on the lock is kept
            db.execute("commit")
            db.execute("pragma journal_mode = truncate")
            db.execute("pragma synchronous = full")
        except BaseException:  # of any class: only this function can close the database yet
            db.close()
            raise
    return db


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise ConfigError(
                f"{path} is in use by another process: one name server keeps the elections of a cluster"
            ) from error
        raise ConfigError(
            f"{path} is damaged, or not a register ({error}): restore it from a copy (docs/replication.md)"
        ) from error


def _make(db: sqlite3.Connection, register_id: int, rows: Iterable[ReplicaSet] = ()) -> int:
    db.execute("begin immediate")
    for statement in filter(str.strip, _SCHEMA.split(";")):
        db.execute(statement)
    db.execute("insert into register values (1, ?)", (register_id,))
    db.executemany("insert into sets values (?, ?, ?)", map(_encoded, rows))
    db.execute(f"pragma user_version = {_FORMAT}")
    db.execute("commit")
    return register_id


def _checked(db: sqlite3.Connection) -> int:
    [version] = db.execute("pragma user_version").fetchone()
    if version > _FORMAT:
        raise InvalidParameter(f"it has format {version}, and this version knows format {_FORMAT}")
    [state] = db.execute("pragma integrity_check(1)").fetchone()
    if state != "ok":
        raise InvalidParameter(state)
    row = db.execute("select register_id from register").fetchone()
    if row is None or type(row[0]) is not int:
        raise InvalidParameter("its id is missing")
    return row[0]


def _encoded(row: ReplicaSet) -> tuple[str, bytes, int]:
    wire = row.to_wire()
    return row.name, wire, crc32(wire)


def _decoded(name: object, wire: object, crc: object) -> ReplicaSet:
    if type(wire) is not bytes or crc32(wire) != crc:
        raise InvalidParameter(f"the checksum of set {short_repr(name)} is wrong")
    row = ReplicaSet.from_wire(wire)
    if row.name != name:
        raise InvalidParameter(f"set {short_repr(name)} has the row of {row.name}")
    return row


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
