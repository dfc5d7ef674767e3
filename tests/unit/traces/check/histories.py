"""Histories made by hand: one that keeps every rule, and one that breaks it for each kind of anomaly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from tests.unit.traces.figures.group_events import Story
from traces.check.check import HistoryCheck
from traces.check.ledger import Ending, SentMessage, dispatched_line, ended_line, failed_line, sent_line
from traces.check.limits import HistoryLimits, OrderScope
from traces.check.reading import in_order
from traces.check.verdict import Rule, Verdict
from traces.figures.records import order_of

E = EventKind
QUEUE = MessageQueue("t", "b", 0)
LIMITS = HistoryLimits(all_consumed=True, order={"g": OrderScope.QUEUE})


def clean() -> Story:
    """c1 owns q0 and q1; c2 joins and gets q0; c2 stops and c1 gets it back."""
    story = Story()
    story.tell(0, "b", E.ROUTE_CHANGED, group="", topic="t", broker="b", n=2)
    first = story.client(1, "c1", E.CLIENT_START)
    _member(story, 2, "c1", E.MEMBER_JOIN, first, 100, 1)
    _pass(story, 4, "c1", first, 100, 2, "START")
    for queue_id in (0, 1):
        _acquire(story, 5, "c1", first, queue_id, 1 + queue_id, 0)
    story.queue(50, "c1", E.MESSAGES_HANDED_OUT, first, version=1, offset=10, n=10)
    _commit(story, 51, "c1", 10)
    joined = story.client(100, "c2", E.CLIENT_START)
    _member(story, 101, "c2", E.MEMBER_JOIN, joined, 101, 2)
    for client in ("c1", "c2"):
        story.client(103, client, E.NOTIFY_RECEIVED, joined, version=101)
    _pass(story, 104, "c1", joined, 101, 1)
    _release(story, 105, "c1", joined, 0, 1)
    _pass(story, 106, "c2", joined, 101, 1)
    _acquire(story, 107, "c2", joined, 0, 3, 10)
    story.queue(150, "c2", E.MESSAGES_HANDED_OUT, joined, version=3, offset=20, n=10)
    _commit(story, 151, "c2", 20)
    left = story.client(200, "c2", E.CLIENT_STOP)
    _release(story, 201, "c2", left, 0, 3, "shutdown")
    _member(story, 203, "c2", E.MEMBER_LEAVE, left, 102, 1, "unregister")
    story.client(205, "c1", E.NOTIFY_RECEIVED, left, version=102)
    _pass(story, 206, "c1", left, 102, 1)
    _acquire(story, 207, "c1", left, 0, 4, 20)
    story.queue(250, "c1", E.MESSAGES_HANDED_OUT, left, version=4, offset=30, n=10)
    _commit(story, 251, "c1", 30)
    story.events += [line for number in range(30) for line in _message(number)]
    return story


def _member(
    story: Story, t_ms: float, client: str, kind: EventKind, cause: str, version: int, n: int, detail: str = "t=*"
) -> None:
    story.tell(t_ms, "b", kind, cause, broker="b", client=client, version=version, n=n, detail=detail)
    story.tell(t_ms + 0.5, "b", E.NOTIFY_SENT, cause, broker="b", version=version, n=n)


def _pass(story: Story, t_ms: float, client: str, cause: str, version: int, n: int, trigger: str = "NOTIFY") -> None:
    story.client(t_ms, client, E.REBALANCE_BEGIN, cause, detail=trigger)
    story.client(t_ms + 5, client, E.REBALANCE_END, cause, version=version, n=n, detail=f"{trigger} balanced")


def _acquire(story: Story, t_ms: float, client: str, cause: str, queue_id: int, token: int, offset: int) -> None:
    columns: dict[str, Any] = {"queue_id": queue_id, "version": token, "offset": offset}
    story.queue(t_ms, client, E.LOCK_GRANTED, cause, n=0, **columns)
    story.queue(t_ms + 1, client, E.QUEUE_ACQUIRED, cause, **columns)


def _release(
    story: Story, t_ms: float, client: str, cause: str, queue_id: int, token: int, detail: str = "revoked"
) -> None:
    story.queue(t_ms, client, E.QUEUE_DROPPED, cause, queue_id=queue_id, version=token, detail=detail)
    place: dict[str, Any] = {"topic": "t", "broker": "b", "queue_id": queue_id, "client": client, "version": token}
    story.tell(t_ms + 1, "b", E.QUEUE_RELEASED, cause, detail="unlock", **place)


def _commit(story: Story, t_ms: float, client: str, offset: int) -> None:
    place: dict[str, Any] = {"topic": "t", "broker": "b", "queue_id": 0, "client": client}
    story.tell(t_ms, "b", E.OFFSET_COMMITTED, offset=offset, n=0, **place)


def _message(number: int) -> list[Event]:
    """A message of lane 0 in q0, and what the owner of its time does with it."""
    owner, begins = [("c1", 10.0), ("c2", 110.0), ("c1", 210.0)][number // 10]
    t_ms = begins + number % 10
    message = SentMessage(0, number)
    return [
        sent_line(3.0 + number / 100, message, QUEUE, number),
        dispatched_line(t_ms, "g", owner, message, QUEUE, number),
        ended_line(t_ms + 0.5, "g", owner, message, QUEUE, number),
    ]


def numbered(story: Story) -> list[Event]:
    """The events of a story, in order, with the numbers that their nodes would have given them."""
    seqs: dict[str, int] = {}
    renamed: dict[str, str] = {}
    found = []
    for event in sorted(story.events, key=order_of):
        number = -1
        if event.seq >= 0:
            number = seqs[event.node] = seqs.get(event.node, 0) + 1
            renamed[event.id] = f"{event.node}/{number}"
        found.append(event._replace(seq=number))
    return [event._replace(cause=renamed.get(event.cause, event.cause)) for event in found]


def checkers(events: Iterable[Event], limits: HistoryLimits = LIMITS) -> Verdict:
    """The verdict of a history."""
    check = HistoryCheck(limits)
    for event in in_order(events):
        check.feed(event)
    return check.finish()


# --- planted ---------------------------------------------------------------------------------------------------------


def two_owners() -> Story:
    """c1 keeps q0 for 82 ms after c2 got it; the broker has no lease of either."""
    story = clean()
    story.events = [event for event in story.events if event.kind not in (E.LOCK_GRANTED, E.QUEUE_RELEASED)]
    story.events = [
        event._replace(t_ms=190.0) if event.kind == E.QUEUE_DROPPED and event.client == "c1" else event
        for event in story.events
    ]
    return story


def plant_double_owner(story: Story) -> None:
    story.queue(260, "c2", E.LOCK_GRANTED, queue_id=1, version=9, offset=0, n=0)


def plant_orphan(story: Story) -> None:
    left = story.client(300, "c1", E.REBALANCE_BEGIN, detail="TIMER")
    _release(story, 301, "c1", left, 0, 4)
    for t_ms in range(1_000, 41_000, 20_000):
        _pass(story, t_ms, "c1", "", 102, 0, "TIMER")
    story.client(40_000, "c1", E.REBALANCE_BEGIN, detail="TIMER")


def plant_regained(story: Story) -> None:
    """c1's lease of q0 expires, and 40 s later it is granted to it again; c1 never dropped the queue."""
    place: dict[str, Any] = {"version": 4, "offset": 30, "n": 0}
    story.queue(301, "c1", E.LOCK_EXPIRED, detail="expiry", **place)
    story.queue(40_301, "c1", E.LOCK_GRANTED, **place)


