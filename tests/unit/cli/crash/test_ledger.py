from __future__ import annotations

import pytest

from cli.crash.ledger import (
    LANES,
    MAX_EXAMPLES,
    Findings,
    LaneKind,
    Ledger,
    StoredAt,
    body_of,
    lane_kind,
    sent_of,
)
from client import MessageQueue
from figures.history.ledger import Sent

QUEUE = MessageQueue("t", "broker-a", 0)


@pytest.mark.parametrize("sent", [Sent(0, 0), Sent(71, 2**40), Sent(5, 1_234)])
def test_a_body_tells_its_message_and_any_changed_byte_is_seen(sent: Sent) -> None:
    body = body_of(sent)
    assert sent_of(body) == sent
    for position in range(len(body)):
        changed = bytes([*body[:position], body[position] ^ 1, *body[position + 1 :]])
        assert sent_of(changed) != sent
    assert sent_of(body[:-1]) is None
    assert sent_of(b"short") is None


def test_bodies_are_of_many_sizes() -> None:
    assert len({len(body_of(Sent(0, number))) for number in range(100)}) > 90


def test_every_producer_has_lanes_of_every_kind() -> None:
    assert {lane_kind(lane) for lane in range(LANES, 2 * LANES)} == set(LaneKind)


def test_what_is_acknowledged_is_owed_until_it_is_consumed_whichever_comes_first() -> None:
    ledger = Ledger()
    ledger.acknowledge(Sent(0, 0), StoredAt(QUEUE, 0, "a"))
    assert list(ledger.owed) == [Sent(0, 0)]
    ledger.consume(Sent(0, 0))
    ledger.consume(Sent(0, 1))
    ledger.acknowledge(Sent(0, 1), StoredAt(QUEUE, 1, "b"))
    assert not ledger.owed
    assert (len(ledger.consumed), ledger.repeated) == (2, 0)
    ledger.consume(Sent(0, 1))
    assert ledger.repeated == 1


def test_a_send_that_was_given_up_is_owed_to_nobody() -> None:
    ledger = Ledger()
    ledger.give_up(Sent(0, 0), refused=False)
    ledger.give_up(Sent(0, 1), refused=True)
    assert (ledger.given_up, len(ledger.owed)) == (2, 0)
    assert ledger.refused == {Sent(0, 1)}


def test_only_a_first_delivery_behind_a_later_one_of_the_same_member_is_out_of_turn() -> None:
    ledger = Ledger()
    for owner, offset in [("a", 0), ("a", 2), ("b", 1), ("b", 2), ("b", 3), ("a", 2)]:
        ledger.deliver(owner, QUEUE, offset)
    assert not ledger.findings.counts
    ledger.deliver("a", QUEUE, 5)
    ledger.deliver("a", QUEUE, 4)
    assert ledger.findings.counts == {"delivered out of turn": 1}
    assert ledger.deliveries == 8


def test_rules_are_all_counted_and_the_first_ones_told() -> None:
    findings = Findings()
    for number in range(MAX_EXAMPLES + 5):
        findings.add("lost", str(number))
    assert findings.counts == {"lost": MAX_EXAMPLES + 5}
    assert findings.examples == [f"lost: {number}" for number in range(MAX_EXAMPLES)]
