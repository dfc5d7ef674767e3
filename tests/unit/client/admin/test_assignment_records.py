"""What brokers say about an assignment becomes one record: the newest counts."""

from __future__ import annotations

from client.admin.assignment_records import NO_ASSIGNMENT, newest_assignment
from model.assignment import ALL_QUEUES, MemberShare, RequestMode
from model.message_queue import MessageQueue

Q0, Q1 = (MessageQueue("t", "a", number) for number in range(2))
POPPED = MessageQueue("u", "a", ALL_QUEUES)


def test_the_newest_version_counts_and_modes_are_put_together() -> None:
    old = MemberShare(version=5, queues=(Q0, Q1))
    new = {
        "c1": MemberShare(version=7, queues=(Q0, POPPED), popped={"u": 2}),
        "c2": MemberShare(version=7, queues=(Q1, MessageQueue("u", "a", 0)), popped={"u": 2}),
    }
    info = newest_assignment(
        [
            ("a", 5, [[["c1", *old.to_wire()]], [["u", "POP", 2]]]),
            ("b", 7, [[[client_id, *share.to_wire()] for client_id, share in new.items()], [["t", "PULL", -1]]]),
            ("c", 0, [[], []]),
        ]
    )
    assert (info.coordinator, info.version, info.shares) == ("b", 7, new)
    assert [(each.topic, each.mode) for each in info.modes] == [("t", RequestMode.PULL), ("u", RequestMode.POP)]
    assert info.targets() == {Q0: "c1", Q1: "c2"}
    assert info.popped == {"u"}


def test_nobody_has_made_one() -> None:
    assert newest_assignment([]) == NO_ASSIGNMENT
    assert newest_assignment([("a", 0, [[], []])]) == NO_ASSIGNMENT
