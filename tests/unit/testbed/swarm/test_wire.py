from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.events import Event, EventKind
from testbed.swarm.wire import Bunch, read_line, state_line

EVENT = Event(1.5, "c1", 7, EventKind.QUEUE_ACQUIRED, "c1/6", "g", "t", "b", 3, "c1", 2, 100, -1, "why")


class Reported:
    """A sink that writes every call down."""

    def __init__(self) -> None:
        self.calls: dict[str, list[object]] = {"acknowledged": [], "failed": [], "received": [], "event": []}

    def acknowledged(self, producer: int, number: int) -> None:
        self.calls["acknowledged"].append((producer, number))

    def failed(self, producer: int, number: int) -> None:
        self.calls["failed"].append((producer, number))

    def received(self, producer: int, number: int) -> None:
        self.calls["received"].append((producer, number))

    def event(self, event: Event) -> None:
        self.calls["event"].append(event)


def test_messages_that_follow_each_other_are_reported_as_one_run() -> None:
    bunch = Bunch()
    for producer, number in ((0, 4), (0, 5), (1, 9), (0, 6), (0, 6)):
        bunch.received(producer, number)
    assert json.loads(bunch.next_line())["received"] == [[0, 4, 2], [1, 9, 1], [0, 6, 1], [0, 6, 1]]


def test_a_line_is_taken_once() -> None:
    bunch = Bunch()
    bunch.failed(0, 0)
    assert bunch.next_line().count(b"\n") == 1
    assert bunch.next_line() == b""


_CALLS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["acknowledged", "failed", "received"]), st.tuples(st.integers(0, 2), st.integers(0, 20))
        ),
        st.tuples(st.just("event"), st.just((EVENT,))),
    )
)


@given(_CALLS)
def test_what_is_reported_arrives_as_it_was(calls: list[tuple[str, tuple[object, ...]]]) -> None:
    bunch, expected, reported = Bunch(), Reported(), Reported()
    for kind, arguments in calls:
        getattr(bunch, kind)(*arguments)
        getattr(expected, kind)(*arguments)
    line = bunch.next_line()
    assert bool(line) == bool(calls)
    if line:
        assert read_line(line, reported) == ""
    assert reported.calls == expected.calls


def test_a_state_is_a_line_of_its_own() -> None:
    assert read_line(state_line("joined"), Reported()) == "joined"


@pytest.mark.parametrize("line", [b"Traceback", b"[]", b'{"received": [[1]]}', b'{"events": [{}]}', b'{"failed": 3}'])
def test_a_line_that_is_none_is_an_error_that_shows_it(line: bytes) -> None:
    with pytest.raises(ValueError, match="a part of the swarm sent b"):
        read_line(line, Reported())
