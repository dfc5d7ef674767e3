"""Answers that wait: each is a reply or the error of the write."""

from __future__ import annotations

from typing import Any

from broker.durability.answers import Response, answer, answer_sends
from model.errors import StorageFull
from remoting.command import REQUEST, Command
from tests.unit.broker.durability.test_barrier import Answers

REQUEST_7 = Command(REQUEST, 10, 7, {}, None)


def test_a_write_that_failed_is_the_answer_of_everything_that_waits_for_it() -> None:
    connection: Any = Answers()
    failure = StorageFull("no room")
    answer_sends([(connection, REQUEST_7, 0), (connection, REQUEST_7, 1)], failure)
    answer(connection, REQUEST_7, failure)
    Response(connection, REQUEST_7, {}, None)(failure)
    assert connection.errors == [failure] * 4
    assert connection.offsets == []


def test_a_write_that_is_done_sends_the_replies() -> None:
    connection: Any = Answers()
    answer_sends([], None)
    answer_sends([(connection, REQUEST_7, 3)], None)
    Response(connection, REQUEST_7, {"offset": 8}, b"rows")(None)
    assert (connection.offsets, connection.bodies) == ([3, 8], [None, b"rows"])
