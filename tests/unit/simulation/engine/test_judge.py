"""The judge sends what happens to the checker of its group, and names what was found."""

from __future__ import annotations

import pytest

from model.events import Event, EventKind
from model.limits import MAX_SIM_FINDINGS
from model.message_queue import MessageQueue
from simulation.engine.judge import Judge
from simulation.engine.programme import GroupPart, Programme

QUEUE = MessageQueue("orders", "broker-a", 0)
GROUPS = (
    GroupPart(name="plain"),
    GroupPart(name="keys", order="key"),
    GroupPart(name="queues", order="queue"),
    GroupPart(name="pops", mode="pop"),
)


@pytest.fixture
def judge() -> Judge:
    return Judge(Programme(group=GROUPS))


def granted(group: str, client: str) -> Event:
    return Event(0.0, "broker-a", 1, EventKind.LOCK_GRANTED, "", group, *QUEUE, client)


@pytest.mark.parametrize("group", ["plain", "keys", "queues"])
def test_a_lease_that_two_have_is_a_double_owner_in_any_group_that_pulls(judge: Judge, group: str) -> None:
    judge.event(granted(group, "c1"))
    assert judge.violated() == []
    judge.event(granted(group, "c2"))
    assert [finding.kind for finding in judge.violated()] == ["double-owner"]


def test_every_group_has_to_be_done_with_what_was_acknowledged(judge: Judge) -> None:
    judge.acknowledged(0, 0, b"body", QUEUE, 0, "k")
    assert judge.lag == 4
    judge.processed("plain", 0, 0, QUEUE, 0, "k", 0)
    judge.processed("keys", 0, 0, QUEUE, 0, "k", 0)
    judge.dead("pops", 0, 0, b"body")
    assert judge.lag == 1
    assert [str(finding) for finding in judge.missing()] == [f"lost-write: lost: queues has not settled {QUEUE} 0"]
    judge.processed("queues", 0, 0, QUEUE, 0, "k", None)
    assert judge.lag == 0


def test_a_delayed_message_has_no_place_yet_and_is_waited_for_all_the_same(judge: Judge) -> None:
    judge.acknowledged(0, 0, b"body", QUEUE, -1, "")
    assert judge.plain.lag == 1
    judge.dead("plain", 0, 0, b"body")
    assert judge.plain.lag == 0


def test_what_is_left_out_or_comes_too_early_is_named(judge: Judge) -> None:
    for offset in (0, 1):
        judge.acknowledged(0, offset, b"%d" % offset, QUEUE, offset, "k")
    judge.dispatched("plain", "c", b"1", QUEUE, 1, "k", 0.0)
    judge.dispatched("keys", "c", b"1", QUEUE, 1, "k", 0.0)
    judge.returned("keys", "c", QUEUE, 1, "k", cancelled=False)
    assert [finding.kind for finding in judge.violated()] == ["poll-skip", "out-of-order"]


def test_a_commit_that_passes_what_no_listener_returned_from_is_a_lost_write(judge: Judge) -> None:
    judge.dispatched("plain", "c", b"0", QUEUE, 0, "", 0.0)
    judge.returned("plain", "c", QUEUE, 0, "", cancelled=True)
    judge.event(Event(0.0, "broker-a", 1, EventKind.OFFSET_COMMITTED, "", "plain", *QUEUE, "c", offset=1))
    assert [finding.kind for finding in judge.violated()] == ["lost-write"]


def test_only_the_first_findings_of_the_engine_are_kept(judge: Judge) -> None:
    for n in range(MAX_SIM_FINDINGS + 1):
        judge.find("orphan", str(n))
    assert len(judge.violated()) == MAX_SIM_FINDINGS


def test_everything_is_counted(judge: Judge) -> None:
    judge.acknowledged(0, 0, b"body", QUEUE, 0, "")
    judge.failed(0, 1)
    for _ in range(2):
        judge.dispatched("plain", "c", b"body", QUEUE, 0, "", 0.0)
    judge.dead("plain", 0, 0, b"body")
    assert (judge.sent, judge.failed_sends, judge.deliveries, judge.again, judge.dead_letters) == (1, 1, 2, 1, 1)
