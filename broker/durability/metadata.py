"""What is small and must be transactional: topics, groups, members, leases and offsets, in one SQLite file.

Changes are collected by the handlers of one loop turn and committed together by the write barrier, before anybody is
answered. With a write-ahead log and `FlushMode.ASYNC` (`synchronous = NORMAL`) a killed process loses nothing, and a
power cut may lose the last commits, as it may lose messages. With `FlushMode.SYNC` (`FULL`) each commit is on the disk
when it returns: a message whose topic is lost is lost. That sync is waited for on the event loop; changes are rare
beside messages.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import msgpack

from broker.groups.table import GroupTable
from broker.leases.offsets import OffsetTable
from broker.leases.table import QueueKey, QueueLocks
from broker.pop.journal import Entry, WindowRow
from broker.store.disk.directory import unusable
from broker.store.disk.files import Files
from broker.topics.table import TopicEntry, TopicTable
from model.errors import ConfigError, StorageFull, SystemError_
from model.heartbeat import ConsumerData
from model.record import FlushMode
from model.topic_route import TopicConfig

FILE_NAME = "metadata.sqlite"
_CHECKPOINT_PAGES = 4_000
"""Pages of 4 KiB in the write-ahead log before SQLite moves them to the file. It syncs then, and the loop waits: with
its own 1,000, a group that pops at full speed would stand still four times as often."""

_SCHEMA = """
create table if not exists topics (topic text primary key, topic_id integer not null, config blob not null);
create table if not exists numbers (name text primary key, value integer not null);
create table if not exists groups (name text primary key, version integer not null, created_ms integer not null);
create table if not exists members (
    group_name text not null, client_id text not null, data blob not null, primary key (group_name, client_id)
) without rowid;
create table if not exists epochs (
    group_name text not null, client_id text not null, epoch text not null, primary key (group_name, client_id)
) without rowid;
create table if not exists leases (
    group_name text not null, topic text not null, queue_id integer not null, owner text not null,
    token integer not null, primary key (group_name, topic, queue_id)
) without rowid;
create table if not exists offsets (
    group_name text not null, topic text not null, queue_id integer not null, queue_offset integer not null,
    primary key (group_name, topic, queue_id)
) without rowid;
create table if not exists resent (
    topic text not null, queue_id integer not null, topic_id integer not null, below integer not null,
    above blob not null, primary key (topic, queue_id)
) without rowid;
create table if not exists pop_windows (
    number integer primary key, group_name text not null, topic text not null, queue_id integer not null,
    data blob not null
);
create table if not exists pop_journal (seq integer primary key, data blob not null);
"""


class MetadataStore:
    """The open file; a context manager. Every `save_*`, `delete_*` and `note_*` takes effect at the next `commit`.

    Args:
        directory: the broker's data directory, already locked by the message store.
        flush: what a commit has to survive.
        files: the file layer, which is asked whether the file may be written; the real one by default.

    Attributes:
        pop_journal_bytes: size of the journal of what is in flight, as far as this run has written it.

    Raises:
        ConfigError: the file cannot be opened or written, or is not a database; the text says what to do.
    """

    def __init__(self, directory: Path, *, flush: FlushMode = FlushMode.ASYNC, files: Files | None = None) -> None:
        path = directory / FILE_NAME
        _check_writable(path, files or Files())
        self._db = _open(path, "full" if flush is FlushMode.SYNC else "normal")
        # (table, primary key) -> the newest change of that row, in the order of those changes. One for each row: a disk
        # that stays full for hours must not make a list of every commit of those hours.
        self._pending: dict[tuple[object, ...], tuple[str, tuple[object, ...]]] = {}
        self._pop_entries: list[Entry] = []
        self.pop_journal_bytes = 0

    def __enter__(self) -> MetadataStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    # --- reading, once, at the start ---------------------------------------------------------------------------------

    def load(
        self,
        topics: TopicTable,
        groups: GroupTable,
        locks: QueueLocks,
        offsets: OffsetTable,
        *,
        now_ms: int,
        expires_at: float,
    ) -> None:
        """Fill the tables with what earlier runs stored.

        Args:
            topics: empty table.
            groups: empty table.
            locks: empty table.
            offsets: empty table.
            now_ms: wall clock in milliseconds. Group versions go on from here: a power cut may have taken the last ones
                from the file, and members that have seen those would take new ones with the same numbers for old news.
            expires_at: loop time in seconds until which earlier members stay listed without coming back.
        """
        rows = self._db.execute
        for topic_id, config in rows("select topic_id, config from topics order by topic_id"):
            topics.restore(topic_id, TopicConfig.from_wire(msgpack.unpackb(config)))
        for (topic_id,) in rows("select value from numbers where name = 'last_topic_id'"):
            topics.restore_last_topic_id(topic_id)
        for name, version, created_ms in rows("select name, version, created_ms from groups order by name"):
            groups.restore(name, max(version, now_ms), created_ms)
        for client_id, data, epoch in rows(
            "select client_id, data, coalesce(epoch, '') from members left join epochs using (group_name, client_id)"
            " order by group_name, client_id"
        ):
            groups.restore_member(client_id, ConsumerData.from_wire(msgpack.unpackb(data)), expires_at, epoch)
        for group, topic, queue_id, owner, token in rows(
            "select group_name, topic, queue_id, owner, token from leases order by token"
        ):
            locks.restore(group, QueueKey(topic, queue_id), owner, token)
        for group, topic, queue_id, offset in rows("select group_name, topic, queue_id, queue_offset from offsets"):
            offsets.restore(group, topic, queue_id, offset)

    def pop_windows(self) -> Iterator[WindowRow]:
        """The last snapshot of what is in flight."""
        rows = self._db.execute("select number, group_name, topic, queue_id, data from pop_windows order by number")
        return (WindowRow(*row) for row in rows)

    def pop_entries(self) -> Iterator[Entry]:
        """What has changed since that snapshot, in order."""
        for (data,) in self._db.execute("select data from pop_journal order by seq"):
            yield from cast("tuple[Entry, ...]", msgpack.unpackb(data, use_list=False))

    def number(self, name: str) -> int:
        """A stored number, 0 if it was never stored."""
        row = self._db.execute("select value from numbers where name = ?", (name,)).fetchone()
        return 0 if row is None else int(row[0])

    def resent_letters(self) -> list[tuple[int, int, int, list[int]]]:
        """[topic id, queue id, below, above] of every queue with dead letters that were re-sent."""
        rows = self._db.execute("select topic_id, queue_id, below, above from resent order by topic_id, queue_id")
        return [(*numbers, cast("list[int]", msgpack.unpackb(above))) for *numbers, above in rows]

    # --- writing -----------------------------------------------------------------------------------------------------

    def save_topic(self, entry: TopicEntry) -> None:
        """Store a topic, new or changed."""
        topic, blob = entry.config.topic, msgpack.packb(entry.config.to_wire())
        self._change(("topics", topic), "insert or replace into topics values (?, ?, ?)", topic, entry.topic_id, blob)
        self.save_last_topic_id(entry.topic_id)

    def save_last_topic_id(self, topic_id: int) -> None:
        """Store that a number was given to a topic: it is never given again."""
        self._change(
            ("last_topic_id", topic_id),
            "insert into numbers values ('last_topic_id', ?)"
            " on conflict do update set value = max(value, excluded.value)",
            topic_id,
        )

    def save_number(self, name: str, value: int) -> None:
        """Store a number under a name."""
        self._change(("numbers", name), "insert or replace into numbers values (?, ?)", name, value)

    def delete_topic(self, topic: str) -> None:
        """Forget a topic and every group's offsets and leases of it; its number stays used."""
        for table in ("topics", "offsets", "leases", "resent"):
            self._change((table, topic), f"delete from {table} where topic = ?", topic)

    def save_group(self, group: str, version: int, created_ms: int) -> None:
        """Store a group's version and creation time."""
        self._change(("groups", group), "insert or replace into groups values (?, ?, ?)", group, version, created_ms)

    def delete_group(self, group: str) -> None:
        """Forget a group with its members, leases and offsets."""
        self._change(("groups", group), "delete from groups where name = ?", group)
        for table in ("members", "epochs", "leases", "offsets"):
            self._change((table, "of group", group, "all"), f"delete from {table} where group_name = ?", group)

    def save_member(self, client_id: str, data: ConsumerData, epoch: str = "") -> None:
        """Store a member of a group, new or changed, and which run of the client it is."""
        row, blob = (data.group, client_id), msgpack.packb(data.to_wire())
        self._change(("members", *row), "insert or replace into members values (?, ?, ?)", *row, blob)
        # A table of its own: the files of brokers that did not store it have no column for it.
        self._change(("epochs", *row), "insert or replace into epochs values (?, ?, ?)", *row, epoch)

    def delete_member(self, group: str, client_id: str) -> None:
        """Forget a member that left."""
        row = (group, client_id)
        for table in ("members", "epochs"):
            self._change((table, *row), f"delete from {table} where group_name = ? and client_id = ?", *row)

    def save_lease(self, group: str, queue: QueueKey, owner: str, token: int) -> None:
        """Store who has a queue."""
        row = (group, *queue)
        self._change(("leases", *row), "insert or replace into leases values (?, ?, ?, ?, ?)", *row, owner, token)

    def delete_lease(self, group: str, queue: QueueKey) -> None:
        """Forget a lease that is free."""
        row = (group, *queue)
        self._change(("leases", *row), "delete from leases where group_name = ? and topic = ? and queue_id = ?", *row)

    def save_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store a committed offset."""
        row = (group, topic, queue_id)
        self._change(("offsets", *row), "insert or replace into offsets values (?, ?, ?, ?)", *row, offset)

    def save_resent_letters(self, topic: str, queue_id: int, topic_id: int, below: int, above: list[int]) -> None:
        """Store which dead letters of a queue were re-sent."""
        row = (topic, queue_id)
        blob = msgpack.packb(above)
        self._change(
            ("resent", *row), "insert or replace into resent values (?, ?, ?, ?, ?)", *row, topic_id, below, blob
        )

    @property
    def pop_backlog(self) -> int:
        """Entries of the journal that are not committed yet: many, if the disk is full."""
        return len(self._pop_entries)

    def note_pop(self, entry: Entry) -> None:
        """Add an entry to the journal of what is in flight."""
        self._pop_entries.append(entry)

    def save_pop_windows(self, rows: list[WindowRow]) -> None:
        """Store a snapshot of what is in flight in the place of the journal, whose entries it has in it."""
        self._pop_entries.clear()
        self.pop_journal_bytes = 0
        for table in ("pop_windows", "pop_journal"):
            for row in [row for row in self._pending if row[0] == table]:
                del self._pending[row]
            self._change((table, "all"), f"delete from {table}")
        for window in rows:
            self._change(("pop_windows", window.number), "insert into pop_windows values (?, ?, ?, ?, ?)", *window)

    def add_tables(self, schema: str) -> None:
        """Make tables of somebody else's, where they are missing."""
        self._db.executescript(schema)

    def rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """What is stored in them."""
        return self._db.execute(query)

    def change(self, row: tuple[object, ...], statement: str, *values: object) -> None:
        """Change a row of them with the next commit.

        Args:
            row: (table, primary key): of two changes of a row the newer one counts.
            statement: SQL.
            values: its parameters.
        """
        self._change(row, statement, *values)

    def _change(self, row: tuple[object, ...], statement: str, *values: object) -> None:
        # Last in line again, and not in the place of the earlier change: the topic may have been deleted in between.
        self._pending.pop(row, None)
        self._pending[row] = (statement, values)

    def commit(self) -> None:
        """Make everything since the last commit durable, in one transaction.

        Raises:
            StorageFull: no room on the disk; the changes stay pending, and the next commit tries them again.
            SystemError_: the database failed otherwise; likewise.
        """
        if not self._pending and not self._pop_entries:
            return
        execute = self._db.execute
        journal = msgpack.packb(self._pop_entries) if self._pop_entries else b""
        try:
            execute("begin immediate")
            for statement, values in self._pending.values():
                execute(statement, values)
            if journal:
                # Behind the changes: a snapshot among them is older than these.
                execute("insert into pop_journal (data) values (?)", (journal,))
            execute("commit")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                execute("rollback")
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise StorageFull("the disk of the broker is full: make room, or add a broker") from error
            raise SystemError_(f"the broker's metadata could not be written: {error}") from error
        self._pending.clear()
        self._pop_entries.clear()
        self.pop_journal_bytes += len(journal)


def _check_writable(path: Path, files: Files) -> None:
    """Ask the system itself: SQLite only says that it is unable to open the file."""
    try:
        # Its companions come and go; one that another user left behind stops SQLite as well.
        for each in (path, *filter(Path.exists, (path.with_name(f"{path.name}-{end}") for end in ("wal", "shm")))):
            files.close(files.open(each, create=True))
    except OSError as error:
        raise unusable(path, error) from error


def _open(path: Path, synchronous: str) -> sqlite3.Connection:
    try:
        with contextlib.ExitStack() as on_failure:
            db = sqlite3.connect(path, isolation_level=None)
            on_failure.callback(db.close)
            db.execute("pragma journal_mode = wal")
            db.execute(f"pragma synchronous = {synchronous}")
            db.execute(f"pragma wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            db.executescript(_SCHEMA)
            on_failure.pop_all()
    except sqlite3.Error as error:
        raise ConfigError(f"cannot open {path}: {error}; is it a broker's data directory?") from error
    return db
