"""The commands of administration against a cluster of real processes, as people type them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner, Result

from cli import complete
from cli.main import app
from client import Message, Producer, PushConsumer, SendResult
from tests.tcp.rlab_process import Daemon, rlab

pytestmark = [pytest.mark.process, pytest.mark.tcp]


class Terminal:
    """Types commands, with the cluster's name server in the environment."""

    def __init__(self, cluster: Daemon) -> None:
        self._env = {"RLAB_NAMESRV": cluster.address, "RLAB_CONFIG": None}

    def type(self, line: str) -> Result:
        return CliRunner().invoke(app, line.split(), env=self._env)

    def text(self, line: str) -> str:
        """The output of a command that has to succeed, its cells one space apart."""
        result = self.type(line)
        assert result.exit_code == 0, result.stderr
        return "\n".join(" ".join(row.split()) for row in result.stdout.splitlines() if row.strip())

    def document(self, line: str) -> Any:
        return json.loads(self.text(f"{line} --json"))

    def error(self, line: str) -> str:
        """What a command complains of that has to fail."""
        result = self.type(line)
        assert result.exit_code == 1
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr


@pytest.fixture
def terminal(cluster: Daemon) -> Terminal:
    return Terminal(cluster)


def test_a_topic_is_created_listed_shown_scaled_and_deleted(terminal: Terminal) -> None:
    assert terminal.text("topic create life --queues 2") == "topic life created: queues on broker-a 2"
    assert terminal.text("topic create life --queues 2") == "topic life exists already: queues on broker-a 2"
    assert "life broker-a 2 2" in terminal.text("topic list").splitlines()
    assert "sent 5, failed 0," in terminal.text("produce life --count 5")
    shown = terminal.document("topic show life")
    assert [(q["queue"], q["use"]) for q in shown["queues"]] == [("life@broker-a:0", "rw"), ("life@broker-a:1", "rw")]
    assert sum(q["messages"] for q in shown["queues"]) == 5
    assert terminal.text("topic show life").endswith("5 messages in 2 queues")
    assert terminal.document("topic scale life --queues 4")["write_queues"] == 4
    assert terminal.text("topic scale life --write 1") == "topic life scaled: queues on broker-a 4 read 1 write"
    assert "holds messages that no group has consumed" in terminal.error("topic scale life --read 1")
    assert terminal.document("topic scale life --read 1 --force")["read_queues"] == 1
    assert terminal.text("topic delete life --yes") == "topic life deleted"
    assert "'life' does not exist: create it with 'rlab topic create life'" in terminal.error("topic show life")
    assert "'life' does not exist" in terminal.error("topic delete life --yes")


def test_a_delayed_message_is_recalled_by_its_id_or_by_its_handle(terminal: Terminal, cluster: Daemon) -> None:
    async def send_three() -> list[SendResult]:
        async with Producer(cluster.address) as producer:
            return [await producer.send(Message("later", b"x"), delay_ms=delay_ms) for delay_ms in (90_000, 90_000, 0)]

    terminal.text("topic create later --queues 1")
    by_id, by_handle, plain = anyio.run(send_three)
    for message, sent in ((by_id.message_id, by_id), (by_handle.recall_handle, by_handle)):
        assert terminal.text(f"message recall {message}") == f"message {sent.message_id} of topic later is recalled"
    repeated = terminal.document(f"message recall {by_handle.recall_handle}")
    assert repeated == {"topic": "later", "message_id": by_handle.message_id}
    assert "waits for its delivery, the message is not stored" in terminal.error(f"message recall {by_id.message_id}")
    assert "waits for its delivery, the message is stored" in terminal.error(f"message recall {plain.message_id}")


def test_topics_of_the_system_are_listed_only_on_demand(terminal: Terminal) -> None:
    names = {topic["topic"] for topic in terminal.document("topic list --all")["topics"]}
    assert "SYS_TRACE" in names
    assert "SYS_TRACE" not in terminal.text("topic list")