def plant_stale_view(story: Story) -> None:
    """c3 joins, and c1 plans with the list without it a minute later."""
    joined = story.client(300, "c3", E.CLIENT_START)
    _member(story, 301, "c3", E.MEMBER_JOIN, joined, 103, 2)
    _pass(story, 61_000, "c1", "", 102, 0, "LOCK")


def plant_silence(story: Story) -> None:
    """A member expires, and the broker notifies nobody."""
    joined = story.client(300, "c3", E.CLIENT_START)
    _member(story, 301, "c3", E.MEMBER_JOIN, joined, 103, 2)
    story.tell(400, "b", E.MEMBER_LEAVE, broker="b", client="c3", version=104, n=1, detail="expiry")
    _pass(story, 20_000, "c1", "", 104, 0, "TIMER")


def plant_uncaused_move(story: Story) -> None:
    timer = story.client(90_000, "c1", E.REBALANCE_BEGIN, detail="TIMER")
    _release(story, 90_001, "c1", timer, 1, 2)
    timer = story.client(90_010, "c9", E.REBALANCE_BEGIN, detail="TIMER")
    _acquire(story, 90_011, "c9", timer, 1, 10, 0)


def plant_flap(story: Story) -> None:
    """c1 and c9 undo each other's subscriptions."""
    owner, token = "c1", 2
    for turn in range(5):
        t_ms = 1_000.0 * (turn + 1)
        other = "c9" if owner == "c1" else "c1"
        cause = story.tell(t_ms, "b", E.SUBSCRIPTION_CHANGE, broker="b", client=other, version=103 + turn, n=2)
        story.tell(t_ms + 1, "b", E.NOTIFY_SENT, cause, broker="b", version=103 + turn, n=2)
        _release(story, t_ms + 2, owner, cause, 1, token)
        owner, token = other, 20 + turn
        _acquire(story, t_ms + 4, owner, cause, 1, token, 0)


