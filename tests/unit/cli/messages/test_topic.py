from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.messages.topic import permission_text, print_route, route_document
from model.topic_route import READ_WRITE, BrokerData, MessageType, Perm, QueueData, TopicConfig, TopicRoute


def route(*queues: tuple[str, int, int], perm: Perm = READ_WRITE) -> TopicRoute:
    return TopicRoute(
        topic="t",
        queues=tuple(
            QueueData(broker_name=name, read_queue_nums=read, write_queue_nums=write, perm=perm)
            for name, read, write in queues
        ),
        brokers=tuple(BrokerData(cluster="c", broker_name=name, addresses={0: f"{name}:1"}) for name, *_ in queues),
    )


def test_a_route_is_reported_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    print_route(route(("a", 4, 4), ("b", 4, 2)), as_json=False, done="scaled")
    assert capsys.readouterr() == ("topic t scaled: queues on a 4, b 4 read 2 write\n", "")


def test_the_message_type_of_a_topic_is_in_the_sentence_and_in_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    whole = route(("a", 4, 4), ("b", 4, 4))
    fifo = [replace(data, message_type=MessageType.FIFO) for data in whole.queues]
    print_route(replace(whole, queues=tuple(fifo)), as_json=False, done="set")
    assert capsys.readouterr().out == "topic t set: queues on a 4, b 4, FIFO messages only\n"
    print_route(replace(whole, queues=(fifo[0], whole.queues[1])), as_json=False, done="set")
    assert capsys.readouterr().out == "topic t set: queues on a 4, b 4, messages: a FIFO, b MIXED\n"
    print_route(replace(whole, queues=(fifo[0], whole.queues[1])), as_json=True, done="set")
    brokers = json.loads(capsys.readouterr().out)["brokers"]
    assert [each["message_type"] for each in brokers] == ["FIFO", "MIXED"]


def test_queues_that_are_written_and_never_read_are_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_route(route(("a", 4, 6)), as_json=True, done="created")
    out, err = capsys.readouterr()
    assert json.loads(out)["brokers"][0]["write_queue_nums"] == 6
    assert err == "note: queues 4 to 5 of a cannot be read, but messages are sent to them\n"


def test_the_document_of_a_route_counts_what_can_be_used() -> None:
    assert route_document(route(("a", 4, 2), ("b", 1, 1), perm=Perm.READ)) == {
        "topic": "t",
        "read_queues": 5,
        "write_queues": 0,
        "brokers": [
            {"broker": "a", "read_queue_nums": 4, "write_queue_nums": 2, "perm": "r-", "message_type": "MIXED"},
            {"broker": "b", "read_queue_nums": 1, "write_queue_nums": 1, "perm": "r-", "message_type": "MIXED"},
        ],
    }


def test_a_queue_is_readable_and_writable_up_to_the_two_counts() -> None:
    config = TopicConfig(topic="t", read_queue_nums=2, write_queue_nums=1)
    assert [permission_text(config, queue_id) for queue_id in range(3)] == ["rw", "r-", "--"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["create"], "Missing argument"),
        (["create", "t", "--queues", "0"], "not in the range 1<=x<=65536"),
        (["scale", "t"], "use --queues N, --read N or --write N"),
        (["set", "t"], "use --message-type TYPE"),
        (["set", "t", "--message-type", "SLOW"], "'SLOW' is not one of MIXED, NORMAL, FIFO, DELAY, TRANSACTION"),
        (["create", "t", "--message-type", ""], "'' is not one of MIXED"),
        (["show"], "Missing argument"),
    ],
)
def test_wrong_usage_is_reported_before_anything_is_asked(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["topic", *arguments])
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())


def test_a_deletion_without_a_confirmation_fails_and_is_not_a_wrong_command_line() -> None:
    result = CliRunner().invoke(app, ["topic", "delete", "t"])
    assert result.exit_code == 1
    assert result.stderr == "error: this deletes every message of t: confirm with --yes\n"
