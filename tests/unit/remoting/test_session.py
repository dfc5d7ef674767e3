"""Opaque numbers, deadlines and the in-flight limit, against a twin that searches where the session remembers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import FlowControl
from remoting.session import RequestSession


def test_a_session_goes_through_the_example_of_its_header() -> None:
    session: RequestSession[str] = RequestSession()
    assert session.next_deadline() is None
    assert session.start(3.0, "a") == 1
    assert session.start(9.0, "b") == 2
    assert session.next_deadline() == 3.0
    assert session.finish(1) == "a"
    assert session.next_deadline() == 3.0
    assert session.expire(3.0) == []
    assert session.next_deadline() == 9.0


def test_a_response_counts_once_and_one_to_an_unknown_request_is_ignored() -> None:
    session: RequestSession[str] = RequestSession()
    opaque = session.start(1.0, "a")
    assert session.finish(opaque) == "a"
    assert session.finish(opaque) is None
    assert session.finish(0) is None


def test_a_request_expires_at_its_deadline_and_not_before() -> None:
    session: RequestSession[str] = RequestSession()
    opaque = session.start(2.0, "a")
    assert session.expire(1.999) == []
    assert session.expire(2.0) == ["a"]
    assert session.finish(opaque) is None
    assert session.next_deadline() is None


def test_as_many_requests_as_the_limit_are_in_flight_and_not_one_more() -> None:
    session: RequestSession[int] = RequestSession(max_in_flight=2)
    first = session.start(1.0, 1)
    session.start(1.0, 2)
    with pytest.raises(FlowControl, match="2 requests are unanswered"):
        session.start(0.5, 3)
    assert len(session) == 2
    assert session.next_deadline() == 1.0  # the refused one left no trace
    session.finish(first)
    session.start(1.0, 3)


def test_opaque_numbers_are_not_used_twice() -> None:
    session: RequestSession[str] = RequestSession()
    assert [session.start(1.0, call) for call in "abc"] == [1, 2, 3]
    session.finish(2)
    session.expire(1.0)
    assert session.start(2.0, "d") == 4


def test_closing_hands_back_everything_that_is_in_flight() -> None:
    session: RequestSession[str] = RequestSession()
    session.start(1.0, "a")
    session.start(2.0, "b")
    assert session.close() == ["a", "b"]
    assert session.close() == []
    assert len(session) == 0
    assert session.next_deadline() is None


STEPS = st.lists(
    st.tuples(st.just("start"), st.integers(0, 20))
    | st.tuples(st.just("finish"), st.integers(0, 12))
    | st.tuples(st.just("expire"), st.integers(0, 20)),
    max_size=40,
)


@given(STEPS)
def test_a_session_does_what_a_plain_list_of_requests_does(steps: list[tuple[str, int]]) -> None:
    session: RequestSession[int] = RequestSession(max_in_flight=4)
    twin: list[tuple[int, float, int]] = []  # opaque, deadline, call
    for call, (step, argument) in enumerate(steps):
        if step == "start" and len(twin) == 4:
            with pytest.raises(FlowControl):
                session.start(argument, call)
        elif step == "start":
            opaque = session.start(argument, call)
            assert opaque > 0
            assert opaque not in [entry[0] for entry in twin]
            twin.append((opaque, argument, call))
        elif step == "finish":
            expected = [entry for entry in twin if entry[0] == argument]
            assert session.finish(argument) == (expected[0][2] if expected else None)
            twin = [entry for entry in twin if entry[0] != argument]
        else:
            assert session.expire(argument) == [call for _, deadline, call in twin if deadline <= argument]
            twin = [entry for entry in twin if entry[1] > argument]
        assert len(session) == len(twin)
        # The promise of `next_deadline`: not later than the truth, and exact right after `expire`.
        truth = min((deadline for _, deadline, _ in twin), default=None)
        bound = session.next_deadline()
        if truth is not None:
            assert bound is not None
            assert bound <= truth
        if step == "expire":
            assert bound == truth
