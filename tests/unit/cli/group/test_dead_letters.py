from __future__ import annotations

import pytest
from typer.testing import CliRunner

from cli.group.dead_letters import _chosen, _print_dead_letters, dead_letter_document, print_unreadable, time_text
from cli.main import app
from client.admin.dead_letters import DeadLetter
from model.errors import QueryNotFound
from model.message import MessageExt
from model.message_queue import MessageQueue

MESSAGE = MessageExt(
    MessageQueue("%DLQ%g", "broker-a", 0), 5, 1_000, 16, "t", b"body", "red", ("k",), {"p": "v"}, 500, "id-1"
)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("group dlq resend g", "use either --id ID or --all"),
        ("group dlq resend g --id 1 --all", "use either --id ID or --all"),
        ("group dlq resend g --all --again", "--again needs --id"),
        ("group dlq resend g --all --to nobody", "use group or topic"),
        ("group dlq show g --limit 0", "--limit"),
        ("group dlq list", "Missing argument"),
    ],
)
def test_options_that_do_not_fit_are_refused(line: str, complaint: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_times_are_shown_and_none_is_none() -> None:
    assert time_text(None) is None
    shown = time_text(1_000)
    assert shown is not None
    assert shown.endswith(":01")
    assert time_text(10**17) == f"{10**17} ms", "no date: the clock of its producer was wrong"


def test_the_document_of_a_letter_is_that_of_its_message_and_what_became_of_it() -> None:
    document = dead_letter_document(DeadLetter(MESSAGE, True))
    assert (document["topic"], document["message_id"], document["body"]) == ("t", "id-1", "body")
    assert (document["retries"], document["resent"], document["offset"]) == (16, True, 5)
    assert document["undecodable"] is None
    assert dead_letter_document(DeadLetter(MESSAGE, False, "not msgpack"))["undecodable"] == "not msgpack"


def test_letters_that_are_not_messages_are_shown_as_bytes_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    bad = DeadLetter(MESSAGE._replace(body=b"\xc1", message_id=""), False, "not msgpack")
    _print_dead_letters([DeadLetter(MESSAGE, False), bad, bad], empty="")
    reported = capsys.readouterr()
    assert reported.out.count("\\xc1") == 2
    assert reported.err == "note: 2 in the DLQ are not messages, but bytes of a foreign client: shown as bytes\n"
    print_unreadable(0, "left in the DLQ")
    assert capsys.readouterr().err == ""


def test_ids_without_a_letter_are_all_named_and_nothing_is_sent() -> None:
    dead_letter = DeadLetter(MESSAGE, False)
    assert _chosen("g", {"id-1": [dead_letter]}) == [dead_letter]
    with pytest.raises(QueryNotFound, match=r"nothing was sent: .* the id a, b; .* --again"):
        _chosen("g", {"a": [], "id-1": [dead_letter], "b": []})
