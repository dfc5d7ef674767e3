"""What the golden trace costs, worked out on paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.message_queue import MessageQueue
from pipeline.replay.costs import Costs, compute_costs, estimate_capacity
from pipeline.replay.recorded import MemberChange, read_recorded
from pipeline.replay.replay import ReplayOutcome, Span, replay
from pipeline.replay.routes import Queues, Routes
from pipeline.replay.rules import Handover
from tests.unit.pipeline.replay.golden_trace import golden_events
from tests.unit.pipeline.replay.test_replay import rules


def costs(**different: object) -> Costs:
    recorded = read_recorded(golden_events(), "g")
    made = rules(**different)
    return compute_costs(recorded, made.handover, replay(recorded, made), 1_000.0)


def test_moves_count_the_first_owners_as_every_figure_does() -> None:
    assert costs().moves == 6
    assert costs(notify=False).moves == 4


def test_orphan_time_is_what_lies_between_the_owners_and_silence_is_not_among_it() -> None:
    # q0: 7 after the lease of c1 ended. q1: 1004 to 1056, 5000 to 5010, 12004 to 12011.
    assert costs().orphan_s == pytest.approx((7 + 52 + 10 + 7) / 1000, abs=1e-4)
    assert costs().silent_s == pytest.approx(5.0, abs=1e-3)
    assert costs(timeout_ms=9_000.0).silent_s == pytest.approx(9.0, abs=1e-3)
    assert costs(timeout_ms=9_000.0).orphan_s < 1


T, U = (tuple(MessageQueue(topic, "b", number) for number in range(4)) for topic in "tu")


def orphan_s(routes: dict[str, list[tuple[float, Queues]]], changes: list[MemberChange], spans: list[Span]) -> float:
    """In a trace of 100 s with the members c1, from the beginning, and c2, for the first 90 s."""
    made = replace(
        read_recorded(golden_events(), "g"), end_ms=100_000.0, changes=tuple(changes), routes=Routes({}, routes)
    )
    alive = ((0.0, 100_000.0, "c1"), (0.0, 90_000.0, "c2"))
    return compute_costs(
        made, Handover.DRAIN, ReplayOutcome(moves=(), spans=tuple(spans), alive=alive, expired=(), passes=1), 1.0
    ).orphan_s


def held(queues: Queues, client: str, from_s: float, to_s: float) -> list[Span]:
    ended = "open" if to_s == 100 else "revoked"
    return [Span(queue, client, from_s * 1000, to_s * 1000, to_s * 1000, ended) for queue in queues]


def test_a_queue_that_is_in_no_route_any_more_has_no_owner_to_miss() -> None:
    joined = [MemberChange(0.0, 1, "c1", ("t",)), MemberChange(0.0, 2, "c2", ("t",))]
    shrinks = {"t": [(0.0, T), (60_000.0, T[:2])]}
    assert orphan_s(shrinks, joined, held(T[:2], "c1", 0, 100) + held(T[2:], "c2", 0, 60)) == 0
    # Its owner hears of it a second later, or has given them up 10 s before; then they come back, as new ones.
    assert orphan_s(shrinks, joined, held(T[:2], "c1", 0, 100) + held(T[2:], "c2", 0, 61)) == 0
    assert orphan_s(shrinks, joined, held(T[:2], "c1", 0, 100) + held(T[2:], "c2", 0, 50)) == 20
    again = {"t": [*shrinks["t"], (80_000.0, T)]}
    spans = held(T[:2], "c1", 0, 100) + held(T[2:], "c2", 0, 60) + held(T[2:], "c1", 83, 100)
    assert orphan_s(again, joined, spans) == 0
    assert orphan_s({"t": [(0.0, T), (60_000.0, ())]}, joined, held(T, "c1", 0, 60)) == 0


def test_queues_of_a_topic_count_while_a_member_that_is_there_subscribes_to_it() -> None:
    routes = {"t": [(0.0, T)], "u": [(0.0, U[:1])]}
    joined = [MemberChange(0.0, 1, "c1", ("t",)), MemberChange(0.0, 2, "c2", ("t",))]
    owned = held(T, "c1", 0, 100)
    assert orphan_s(routes, joined, owned) == 0
    later = MemberChange(40_000.0, 3, "c2", ("t", "u"))
    early = held(U[:1], "c2", 20, 30)
    assert orphan_s(routes, [*joined, later], owned + early) == 50  # and c2 is there for 90 s
    assert orphan_s(routes, [*joined, later], owned + early + held(U[:1], "c2", 42, 90)) == 2
    assert orphan_s(routes, [*joined, later, MemberChange(70_000.0, 4, "c2", ("t",))], owned + early) == 30
    assert orphan_s(routes, [*joined, later, MemberChange(80_000.0, 5, "c1", ("u",))], owned + early) == 60


def test_imbalance_is_weighted_by_time() -> None:
    # 1000 to 1004: 2 and 0; to 1056: 1 and 0; 12000 to 12004: 2 and 0; to 12011: 1 and 0.
    assert costs().imbalance == pytest.approx((2 * 4 + 52 + 2 * 4 + 7) / 24_990, rel=1e-3)


def test_a_silent_member_has_done_for_nothing_what_it_did_since_its_last_commit() -> None:
    # It commits every 5 s since 16 ms, the last time at 10,016; 100 messages come from 10,000 to 20,005.
    assert costs().duplicates == pytest.approx(100 * (15_000 - 10_016) / 10_005, rel=1e-3)


def test_handing_over_without_waiting_costs_messages_twice() -> None:
    assert costs(handover=Handover.CUT).duplicates > costs().duplicates
    assert costs(handover=Handover.OVERLAP, notify=False).duplicates > costs(notify=False).duplicates


def test_messages_wait_while_a_queue_has_no_owner() -> None:
    # 5 s of 25 s, at 10 messages a second: most of 50 are waiting a hundredth of the time or longer.
    assert 30 < costs().lag_p99 < 60
    assert costs(timeout_ms=11_000.0).lag_p99 > costs().lag_p99


def test_the_capacity_is_what_a_member_has_done_at_most() -> None:
    recorded = read_recorded(golden_events(), "g")
    assert estimate_capacity(recorded) == 1.0
    recorded.dispatched["c1"] = [(100.0, 20), (200.0, 30), (6_000.0, 10)]  # type: ignore[index]
    assert estimate_capacity(recorded) == pytest.approx(10.0, rel=1e-3)  # 50 in the first 5 s, between two commits
