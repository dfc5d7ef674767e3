from __future__ import annotations

from collections import Counter
from typing import Any

from client.allocate import AllocateMessageQueueAveragely
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from testbed.swarm.members import SwarmSink
from testbed.swarm.observer import Convergence, SwarmObserver

QUEUES = [MessageQueue("t", "b", queue_id) for queue_id in range(4)]


class Watched:
    """An observer, and events of one client each that are numbered as they are made."""

    def __init__(self, settle_ms: float = 0.0) -> None:
        self.ended: list[Convergence] = []
        self.observer = SwarmObserver(
            "g", "t", AllocateMessageQueueAveragely(), settle_ms=settle_ms, on_converged=self.ended.append
        )
        self.observer.set_queues(QUEUES, 0)
        self._seqs: Counter[str] = Counter()  # of each client
        self._cause = ""  # everything is because of the last start or stop

    def event(self, t_ms: float, kind: EventKind, client: str, *queues: MessageQueue, group: str = "g") -> None:
        for queue in queues or (MessageQueue("", "", -1),):
            self._seqs[client] += 1
            topic, broker, queue_id = queue
            cause = (
                f"{client}/{self._seqs[client]}"
                if kind in (EventKind.CLIENT_START, EventKind.CLIENT_STOP)
                else self._cause
            )
            self._cause = cause
            self.observer.event(
                Event(t_ms, client, self._seqs[client], kind, cause, group, topic, broker, queue_id, client, version=1)
            )

    def starts(self, t_ms: float, client: str) -> None:
        self.event(t_ms, EventKind.CLIENT_START, client)

    def stops(self, t_ms: float, client: str) -> None:
        self.event(t_ms, EventKind.CLIENT_STOP, client)

    def acquires(self, t_ms: float, client: str, *queues: MessageQueue) -> None:
        self.event(t_ms, EventKind.QUEUE_ACQUIRED, client, *queues)

    def drops(self, t_ms: float, client: str, *queues: MessageQueue) -> None:
        self.event(t_ms, EventKind.QUEUE_DROPPED, client, *queues)


def test_a_rebalance_lasts_from_the_first_change_of_members_to_the_last_queue_in_its_place() -> None:
    watched = Watched()
    watched.starts(100, "c1")
    watched.acquires(104, "c1", *QUEUES)
    watched.starts(200, "c2")
    watched.drops(205, "c1", *QUEUES[2:])
    assert not watched.observer.balanced
    watched.acquires(212, "c2", *QUEUES[2:])
    watched.stops(300, "c1")
    watched.drops(301, "c1", *QUEUES[:2])
    watched.acquires(303, "c2", *QUEUES[:2])
    assert [(each.what, each.members, each.moves, each.converged_ms) for each in watched.ended] == [
        ("1 joined", 1, 4, 4),
        ("1 joined", 2, 2, 12),
        ("1 left", 1, 2, 3),
    ]
    summary = watched.observer.summary()
    assert (summary.rebalances, summary.queues_moved, summary.balance_ms_p50, summary.balance_ms_p95) == (
        3,
        8,
        4,
        12,
    )
    assert (summary.consumers, summary.queues) == (1, 4)


def test_changes_during_a_rebalance_belong_to_it() -> None:
    watched = Watched()
    watched.starts(100, "c1")
    watched.starts(101, "c2")
    watched.starts(102, "c3")
    watched.stops(103, "c3")
    watched.acquires(110, "c1", *QUEUES[:2])
    watched.acquires(111, "c2", *QUEUES[2:])
    assert [(each.what, each.converged_ms) for each in watched.ended] == [("3 joined, 1 left", 11)]


def test_queues_that_move_by_themselves_are_a_rebalance_too() -> None:
    watched = Watched()
    watched.starts(100, "c1")
    watched.acquires(101, "c1", *QUEUES)
    watched.drops(500, "c1", QUEUES[0])
    watched.acquires(540, "c1", QUEUES[0])
    assert [(each.what, each.converged_ms) for each in watched.ended[1:]] == [("queues moved by themselves", 40)]