def test_a_group_is_listed_and_shown_when_it_has_consumed(terminal: Terminal, cluster: Daemon, tmp_path: Path) -> None:
    terminal.text("topic create fruit --queues 1")
    terminal.text("produce fruit --count 3 --tag ripe --key k")
    line = f"consume fruit --group eaters --from earliest --count 2 --tags ripe --namesrv {cluster.address}"
    assert rlab(*line.split(), "--timeout", "30", cwd=tmp_path).stdout == "message 1\nmessage 2\n"
    assert {"group": "eaters", "members": 0, "brokers": ["broker-a"]} in terminal.document("group list")["groups"]
    assert "eaters 0 broker-a" in terminal.text("group list").splitlines()
    assert "fruit@broker-a:0 1 2 3" in terminal.text("group show eaters").splitlines()
    assert "known groups: " in terminal.error("group show nobody")


def test_a_group_is_put_somewhere_else(terminal: Terminal) -> None:
    terminal.text("topic create back --queues 1")
    terminal.text("produce back --count 5")
    assert "no broker of topic 'back' knows group 'readers'" in terminal.error("group reset readers back --to latest")
    assert "back@broker-a:0 - 5 - -" in terminal.text("group reset readers back --to latest --create").splitlines()
    assert "dry run" in terminal.text("group reset readers back --shift -2 --dry-run")
    assert "back@broker-a:0 5 3 -2 -" in terminal.text("group reset readers back --shift -2").splitlines()
    document = terminal.document("group reset readers back --to-offset 99 --queue broker-a:0")
    assert [(queue["before"], queue["after"], queue["clamped"]) for queue in document["queues"]] == [(3, 5, True)]


