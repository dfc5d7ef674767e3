"""One log that keeps every promise, and one for each way to break it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from client import MessageExt, MessageQueue
from client.admin.records import QueueProgress
from model.message import SendResult
from testbed.crash.audit import KINDS, Audit, CrashVerdict
from testbed.crash.ledger import BATCH, LANES, LaneKind, Ledger, crash_body, lane_kind
from traces.check.ledger import SentMessage

QUEUE = MessageQueue("t", "broker-a", 0)
FIRST, SECOND, THIRD = (SentMessage(3, number) for number in range(3))
DELAYED = SentMessage(next(lane for lane in range(LANES) if lane_kind(lane) is LaneKind.DELAYED), 0)


def stored(offset: int, sent: SentMessage, body: bytes | None = None) -> MessageExt:
    return MessageExt(QUEUE, offset, 0, 0, "t", body or crash_body(sent), "", (), {}, 0, f"id-{sent.number}")


def ledger_of(*promised: tuple[SentMessage, int], consumed: bool = True) -> Ledger:
    ledger = Ledger(float)
    for sent, offset in promised:
        ledger.acknowledge(sent, SendResult(QUEUE, offset, f"id-{sent.number}"))
        if consumed:
            ledger.consume("a", sent, QUEUE, offset)
    return ledger


def audited(ledger: Ledger, *rows: MessageExt) -> CrashVerdict:
    audit = Audit(ledger)
    audit.queue(QUEUE, range(rows[-1].offset + 1 if rows else 0), list(rows))
    return audit.verdict()


def found(verdict: CrashVerdict) -> dict[str, int]:
    assert verdict.ok == (not any(verdict.findings.values()))
    assert verdict.findings.keys() == KINDS.keys()
    return {kind: count for kind, count in verdict.findings.items() if count}


def test_a_log_that_keeps_every_promise_has_no_findings() -> None:
    ledger = ledger_of((FIRST, 0), (SECOND, 2), (DELAYED, -1))
    ledger.record_failure(THIRD, refused=False)
    verdict = audited(
        ledger, stored(0, FIRST), stored(1, SECOND), stored(2, SECOND), stored(3, THIRD), stored(4, DELAYED)
    )
    assert found(verdict) == {}
    assert (verdict.acknowledged, verdict.stored, verdict.stored_twice) == (3, 4, 1)
    assert (verdict.stored_unacknowledged, verdict.given_up, verdict.consumed) == (1, 1, 3)


def test_a_message_that_is_not_in_the_log_is_lost() -> None:
    verdict = audited(ledger_of((FIRST, 0), (DELAYED, -1)), stored(0, SECOND))
    assert found(verdict) == {"lost": 2, "not in its place": 1}
    assert len(verdict.examples) == 3


def test_a_message_whose_error_said_that_it_is_not_stored_is_not_stored() -> None:
    ledger = Ledger(float)
    ledger.record_failure(FIRST, refused=True)
    ledger.record_failure(SECOND, refused=False)
    verdict = audited(ledger, stored(0, FIRST), stored(1, SECOND))
    assert found(verdict) == {"stored and denied": 1}
    assert (verdict.given_up, verdict.in_doubt, verdict.stored_unacknowledged) == (2, 1, 2)


def test_a_message_that_no_one_consumed_is_a_lost_write() -> None:
    assert found(audited(ledger_of((FIRST, 0), consumed=False), stored(0, FIRST))) == {"lost-write": 1}


def test_two_messages_may_not_be_acknowledged_at_one_offset() -> None:
    verdict = audited(ledger_of((FIRST, 0), (SECOND, 0)), stored(0, FIRST), stored(1, SECOND))
    assert found(verdict) == {
        "one offset for two": 1,
        "not in its place": 1,
        "out-of-order": 1,
    }


def test_two_delayed_messages_have_no_offset_yet() -> None:
    later = DELAYED._replace(number=1)
    ledger = ledger_of((DELAYED, -1), (later, -1))
    assert found(audited(ledger, stored(0, later), stored(1, DELAYED))) == {}


def test_a_lane_keeps_its_order_in_a_queue() -> None:
    ledger = ledger_of((FIRST, 1), (SECOND, 0))
    assert found(audited(ledger, stored(0, SECOND), stored(1, FIRST))) == {"out of order": 1, "out-of-order": 1}


LANE_OF_BATCHES = next(lane for lane in range(LANES) if lane_kind(lane) is LaneKind.BATCH)


@pytest.mark.parametrize(
    ("numbers", "out_of_order"),
    [
        ([*range(BATCH), *range(BATCH), *range(BATCH, 2 * BATCH)], 0),
        ([*range(BATCH), *range(BATCH, 2 * BATCH), *range(BATCH)], BATCH),  # a later one was between them
        ([*range(BATCH), *reversed(range(BATCH))], BATCH - 2),  # all but the highest, and the first of the batch
        ([*range(BATCH), 3], 1),
    ],
)
def test_a_repeated_batch_is_stored_whole_before_the_next_one_of_its_lane(
    numbers: list[int], out_of_order: int
) -> None:
    rows = [stored(offset, SentMessage(LANE_OF_BATCHES, number)) for offset, number in enumerate(numbers)]
    assert found(audited(Ledger(float), *rows)).get("out of order", 0) == out_of_order


def test_the_order_holds_for_what_was_abandoned_too() -> None:
    assert found(audited(Ledger(float), stored(0, SECOND), stored(1, FIRST))) == {"out of order": 1}


def test_a_queue_has_no_holes_and_no_changed_bytes() -> None:
    ledger = ledger_of((FIRST, 0), (SECOND, 2))
    assert found(audited(ledger, stored(0, FIRST), stored(2, SECOND))) == {"hole": 1}
    changed = stored(0, FIRST, crash_body(FIRST)[:-1] + b"?")
    assert found(audited(Ledger(float), changed)) == {"damaged": 1}


def progress(committed: int | None, max_offset: int) -> QueueProgress:
    return QueueProgress(queue=QUEUE, min_offset=0, max_offset=max_offset, committed=committed, owner=None, targets=())


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (lambda audit: audit.progress({QUEUE: 5}, (progress(5, 5),)), {}),
        (lambda audit: audit.progress({}, (progress(None, 5),)), {}),
        (lambda audit: audit.progress({QUEUE: 5}, (progress(6, 5),)), {"commit beyond the log": 1}),
        (lambda audit: audit.progress({QUEUE: 5}, (progress(4, 5),)), {"commit lost": 1}),
        (lambda audit: audit.progress({QUEUE: 5}, (progress(None, 5),)), {"commit lost": 1}),
        (lambda audit: audit.progress({QUEUE: 5}, ()), {"commit lost": 1}),
    ],
)
def test_commits_survive_and_stay_within_the_log(look: Callable[[Audit], None], expected: dict[str, int]) -> None:
    audit = Audit(Ledger(float))
    look(audit)
    assert found(audit.verdict()) == expected


def test_with_a_broker_that_stays_away_nothing_else_is_called_lost() -> None:
    ledger = ledger_of((FIRST, 0), consumed=False)
    ledger.findings.add("no restart", "broker-a")
    assert found(audited(ledger)) == {"no restart": 1}
