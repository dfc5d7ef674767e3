from __future__ import annotations

import pytest

from client import MessageQueue
from model.message import SendResult
from testbed.crash.ledger import (
    LANES,
    MAX_EXAMPLES,
    Findings,
    LaneKind,
    Ledger,
    crash_body,
    lane_kind,
    parse_crash_body,
)
from traces.check.ledger import SentMessage

QUEUE = MessageQueue("t", "broker-a", 0)


@pytest.mark.parametrize("sent", [SentMessage(0, 0), SentMessage(71, 2**40), SentMessage(5, 1_234)])
def test_a_body_reports_its_message_and_any_changed_byte_is_seen(sent: SentMessage) -> None:
    body = crash_body(sent)
    assert parse_crash_body(body) == sent
    for position in range(len(body)):
        changed = bytes([*body[:position], body[position] ^ 1, *body[position + 1 :]])
        assert parse_crash_body(changed) != sent
    assert parse_crash_body(body[:-1]) is None
    assert parse_crash_body(b"short") is None


def test_bodies_are_of_many_sizes() -> None:
    assert len({len(crash_body(SentMessage(0, number))) for number in range(100)}) > 90


def test_every_producer_has_lanes_of_every_kind() -> None:
    assert {lane_kind(lane) for lane in range(LANES, 2 * LANES)} == set(LaneKind)


def found(ledger: Ledger) -> dict[str, int]:
    return {each.rule.value: each.found for each in ledger.verdict().rules if each.found}


def test_what_is_acknowledged_is_due_until_it_is_consumed_whichever_comes_first() -> None:
    ledger = Ledger(float)
    ledger.acknowledge(SentMessage(0, 0), SendResult(QUEUE, 0, "a"))
    assert ledger.messages.lost == 1
    ledger.consume("c", SentMessage(0, 0), QUEUE, 0)
    ledger.consume("c", SentMessage(0, 1), QUEUE, 1)
    ledger.acknowledge(SentMessage(0, 1), SendResult(QUEUE, 1, "b"))
    assert ledger.messages.lost == 0
    assert (ledger.messages.received, ledger.messages.duplicates) == (2, 0)
    ledger.consume("c", SentMessage(0, 1), QUEUE, 1)
    assert ledger.messages.duplicates == 1
    assert found(ledger) == {}


def test_a_send_that_was_abandoned_is_due_to_no_one() -> None:
    ledger = Ledger(float)
    ledger.record_failure(SentMessage(0, 0), refused=False)
    ledger.record_failure(SentMessage(0, 1), refused=True)
    assert (ledger.messages.failed_sends, ledger.messages.lost) == (2, 0)
    assert ledger.refused == {SentMessage(0, 1)}


def test_a_message_may_are_redelivered_and_none_may_be_passed() -> None:
    ledger = Ledger(float)
    for number in range(4):
        ledger.acknowledge(SentMessage(0, number), SendResult(QUEUE, number, "a"))
    for owner, offset in [("a", 0), ("a", 1), ("b", 1), ("b", 2), ("a", 2)]:
        ledger.deliver(owner, SentMessage(0, offset), QUEUE, offset)
        ledger.consume(owner, SentMessage(0, offset), QUEUE, offset)
    assert ledger.deliveries == 5
    ledger.acknowledge(SentMessage(0, 4), SendResult(QUEUE, 4, "a"))
    ledger.deliver("a", SentMessage(0, 4), QUEUE, 4)
    assert found(ledger) == {"poll-skip": 1, "lost-write": 2}, "3 was passed, and neither it nor 4 was consumed"


def test_rules_are_all_counted_and_the_first_ones_reported() -> None:
    findings = Findings()
    for number in range(MAX_EXAMPLES + 5):
        findings.add("lost", str(number))
    assert findings.counts == {"lost": MAX_EXAMPLES + 5}
    assert findings.examples == [f"lost: {number}" for number in range(MAX_EXAMPLES)]