def restarted_members() -> Story:
    """c1, c2 and c9 are restarted one after the other under their names, and each time q1 goes to the next and back."""
    story = clean()
    token = 30
    _release(story, 1_000, "c1", story.client(999, "c1", E.REBALANCE_BEGIN, detail="TIMER"), 1, 2)
    _acquire(story, 1_001, "c1", "", 1, token, 0)
    for turn, client in enumerate(("c1", "c2", "c9")):
        t_ms, version = 2_000.0 + 8_000 * turn, 110 + 2 * turn
        for came, kind in enumerate((E.MEMBER_LEAVE, E.MEMBER_JOIN)):
            at = t_ms + 4_000 * came
            cause = story.tell(at, "b", kind, broker="b", client=client, version=version + came, n=2, detail="t=*")
            story.tell(at + 0.5, "b", E.NOTIFY_SENT, cause, broker="b", version=version + came, n=2)
            owner, other = ("c1", "c5") if not came else ("c5", "c1")
            _release(story, at + 1, owner, cause, 1, token)
            token += 1
            _acquire(story, at + 3, other, cause, 1, token, 0)
    return story


def plant_thundering(story: Story) -> None:
    for turn in range(30):
        t_ms = 1_000.0 + turn
        story.client(t_ms, "c1", E.NOTIFY_RECEIVED, version=-1)
        story.client(t_ms, "c1", E.REBALANCE_BEGIN, detail="NOTIFY")
        story.client(t_ms, "c1", E.REBALANCE_END, version=102, n=0, detail="NOTIFY balanced")


def plant_nonmonotonic_commit(story: Story) -> None:
    _commit(story, 260, "c1", 12)


def plant_poll_skip(story: Story) -> None:
    cause = story.client(300, "c1", E.CLIENT_STOP)
    _release(story, 301, "c1", cause, 0, 4)
    _acquire(story, 310, "c9", cause, 0, 11, 44)


def plant_nonmonotonic_poll(story: Story) -> None:
    story.queue(260, "c1", E.MESSAGES_HANDED_OUT, version=4, offset=15, n=5)


def plant_lost_write(story: Story) -> None:
    """A commit passes messages that c1 was never given, and tells so when it drops the queue."""
    _commit(story, 260, "c1", 40)
    cause = story.client(300, "c1", E.CLIENT_STOP)
    _release(story, 301, "c1", cause, 0, 4)


def plant_lost_message(story: Story) -> None:
    story.events.append(sent_line(270, SentMessage(0, 30), QUEUE, 30))


def plant_duplicate(story: Story) -> None:
    cause = story.client(255, "c1", E.CLIENT_STOP)
    _release(story, 256, "c1", cause, 0, 4)
    _acquire(story, 257, "c9", cause, 0, 11, 30)
    message = SentMessage(0, 3)
    story.events += [dispatched_line(260, "g", "c9", message, QUEUE, 3), ended_line(261, "g", "c9", message, QUEUE, 3)]


def plant_phantom(story: Story) -> None:
    message = SentMessage(5, 0)
    story.events += [
        dispatched_line(260, "g", "c1", message, QUEUE, 30),
        ended_line(261, "g", "c1", message, QUEUE, 30),
    ]


def plant_out_of_order(story: Story) -> None:
    """Two messages of the queue are with listeners at once."""
    for number in (30, 31):
        message = SentMessage(0, number)
        story.events += [
            sent_line(255, message, QUEUE, number),
            dispatched_line(260 + number / 100, "g", "c1", message, QUEUE, number),
            ended_line(262, "g", "c1", message, QUEUE, number),
        ]


def plant_failed_and_stored(story: Story) -> None:
    """A send fails, and its message comes nevertheless: nothing is wrong."""
    message = SentMessage(0, 30)
    story.events += [
        failed_line(255, message),
        dispatched_line(260, "g", "c1", message, QUEUE, 30),
        ended_line(261, "g", "c1", message, QUEUE, 30, how=Ending.FAILED),
        dispatched_line(262, "g", "c1", message, QUEUE, 30),
        ended_line(263, "g", "c1", message, QUEUE, 30),
    ]


PLANTED: dict[Callable[[Story], None], Rule] = {
    plant_double_owner: Rule.DOUBLE_OWNER,
    plant_orphan: Rule.ORPHAN,
    plant_regained: Rule.ORPHAN,
    plant_stale_view: Rule.STALE_VIEW,
    plant_silence: Rule.STALE_VIEW,
    plant_uncaused_move: Rule.UNCAUSED_MOVE,
    plant_flap: Rule.FLAP,
    plant_thundering: Rule.THUNDERING,
    plant_nonmonotonic_commit: Rule.NONMONOTONIC_COMMIT,
    plant_poll_skip: Rule.POLL_SKIP,
    plant_nonmonotonic_poll: Rule.NONMONOTONIC_POLL,
    plant_lost_write: Rule.LOST_WRITE,
    plant_lost_message: Rule.LOST_WRITE,
    plant_duplicate: Rule.DUPLICATE,
    plant_phantom: Rule.PHANTOM,
    plant_out_of_order: Rule.OUT_OF_ORDER,
}
"""What breaks a rule -> that rule."""
