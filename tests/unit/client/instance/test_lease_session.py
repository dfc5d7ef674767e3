"""Until when a lease is good: never longer than the broker keeps it, and no old session counts in a new one."""

from __future__ import annotations

from dataclasses import dataclass

from client.instance.lease_session import LeaseSession, LeaseSessions

GROUP, ADDRESS = "g", "broker-a:10911"


@dataclass
class Wire:
    closed: bool = False


def recorded(
    sessions: LeaseSessions, wire: Wire, sent_at: float, *, joined: bool = False, after_s: float = 0.0
) -> bool:
    now = sent_at + after_s
    return sessions.record_answer(GROUP, ADDRESS, wire, good_until=sent_at + 3.0, joined=joined, now=now)


def current(sessions: LeaseSessions, now: float) -> LeaseSession | None:
    return sessions.current(GROUP, ADDRESS, now)


def test_nothing_is_good_before_a_heartbeat_was_answered() -> None:
    assert current(LeaseSessions(), 0.0) is None


def test_a_session_lasts_for_the_timeout_from_when_the_heartbeat_was_sent() -> None:
    sessions = LeaseSessions()
    assert recorded(sessions, Wire(), 10.0, joined=True, after_s=1.0)
    session = current(sessions, 11.0)
    assert session is not None
    assert session.good(12.999)
    assert not session.good(13.0)


def test_heartbeats_prolong_it_in_whatever_order_they_are_answered() -> None:
    sessions, wire = LeaseSessions(), Wire()
    recorded(sessions, wire, 10.0)
    session = current(sessions, 10.0)
    assert not recorded(sessions, wire, 12.0)
    assert not recorded(sessions, wire, 11.0, after_s=1.5)
    assert session is current(sessions, 14.9)


def test_it_ends_with_its_connection_and_a_new_one_begins_another() -> None:
    sessions, wire = LeaseSessions(), Wire()
    recorded(sessions, wire, 10.0)
    session = current(sessions, 10.0)
    assert session is not None
    wire.closed = True
    assert not session.good(10.1)
    assert current(sessions, 10.1) is None
    assert recorded(sessions, Wire(), 10.2)
    assert current(sessions, 10.2) is not session


def test_one_that_has_run_out_is_not_continued() -> None:
    sessions, wire = LeaseSessions(), Wire()
    recorded(sessions, wire, 10.0)
    session = current(sessions, 10.0)
    assert recorded(sessions, wire, 12.5, after_s=1.0), "nobody knew at 13.0 whether it would be"
    assert session is not None
    assert not session.good(13.5)
    assert current(sessions, 13.5) is not None


def test_one_that_the_broker_has_ended_is_not_continued() -> None:
    sessions, wire = LeaseSessions(), Wire()
    recorded(sessions, wire, 10.0)
    session = current(sessions, 10.0)
    assert recorded(sessions, wire, 11.0, joined=True)
    assert session is not None
    assert not session.good(11.0)


def test_groups_and_brokers_have_sessions_of_their_own() -> None:
    sessions, wire = LeaseSessions(), Wire()
    for group, address in [("g", "a:1"), ("g", "b:1"), ("h", "a:1")]:
        assert sessions.record_answer(group, address, wire, good_until=3.0, joined=True, now=0.0)
    of_h = sessions.current("h", "a:1", 0.0)
    sessions.forget("g")
    assert sessions.current("g", "a:1", 0.0) is sessions.current("g", "b:1", 0.0) is None
    assert of_h is not None
    assert of_h.good(0.0)


def test_sessions_that_are_over_take_no_room() -> None:
    sessions = LeaseSessions()
    for number in range(100):
        sessions.record_answer(GROUP, f"broker:{number}", Wire(), good_until=number + 1.5, joined=True, now=number)
    assert len(sessions._sessions) <= 3
