"""A metadata file of an earlier version opens: each room finds its tables as that version made and filled them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgpack
import pytest

from broker.durability.metadata import StoredNumber
from broker.leases.table import QueueKey
from broker.store.disk.directory import METADATA_NAME
from model.assignment import RequestMode
from model.topic_route import TopicConfig
from tests.unit.broker.harness import World, consumer, simulated

pytestmark = pytest.mark.walk

SCHEMA = """
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

create table if not exists request_modes (
    group_name text not null, topic text not null, mode text not null, pop_share_queue_num integer not null,
    primary key (group_name, topic)
) without rowid;

create table if not exists sink_chunks (
    query_id text not null, batch_id integer not null, part integer not null, attempt integer not null,
    seq integer not null, data blob not null, primary key (query_id, batch_id, part, attempt, seq)
) without rowid;
create table if not exists sink_publishing (
    query_id text not null, batch_id integer not null, data blob not null, primary key (query_id, batch_id)
) without rowid;
create table if not exists sink_queries (
    query_id text primary key, batch_id integer not null, expires_ms integer not null
) without rowid;

create table if not exists sink_spreads (
    query_id text not null, topic text not null, batch_id integer not null, data blob not null,
    primary key (query_id, topic)
) without rowid;
"""
"""What the broker of September 2026 made, before rooms declared their own tables; to the letter."""


def tables_of(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("select name, sql from sqlite_master where type = 'table'"))


def old_file(path: Path, topic_id: int) -> None:
    """Write a file as that broker did, with a row in each table that is loaded at the start."""
    topic = TopicConfig(topic="old", read_queue_nums=2, write_queue_nums=2)
    letters = TopicConfig(topic="%DLQ%g", read_queue_nums=1, write_queue_nums=1)
    member = consumer("g", "old")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma journal_mode = wal")
        db.executescript(SCHEMA)
        for statement, *row in (
            ("topics values (?, ?, ?)", "old", topic_id, msgpack.packb(topic.to_wire())),
            ("topics values (?, ?, ?)", "%DLQ%g", topic_id + 1, msgpack.packb(letters.to_wire())),
            ("numbers values (?, ?)", "last_topic_id", topic_id + 7),
            ("numbers values (?, ?)", "runs", 3),
            ("groups values (?, ?, ?)", "g", 2**50, 77),
            ("members values (?, ?, ?)", "g", "A", msgpack.packb(member.to_wire())),
            ("epochs values (?, ?, ?)", "g", "A", "run-1"),
            ("leases values (?, ?, ?, ?, ?)", "g", "old", 1, "A", 2**60),
            ("offsets values (?, ?, ?, ?)", "g", "old", 0, 0),
            ("resent values (?, ?, ?, ?, ?)", "%DLQ%g", 0, topic_id + 1, 0, msgpack.packb([])),
            ("request_modes values (?, ?, ?, ?)", "g", "old", "POP", 2),
            ("sink_queries values (?, ?, ?)", "query", 4, 2**50),
        ):
            db.execute(f"insert into {statement}", row)


@simulated
async def test_a_new_file_has_every_table_of_an_old_one_to_the_letter(world: World) -> None:
    await world.start_broker()
    with closing(sqlite3.connect(world.data_dir / "old")) as db:
        db.executescript(SCHEMA)
    # Tables that came later; an earlier version leaves them alone.
    later = {"group_settings", "clock_jumps", "open_transactions", "owners", "sink_owners", "group_delivery"}
    later |= {"open_transaction_sharers", "topic_sharers", "group_sharers", "sink_sharers"}
    now = tables_of(world.data_dir / METADATA_NAME)
    assert later < now.keys()
    assert {name: sql for name, sql in now.items() if name not in later} == tables_of(world.data_dir / "old")


@simulated
async def test_every_room_loads_what_an_old_broker_stored(world: World) -> None:
    await world.start_broker()
    await world.stop_broker()
    for path in world.data_dir.glob(f"{METADATA_NAME}*"):
        path.unlink()
    old_file(world.data_dir / METADATA_NAME, topic_id=20)
    broker = await world.start_broker()
    assert broker.topics.table.existing("old").topic_id == 20
    assert broker.topics.table.existing("old").config.read_queue_nums == 2
    assert broker.topics.table.last_topic_id > 27, "the system topics, which were not in the file"
    info = broker.groups.table.get("g")
    assert info is not None
    assert (info.version, info.created_ms) == (2**50, 77)
    assert (info.members["A"].data, info.members["A"].run_id) == (consumer("g", "old"), "run-1")
    assert broker.leases.table.check("g", QueueKey("old", 1), "A", 2**60)
    assert broker.leases.offsets.read("g", "old", 0) == 0
    assert broker.assignment.assignments.mode_of("g", "old").mode is RequestMode.POP
    assert StoredNumber(broker.metadata, "runs", replicated=True).read() == 4
