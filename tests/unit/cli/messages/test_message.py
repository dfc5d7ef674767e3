from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from cli.main import app
from cli.messages.message import fail_without, found_document, print_incomplete_search, print_message, since_ms
from client.admin.messages import FoundMessage, FoundMessages
from model.message import MessageExt
from model.message_queue import MessageQueue


def stored(topic: str = "t", offset: int = 3, due_ms: int | None = None, body: bytes = b"hello") -> FoundMessage:
    message = MessageExt(
        MessageQueue(topic, "broker-a", 1),
        offset,
        1_700_000_000_000,
        2,
        "t",
        body,
        "red",
        ("k1", "k2"),
        {"p": "q"},
        5,
        "id",
    )
    return FoundMessage(message=message, due_ms=due_ms)


def found(*messages: FoundMessage, is_complete: bool = True, unreachable: tuple[str, ...] = ()) -> FoundMessages:
    return FoundMessages(messages=messages, is_complete=is_complete, unreachable=unreachable)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0s", 0), ("90s", 90_000), ("10m", 600_000), ("1h", 3_600_000), ("2d", 172_800_000), ("1.5h", 5_400_000)],
)
def test_a_length_of_time_is_a_number_and_a_unit(text: str, ms: int) -> None:
    assert since_ms(text) == ms


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "1.5", "1 2h", "1y", "yesterday", "9999999999d"])
def test_what_is_not_a_length_of_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="90s, 10m, 1h or 2d"):
        since_ms(text)


def test_a_message_is_printed_with_its_places(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(found(stored("%RETRY%g", -1, due_ms=1_700_000_010_000), stored()))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip() and "─" not in line]
    assert lines[0].startswith("message id of topic t, created 1970-01-01 ")
    retry, original = (" ".join(line.split()) for line in lines[2:4])
    assert " %RETRY%g broker-a 1 due 2023-11-1" in retry
    assert original.endswith(" t broker-a 1 3 2")
    assert [" ".join(line.split()) for line in lines[4:]] == [
        "keys k1, k2",
        "tag red",
        "property p = q",
        "body 5 bytes",
        "hello",
    ]


def test_what_is_not_a_message_is_printed_as_bytes_and_said_to_be_that(capsys: pytest.CaptureFixture[str]) -> None:
    bad = stored(offset=4, body=b"\xc1")
    bad = FoundMessage(message=bad.message._replace(message_id=""), due_ms=None, undecodable="not msgpack")
    print_message(found(bad))
    reported = capsys.readouterr()
    assert reported.out.splitlines()[-2:] == ["payload     1 bytes", "\\xc1"]
    assert "message id" not in reported.out
    assert reported.err.startswith(
        "note: t@broker-a:1+4 is not a message, only bytes that a foreign client stored: not msg"
    )
    print_message(found(bad, stored()))
    reported = capsys.readouterr()
    assert reported.out.startswith("message id of topic t")
    assert reported.out.splitlines()[-1] == "hello"
    assert reported.err.count("note:") == 1
    documents = json.loads(json.dumps(found_document(found(bad))))["messages"]
    assert [document["undecodable"] for document in documents] == ["not msgpack"]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"tab\there", "tab\\there"),
        (b"\xff\x00 bytes", "\\xff\\x00 bytes"),
        ("käse\n".encode(), "käse\\n"),
        (b"\x1b[31m", "\\x1b[31m"),
        (b"x" * 5_000, "x" * 1_999 + "…"),
    ],
)
def test_a_body_cannot_disturb_the_terminal(body: bytes, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_message(found(stored(body=body)))
    assert capsys.readouterr().out.splitlines()[-1] == shown


def test_keys_tags_and_properties_cannot_disturb_it_either(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\nbody        5 bytes"
    message = stored().message._replace(tags=hostile, keys=(hostile,), properties={hostile: hostile})
    print_message(found(FoundMessage(message=message, due_ms=None)))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert sum(line.startswith("body") for line in out.splitlines()) == 1


def test_the_document_reports_where_each_is_and_what_is_missing() -> None:
    document = found_document(found(stored("%DLQ%g", due_ms=7), is_complete=False, unreachable=("broker-b",)))
    assert json.loads(json.dumps(document)) == {
        "messages": [
            {
                "body": "hello",
                "topic": "t",
                "queue": "%DLQ%g@broker-a:1",
                "offset": 3,
                "keys": ["k1", "k2"],
                "tags": "red",
                "properties": {"p": "q"},
                "born_ms": 5,
                "stored_ms": 1_700_000_000_000,
                "message_id": "id",
                "times_delivered": 2,
                "due_ms": 7,
                "undecodable": None,
                "half": None,
            }
        ],
        "complete": False,
        "unreachable": ["broker-b"],
    }


def test_nothing_found_is_a_failure_that_says_who_did_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        fail_without("no message with id 'x' is stored", found(unreachable=("broker-b",)))
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == "error: no message with id 'x' is stored; broker broker-b does not answer\n"


def test_what_may_be_missing_is_said_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    print_incomplete_search(found(stored()))
    assert capsys.readouterr() == ("", "")
    print_incomplete_search(found(stored(), is_complete=False, unreachable=("broker-b",)))
    assert capsys.readouterr().err.splitlines() == [
        "note: these are the newest 1; there may be more",
        "note: broker broker-b does not answer, so its messages are missing",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["find", "t"], "Missing option '--key'"),
        (["find"], "Missing argument"),
        (["find", "t", "--key", "k", "--since", "soon"], "90s, 10m, 1h or 2d"),
        (["find", "t", "--key", "k", "--max", "65"], "not in the range 1<=x<=64"),
        (["show"], "Missing argument"),
        (["recall"], "Missing argument"),
    ],
)
def test_wrong_usage_is_reported_before_anything_is_asked(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["message", *arguments])
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())
