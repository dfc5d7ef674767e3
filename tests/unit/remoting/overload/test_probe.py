"""A ping follows an overdue request, and a connection without any sign of life is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from model.errors import ConnectionLost, FlowControl, RequestTimeout
from model.limits import PING_TIMEOUT_S
from remoting.command import RESPONSE, Command
from remoting.overload.probe import Probe
from remoting.request_code import RequestCode
from remoting.session import Waiter


class SilentConnection:
    """A connection that keeps its pings, and says what a test says."""

    peer = "broker-a:10911"

    def __init__(self) -> None:
        self.reads = self.unsent_bytes = self.in_flight = 0
        self.on_overdue: Callable[[], None] | None = None
        self.pings: list[Waiter] = []
        self.left: list[str] = []
        self.is_full = False

    def request_for(
        self, waiter: Waiter, code: int, header: Mapping[str, Any], body: bytes | None, timeout_s: float
    ) -> None:
        if self.is_full:
            raise FlowControl("too many requests")
        assert (code, timeout_s) == (RequestCode.GET_SERVER_STATE, PING_TIMEOUT_S)
        self.pings.append(waiter)

    def drop_unsent(self, reason: str) -> None:
        self.left.append(reason)

    def overdue(self) -> None:
        assert self.on_overdue is not None
        self.on_overdue()


@pytest.fixture
def connection() -> SilentConnection:
    """A connection with a probe."""
    made = SilentConnection()
    Probe(made)
    return made


NO_ANSWER = RequestTimeout("no answer")


def test_a_connection_over_which_nothing_comes_is_left_with_a_warning(
    connection: SilentConnection, caplog: pytest.LogCaptureFixture
) -> None:
    connection.in_flight = 7
    connection.overdue()
    connection.pings.pop().set_exception(NO_ANSWER)
    [reason] = connection.left
    assert "not even the answer to a ping" in reason
    assert "broker-a:10911" in caplog.text
    assert "7 requests were unanswered" in caplog.text


def test_one_ping_is_under_way_at_a_time_and_the_next_overdue_request_sends_another(
    connection: SilentConnection,
) -> None:
    connection.overdue()
    connection.overdue()
    [ping] = connection.pings
    ping.set_result(Command(RESPONSE, 0, 1, {}, None))
    connection.overdue()
    assert len(connection.pings) == 2
    assert connection.left == []


def test_a_refusal_is_a_sign_of_life(connection: SilentConnection) -> None:
    connection.overdue()
    connection.pings[0].set_result(Command(RESPONSE, 2, 1, {"remark": "busy"}, None))
    assert connection.left == []


def test_any_bytes_are_a_sign_of_life_because_the_answer_may_wait_behind_them(connection: SilentConnection) -> None:
    connection.reads = 3
    connection.overdue()
    connection.reads = 4
    connection.pings[0].set_exception(NO_ANSWER)
    assert connection.left == []
    connection.overdue()
    connection.pings[1].set_exception(NO_ANSWER)
    assert len(connection.left) == 1


def test_a_large_frame_that_leaves_slowly_is_a_sign_of_life(connection: SilentConnection) -> None:
    connection.unsent_bytes = 10_000_000
    connection.overdue()
    connection.unsent_bytes = 9_000_000
    connection.pings[0].set_exception(NO_ANSWER)
    assert connection.left == []
    connection.overdue()
    connection.pings[1].set_exception(NO_ANSWER)
    assert len(connection.left) == 1


def test_the_end_of_the_connection_is_not_a_reason_to_leave_it(connection: SilentConnection) -> None:
    connection.overdue()
    connection.pings[0].set_exception(ConnectionLost("closed"))
    assert connection.left == []


def test_without_room_for_a_ping_the_next_overdue_request_tries_again(connection: SilentConnection) -> None:
    connection.is_full = True
    connection.overdue()
    connection.is_full = False
    connection.overdue()
    assert len(connection.pings) == 1