def test_the_offsets_of_a_group_go_into_a_file_and_come_back_also_for_another_group(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.text("topic create kept --queues 2")
    terminal.text("produce kept --count 8")
    terminal.text("group reset keepers kept --to latest --create")
    file = tmp_path / "keepers.json"
    file.write_text(terminal.text("group export keepers"))
    terminal.text("group reset keepers kept --to earliest")
    assert "dry run" in terminal.text(f"group import {file} --dry-run")
    looked = terminal.document(f"group import {file} --dry-run")["queues"]
    done = terminal.document(f"group import {file}")["queues"]
    assert looked == done
    assert sum(queue["after"] for queue in done) == 8
    assert {queue["before"] for queue in done} == {0}
    other = terminal.document(f"group import {file} --group others")["queues"]
    assert [(queue["before"], queue["after"]) for queue in other] == [(None, queue["after"]) for queue in done]
    exported = json.loads(file.read_text())
    file.write_text(json.dumps(exported | {"offsets": [["kept", "broker-a", 1, 2], ["kept", "broker-a", 0, 1]]}))
    ordered = terminal.document(f"group import {file} --dry-run")["queues"]
    assert [queue["after"] for queue in ordered] == [1, 2], "sorted by queue"
    file.write_text(json.dumps(exported | {"offsets": [["kept", "broker-a", 0, 0], ["nowhere", "broker-a", 0, 1]]}))
    assert "'nowhere' does not exist" in terminal.error(f"group import {file}")
    assert json.loads(terminal.text("group export keepers")) == exported, "nothing was reset"


def test_a_group_is_switched_off_and_on(terminal: Terminal) -> None:
    assert "no broker knows group 'waiters'" in terminal.error("group set waiters --no-consume")
    off = "consume=off broadcast=on retry_queues=1 max_attempts=3 fifo=off retry_delays=default"
    said = terminal.text("group set waiters --no-consume --max-attempts 3 --create")
    assert said == f"group waiters on broker-a: {off}"
    shown = terminal.text("group show waiters").splitlines()
    assert f"settings: {off}" in shown
    assert shown[-1] == "switched off on broker-a; lag 0; no members"
    settings = terminal.document("group set waiters --consume --max-attempts own")["settings"]
    defaults = {"consume": True, "broadcast": True, "retry_queues": 1, "max_attempts": -1}
    assert settings == {"broker-a": {**defaults, "fifo": False, "retry_delays_ms": []}}
    said = terminal.text("group set waiters --fifo --retry-delays 100ms,2s")
    assert said.endswith("max_attempts=own fifo=on retry_delays=0.1s,2s")
    refused = terminal.type("group set waiters --retry-delays 5")
    assert (refused.exit_code, "--retry-delays must be default, or up to 32 times" in refused.stderr) == (2, True)


def test_dead_letters_are_listed_shown_and_sent_again_once(terminal: Terminal) -> None:
    for topic in ("%RETRY%mourners", "%DLQ%mourners"):
        terminal.text(f"topic create {topic} --queues 1")
    assert terminal.text("group dlq list mourners").endswith("0 to re-send")
    terminal.text("produce %DLQ%mourners --count 3 --tag red")
    assert terminal.text("group dlq list mourners").endswith("3 to re-send")
    shown = terminal.document("group dlq show mourners --limit 2")
    assert ([letter["offset"] for letter in shown["letters"]], shown["more"]) == ([0, 1], True)
    middle = shown["letters"][1]["message_id"]
    assert "body 9 bytes: message 2" in terminal.text(f"group dlq show mourners --id {middle}").splitlines()
    assert terminal.text(f"group dlq resend mourners --id {middle}") == "1 message re-sent to the group"
    assert "--again sends it once more" in terminal.error(f"group dlq resend mourners --id {middle}")
    assert terminal.document("group dlq resend mourners --all")["resent"] == 2
    assert terminal.document("group dlq resend mourners --all")["resent"] == 0
    assert (
        terminal.text("group dlq show mourners --pending")
        == "group mourners has no dead-letter messages left to re-send"
    )
    assert "3 messages in 1 queue" in terminal.text("topic show %RETRY%mourners")


def test_a_message_is_found_by_its_key_and_shown_by_its_id(terminal: Terminal) -> None:
    terminal.text("topic create letters --queues 1")
    terminal.text("produce letters --count 3 --tag air --key k7")
    assert len(terminal.document("message find letters --key k7 --since 1h")["messages"]) == 3
    newest = terminal.document("message find letters --key k7 --max 1")
    assert not newest["complete"]
    (message,) = newest["messages"]
    assert (message["body"], message["offset"], message["queue"]) == ("message 3", 2, "letters@broker-a:0")
    shown = terminal.text(f"message show {message['message_id']}")
    assert f"message {message['message_id']} of topic letters, created " in shown
    assert "letters broker-a 0 2 0" in shown
    assert "k7 air" in terminal.text("message find letters --key k7")
    assert "no message of letters with key 'k8' was stored" in terminal.error("message find letters --key k8")
    assert "no message with id 'nonsense' is stored" in terminal.error("message show nonsense")
    assert "no message with id 'nonsense' is in a queue" in terminal.error("group why --message nonsense")
    said = terminal.type(f"group why --message {message['message_id']}").stderr
    assert said == "error: no event of a group in this trace is about letters@broker-a:0\n"
    assert "'nowhere' does not exist" in terminal.error("message find nowhere --key k")


def test_members_and_groups_are_completed_also_as_words_of_a_fault(
    terminal: Terminal, cluster: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLAB_NAMESRV", cluster.address)
    terminal.text("topic create completed --queues 1")

    async def nothing(messages: Any) -> None:
        """A listener."""

    async def main() -> None:
        async with PushConsumer(cluster.address, group="completers", instance_name="c7") as consumer:
            await consumer.subscribe("completed", nothing)
            with anyio.fail_after(20):
                while not await anyio.to_thread.run_sync(complete.members, consumer.client_id):
                    pass
            words = await anyio.to_thread.run_sync(complete.fault_words, f"client={consumer.client_id[:-1]}")
            assert words == [f"client={consumer.client_id}"]
            assert await anyio.to_thread.run_sync(complete.fault_words, "group=completer") == ["group=completers"]

    anyio.run(main)


def fields_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Every field of a JSON document, at any depth, without those of events, which are a format of their own."""
    if isinstance(value, dict):
        value = {field: part for field, part in value.items() if field != "event"}
        yield from value.items()
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from fields_of(part)


@pytest.mark.walk
def test_a_queue_is_one_name_in_the_json_of_every_command(terminal: Terminal, cluster: Daemon, tmp_path: Path) -> None:
    terminal.text("topic create named --queues 2")
    terminal.text("produce named --count 6 --key k")
    read = f"consume named --group namers --from earliest --count 6 --json --namesrv {cluster.address}"
    received = [json.loads(line) for line in rlab(*read.split(), "--timeout", "30", cwd=tmp_path).stdout.splitlines()]
    terminal.text("topic create %DLQ%namers --queues 1")
    terminal.text("produce %DLQ%namers --count 1")
    lines = {
        *("topic show named", "group show namers", "group history namers", "group why named broker-a:0"),
        *("group dlq list namers", "group dlq show namers", "message find named --key k"),
        *(f"message show {received[0]['message_id']}", "group reset namers named --to earliest --dry-run"),
    }
    with_queues: set[str] = set()
    for what, document in {"consume": received, **{line: terminal.document(line) for line in lines}}.items():
        for field, value in fields_of(document):
            assert field not in ("queue_id", "broker_name"), (what, field)
            if field == "queue":
                assert re.fullmatch(r"\S+@broker-a:\d+", value), (what, value)
                with_queues.add(what)
    assert with_queues >= {"consume", *lines} - {"group history namers"}


@pytest.mark.parametrize(
    ("line", "complaint", "code"),
    [
        ("topic create wrong!name", "topic name 'wrong!name' may only have", 2),
        ("topic create t --broker nope", "broker 'nope' is not registered; registered brokers: broker-a", 2),
        ("topic create SYS_TRACE", "is a system topic", 1),
        ("produce SYS_TRACE --count 1 --key \udcff", "'\\udcff' is not text", 2),
        ("message find SYS_TRACE --key \udcff", "nothing was sent, because a text", 2),
        ("produce nowhere --count 1", "no broker creates topics automatically: create it with 'rlab topic create'", 1),
        ("consume nowhere --group g", "'nowhere' does not exist: create it", 1),
        ("consume nowhere --wait --group g --count 1 --timeout 0.1", "received 0 of 1 message in 0.1 s", 1),
        ("group show", "Missing argument", 2),
        ("group set g", "use at least one of --consume, --broadcast", 2),
        ("group set g --max-attempts many", "--max-attempts must be 0 to 65000, or own; got 'many'", 2),
        ("group dlq list nobody", "no broker knows group 'nobody'", 1),
        ("group dlq resend g", "use either --id ID or --all", 2),
        ("group reset g t", "use one of --to earliest|latest|TIME", 2),
        ("group reset g nowhere --to 1h", "'nowhere' does not exist: create it", 1),
        ("topic list --namesrv 127.0.0.1:1", "cannot connect to 127.0.0.1:1", 1),
        ("topic list --namesrv nonsense", "'nonsense' is not an address", 2),
        ("produce nowhere --count 1 --namesrv 127.0.0.1:1", "no name server answers", 1),
        ("consume nowhere --group g --namesrv 127.0.0.1:1", "no name server answers", 1),
    ],
)
def test_bad_input_is_reported_in_one_line_and_one_kind_of_mistake_has_one_exit_code(
    line: str, complaint: str, code: int, terminal: Terminal
) -> None:
    result = terminal.type(line)
    assert result.exit_code == code
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
