from __future__ import annotations

from model.absent_broker import NONE_ABSENT, Absence, AbsentBroker
from model.events import Event
from model.missing_trace import NOTHING_MISSING, SilentBrokers, describe_missing

AWAY = AbsentBroker(
    cluster="lab", broker_name="b", broker_id=0, address="b:1", away_s=6.0, reason="was silent for too long"
)


def test_a_trace_without_absent_or_silent_brokers_is_whole() -> None:
    assert describe_missing(NONE_ABSENT, {}, 60.0) == NOTHING_MISSING
    assert not NOTHING_MISSING
    assert str(NOTHING_MISSING) == ""


def test_absent_and_silent_brokers_are_named_once_each_with_the_reason() -> None:
    missing = describe_missing(
        Absence(brokers=(AWAY,), known_for_s=60.0, unable={}), {"a": "no answer", "b": "none"}, 30.0
    )
    assert str(missing) == (
        "the part of the trace that is on a, b is missing: broker a does not answer: no answer; "
        "broker b at b:1 was silent for too long 6 s ago"
    )
    assert missing.limit == ""


def test_what_no_name_server_can_know_is_a_limit_and_nothing_missing() -> None:
    missing = describe_missing(Absence(brokers=(), known_for_s=None, unable={"ns:1": "too old"}), {}, None)
    assert not missing
    assert missing.limit == "no name server can report brokers that are away (ns:1: too old)"


def test_a_broker_that_others_name_and_that_has_no_event_is_missing() -> None:
    brokers = SilentBrokers()
    for node in ("broker-a", "c1"):
        for broker in ("broker-a", "broker-b"):
            if node in ("c1", broker):
                brokers.add(Event(1.0, node, 1, "QUEUE_ACQUIRED", "c1/1", "g", "t", broker, 0, "c1"))
    assert str(brokers.missing) == (
        "the part of the trace that is on broker-b is missing: no event is of broker-b, and others name it"
    )
    brokers.add(Event(2.0, "broker-b", 1, "LOCK_GRANTED", "c1/1", "g", "t", "broker-b", 0, "c1"))
    assert not brokers.missing
