"""The messages that a replica gave up are listed by queue, and sent again; on real files and real servers."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from broker.store.disk.options import StoreOptions
from broker.store.follower.follower_log import FollowerLog
from broker.store.message_store import MessageStore
from cli.main import app
from cli.servers.copies.salvage import read_messages
from model.message import Message, encode_payload
from model.names import retry_topic


def gave_up(directory: Path) -> Path:
    """A data directory whose log was cut behind its first message, and the bytes kept."""
    with MessageStore.open(directory, StoreOptions(), lambda: 1_000, epoch=(1, 1)) as store:
        store.append(1, 0, encode_payload(Message("orders", b"kept"), 1, "a"), 0)
        store.flush()
        position = store.written_position
        for body in (b"one", b"two"):
            store.append(1, 0, encode_payload(Message("orders", body, keys=["k"], tags="t"), 1, "b"), 0)
        store.append(2, 0, encode_payload(Message(retry_topic("g"), b"again"), 1, "c"), 0)
        store.append(3, 0, b"no message", 0)
        store.flush()
    with FollowerLog.open(directory, StoreOptions()) as log:
        log.cut(position, salvage=True)
    return directory


def test_each_queue_is_listed_with_its_offsets(tmp_path: Path) -> None:
    data = gave_up(tmp_path / "data")
    shown = CliRunner().invoke(app, ["broker", "salvage", str(data), "--json"])
    assert shown.exit_code == 0
    first = json.loads(shown.stdout)["salvaged"][0]
    assert (first["cut"], first["queue_id"], first["first_offset"], first["last_offset"]) == (1, 0, 1, 2)
    table = CliRunner().invoke(app, ["broker", "salvage", str(data)])
    assert "4 messages in" in table.stdout


def test_only_messages_of_users_are_sent_again_as_they_were(tmp_path: Path) -> None:
    messages = list(read_messages(gave_up(tmp_path / "data"), 1))
    assert messages.count(None) == 2
    sent = [message for message in messages if message is not None]
    assert [(each.topic, each.body, list(each.keys), each.tags) for each in sent] == [
        ("orders", b"one", ["k"], "t"),
        ("orders", b"two", ["k"], "t"),
    ]


def test_an_unknown_cut_and_a_wrong_directory_are_named(tmp_path: Path) -> None:
    data = gave_up(tmp_path / "data")
    unknown = CliRunner().invoke(app, ["broker", "salvage", str(data), "--send", "7"])
    assert (unknown.exit_code, unknown.stderr.count("has no cut 7; cuts: 1")) == (2, 1)
    wrong = CliRunner().invoke(app, ["broker", "salvage", str(tmp_path / "missing")])
    assert (wrong.exit_code, wrong.stderr.count("is not a directory")) == (2, 1)