def test_new_queues_of_the_topic_are_a_rebalance_and_the_same_queues_again_are_not() -> None:
    watched = Watched()
    watched.starts(100, "c1")
    watched.acquires(101, "c1", *QUEUES)
    more = [*QUEUES, MessageQueue("t", "b", 4)]
    watched.observer.set_queues(reversed(QUEUES), 150)
    watched.observer.set_queues(more, 200)
    assert not watched.observer.balanced
    watched.acquires(230, "c1", more[4])
    assert [each.converged_ms for each in watched.ended] == [1, 30]


def test_a_client_that_introduces_itself_again_does_not_join_again() -> None:
    watched = Watched()
    watched.starts(100, "c1")
    watched.acquires(101, "c1", *QUEUES)
    watched.starts(200, "c1")
    assert len(watched.ended) == 1


def test_producers_and_other_groups_are_not_members() -> None:
    watched = Watched()
    watched.event(100, EventKind.CLIENT_START, "p1", group="DEFAULT_PRODUCER")
    watched.event(100, EventKind.QUEUE_ACQUIRED, "x", QUEUES[0], group="other")
    assert watched.observer.summary().consumers == 0
    assert watched.ended == []


def test_events_of_several_processes_pass_in_the_order_of_their_times() -> None:
    watched = Watched(settle_ms=50)
    watched.starts(100, "c1")
    watched.acquires(101, "c1", *QUEUES)
    watched.observer.advance(160)
    watched.starts(200, "c2")
    watched.acquires(212, "c2", *QUEUES[2:])
    watched.observer.advance(240)
    watched.drops(205, "c1", *QUEUES[2:])  # the bunch of the other process
    assert not watched.observer.balanced
    watched.observer.advance(300)
    assert [each.converged_ms for each in watched.ended] == [1, 12]
    summary = watched.observer.summary()
    assert (summary.double_owner_ms, summary.orphan_ms) == (0, 2 * 7)


def test_a_run_is_well_when_nothing_was_lost_and_the_group_is_balanced() -> None:
    watched = Watched()
    observer: SwarmSink = watched.observer
    observer.acknowledged(0, 0)
    assert not watched.observer.summary().ok
    observer.received(0, 0)
    observer.received(0, 0)
    observer.failed(0, 1)
    summary = watched.observer.summary()
    assert summary.ok
    assert (summary.sent, summary.received_unique, summary.duplicates, summary.failed_sends) == (1, 1, 1, 1)
    watched.starts(100, "c1")
    assert not watched.observer.summary().ok


def test_without_a_rebalance_there_are_no_times() -> None:
    summary = Watched().observer.summary()
    assert (summary.rebalances, summary.balance_ms_p50, summary.balance_ms_p95) == (0, None, None)


def test_the_counts_of_a_whole_run_go_on_while_its_consumers_leave() -> None:
    watched = Watched(settle_ms=100)
    watched.starts(100, "c1")
    watched.starts(101, "c1")  # it subscribes to something else
    watched.starts(102, "c2")
    watched.acquires(104, "c1", *QUEUES[:2])
    watched.observer.advance(1_000)
    summary = watched.observer.summary()
    watched.observer.received(0, 0)
    watched.observer.received(0, 0)
    watched.stops(2_000, "c1")
    watched.acquires(2_001, "c2", QUEUES[0])
    watched.acquires(2_002, "c2", QUEUES[0])
    assert summary.in_all is None
    reported: dict[str, Any] = {"group": "g", "topic": "t", "broker": "b", "queue_id": 0, "client": "c2", "version": 1}
    watched.observer.event(Event(2_003, "c2", 99, EventKind.MESSAGES_HANDED_OUT, "c2/99", **reported, offset=2, n=2))
    figures = watched.observer.in_all()
    assert (figures.members_joined, figures.members_left, figures.members) == (2, 1, 1)
    assert (figures.acquisitions, figures.moves, figures.handed_out) == (3, 3, 2)


def test_a_queue_with_two_owners_breaks_a_run() -> None:
    watched = Watched()
    for client in ("c1", "c2"):
        watched.starts(100, client)
    watched.acquires(104, "c1", *QUEUES[:2])
    watched.acquires(105, "c2", *QUEUES[2:])
    assert watched.observer.summary().ok
    watched.acquires(200, "c2", QUEUES[0])
    watched.drops(900, "c2", QUEUES[0])
    summary = watched.observer.summary()
    assert watched.observer.balanced
    assert not summary.ok
    assert [line.partition(":")[0] for line in summary.broken] == ["double-owner"]
