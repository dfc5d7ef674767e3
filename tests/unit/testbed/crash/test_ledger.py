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
    sent_of,
)
from traces.check.ledger import Sent

QUEUE = MessageQueue("t", "broker-a", 0)


@pytest.mark.parametrize("sent", [Sent(0, 0), Sent(71, 2**40), Sent(5, 1_234)])
def test_a_body_reports_its_message_and_any_changed_byte_is_seen(sent: Sent) -> None:
    body = crash_body(sent)
    assert sent_of(body) == sent
    for position in range(len(body)):
        changed = bytes([*body[:position], body[position] ^ 1, *body[position + 1 :]])
        assert sent_of(changed) != sent
    assert sent_of(body[:-1]) is None
    assert sent_of(b"short") is None


def test_bodies_are_of_many_sizes() -> None:
    assert len({len(crash_body(Sent(0, number))) for number in range(100)}) > 90


def test_every_producer_has_lanes_of_every_kind() -> None:
    assert {lane_kind(lane) for lane in range(LANES, 2 * LANES)} == set(LaneKind)


def found(ledger: Ledger) -> dict[str, int]:
    return {each.rule.value: each.found for each in ledger.verdict().rules if each.found}


def test_what_is_acknowledged_is_due_until_it_is_consumed_whichever_comes_first() -> None:
    ledger = Ledger(float)
    ledger.acknowledge(Sent(0, 0), SendResult(QUEUE, 0, "a"))
    assert ledger.messages.lost == 1
    ledger.consume("c", Sent(0, 0), QUEUE, 0)
    ledger.consume("c", Sent(0, 1), QUEUE, 1)
    ledger.acknowledge(Sent(0, 1), SendResult(QUEUE, 1, "b"))
    assert ledger.messages.lost == 0
    assert (ledger.messages.received, ledger.messages.duplicates) == (2, 0)
    ledger.consume("c", Sent(0, 1), QUEUE, 1)
    assert ledger.messages.duplicates == 1
    assert found(ledger) == {}


def test_a_send_that_was_abandoned_is_due_to_no_one() -> None:
    ledger = Ledger(float)
    ledger.record_failure(Sent(0, 0), refused=False)
    ledger.record_failure(Sent(0, 1), refused=True)
    assert (ledger.messages.failed_sends, ledger.messages.lost) == (2, 0)
    assert ledger.refused == {Sent(0, 1)}


def test_a_message_may_are_redelivered_and_none_may_be_passed() -> None:
    ledger = Ledger(float)
    for number in range(4):
        ledger.acknowledge(Sent(0, number), SendResult(QUEUE, number, "a"))
    for owner, offset in [("a", 0), ("a", 1), ("b", 1), ("b", 2), ("a", 2)]:
        ledger.deliver(owner, Sent(0, offset), QUEUE, offset)
        ledger.consume(owner, Sent(0, offset), QUEUE, offset)
    assert ledger.deliveries == 5
    ledger.acknowledge(Sent(0, 4), SendResult(QUEUE, 4, "a"))
    ledger.deliver("a", Sent(0, 4), QUEUE, 4)
    assert found(ledger) == {"poll-skip": 1, "lost-write": 2}, "3 was passed, and neither it nor 4 was consumed"


def test_rules_are_all_counted_and_the_first_ones_reported() -> None:
    findings = Findings()
    for number in range(MAX_EXAMPLES + 5):
        findings.add("lost", str(number))
    assert findings.counts == {"lost": MAX_EXAMPLES + 5}
    assert findings.examples == [f"lost: {number}" for number in range(MAX_EXAMPLES)]
