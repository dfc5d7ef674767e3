"""Both dialects on one port, and what the second one costs the first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from remoting.codec import CODEC, Dialect
from remoting.command import REQUEST, Command
from remoting.connection import Connection
from rocketmq.dialects import broker_dialect, broker_dialects, name_server_dialect
from rocketmq.edge import RocketmqDialect, ServerFacts


class Loop:
    """As much of a loop as a connection needs to receive."""

    def create_future(self) -> None:
        return None

    def time(self) -> float:
        return 0.0


def calls_of(*dialects: Dialect) -> int:
    """Calls of Python code for one message that comes over a connection on which one has come already."""
    handled: list[Command] = []
    connection = Connection(
        Loop(),  # type: ignore[arg-type]
        on_request=lambda _, command: handled.append(command),
        pause_reads_when_blocked=True,
        dialects=dialects,
    )
    frame = CODEC.encode(REQUEST, 10, 1, {"topic": "t"}, b"x")
    connection.data_received(frame)
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    receive: Callable[[bytes], None] = connection.data_received
    sys.setprofile(count)
    receive(frame)
    sys.setprofile(None)
    assert len(handled) == 2
    return calls


def test_a_message_of_our_own_protocol_costs_not_one_call_more() -> None:
    assert calls_of(*broker_dialects(ServerFacts())) == calls_of()


@pytest.mark.parametrize("dialect", [broker_dialect(ServerFacts()), name_server_dialect()])
def test_both_kinds_of_servers_report_rocketmq_by_the_fifth_byte(dialect: RocketmqDialect) -> None:
    assert [dialect.matches(first) for first in (b"\0\0\0\x7f\0", b"\0\0\0\x7f\x96", b"\0\0\0")] == [True, False, None]
