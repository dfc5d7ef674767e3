from __future__ import annotations

import pytest

from model.events import Event
from tests.unit.traces.figures.group_events import E, Story
from traces.figures.clocks.pairs import Pair, PairFinder


def pairs_of(events: list[Event]) -> set[tuple[str, str]]:
    """The pairs, by the kinds of their events."""
    nodes = sorted({event.node for event in events})
    finder = PairFinder()
    for event in events:
        finder.read(event, nodes.index(event.node))
    kinds = {(nodes.index(event.node), event.seq): event.kind for event in events}
    found: list[Pair] = finder.finish()
    return {(kinds[pair.reason[:2]], kinds[pair.effect[:2]]) for pair in found}


def handover() -> list[Event]:
    """c1 drops q0 because of c2, which joins; no event but those of pairs names a cause of another node."""
    story = Story()
    place = {"topic": "t", "broker": "b", "queue_id": 0}
    story.client(0, "c1", E.REBALANCE_BEGIN, "x", detail="START")
    story.queue(1, "c1", E.LOCK_GRANTED, "x", version=1, offset=0, n=0)
    story.queue(2, "c1", E.QUEUE_ACQUIRED, "y", version=1, offset=0)
    story.tell(50, "b", E.OFFSET_COMMITTED, "z", client="c1", offset=9, n=0, **place)
    story.tell(100, "b", E.NOTIFY_SENT, "v", broker="b", version=5, n=2)
    story.client(101, "c1", E.NOTIFY_RECEIVED, "v", version=5)
    story.queue(102, "c1", E.QUEUE_DROPPED, "w", version=1, detail="revoked")
    story.tell(103, "b", E.QUEUE_RELEASED, "u", client="c1", version=1, detail="unlock", **place)
    return story.events


@pytest.mark.parametrize("step", [1, -1])
def test_the_steps_of_a_handover_are_pairs_in_whatever_order_they_come(step: int) -> None:
    expected = {
        (E.REBALANCE_BEGIN, E.LOCK_GRANTED),
        (E.LOCK_GRANTED, E.QUEUE_ACQUIRED),
        (E.NOTIFY_SENT, E.NOTIFY_RECEIVED),
        (E.QUEUE_DROPPED, E.QUEUE_RELEASED),
    }
    if step > 0:  # whose lease a commit was under is known from the grants before it
        expected.add((E.QUEUE_ACQUIRED, E.OFFSET_COMMITTED))
    assert pairs_of(handover()[::step]) == expected


def test_an_event_is_a_pair_with_the_first_one_on_each_node_that_names_it_as_the_cause() -> None:
    story = Story()
    began = story.client(0, "c1", E.CLIENT_START)
    story.tell(5, "b", E.MEMBER_JOIN, began, broker="b", client="c1", version=1, n=1)
    story.tell(6, "b", E.NOTIFY_SENT, began, broker="b", version=1, n=1)
    story.client(7, "c2", E.REBALANCE_BEGIN, began)
    assert pairs_of(story.events) == {(E.CLIENT_START, E.MEMBER_JOIN), (E.CLIENT_START, E.REBALANCE_BEGIN)}


def test_what_two_processes_may_have_done_is_not_a_pair() -> None:
    story = Story()
    for node in ("b1", "b2"):
        story.tell(100, node, E.NOTIFY_SENT, "v", broker=node, version=5, n=2)
    story.client(101, "c1", E.NOTIFY_RECEIVED, "v", version=5)
    assert pairs_of(story.events) == set()


def test_an_id_that_was_given_twice_is_the_reason_of_nothing() -> None:
    story = Story()
    began = story.client(0, "c1", E.CLIENT_START)
    story.tell(5, "b", E.MEMBER_JOIN, began, broker="b", client="c1", version=1, n=1)
    again = story.events[0]._replace(t_ms=99_000.0)
    assert pairs_of([*story.events, again]) == set()
    assert pairs_of([*story.events, story.events[0]]) != set(), "it may have been sent twice"
