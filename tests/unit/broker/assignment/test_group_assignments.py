"""Versions of assignments, and how they live on when another broker makes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.assignment.group_assignments import GroupAssignments, QueryOutcome, TopicMode
from broker.assignment.sharing import assign
from model.assignment import ALL_QUEUES, AssignmentQuery, MemberAssignment, RequestMode
from model.message_queue import MessageQueue


class Group:
    """The members of group `g` with topic `t`, and the broker that they ask.

    Attributes:
        now_ms: wall clock of that broker.
        seen: queues of the topic on broker `a`, as each member sees them; four unless told otherwise.
        assignments: what each member was told last.
    """

    def __init__(self) -> None:
        self.coordinator = GroupAssignments()
        self.now_ms = 1000
        self.version = 0
        self.members: list[str] = []
        self.seen: dict[str, int] = {}
        self.assignments: dict[str, MemberAssignment] = {}

    def join(self, *members: str) -> None:
        self.members = sorted([*self.members, *members])
        self.version += 1

    def leave(self, member: str) -> None:
        self.members.remove(member)
        self.assignments.pop(member, None)
        self.version += 1

    def ask(self, member: str, coordinator: GroupAssignments | None = None) -> QueryOutcome:
        known = self.assignments.get(member, MemberAssignment(version=0, queues=()))
        outcome = (coordinator or self.coordinator).query(
            "g",
            member,
            AssignmentQuery(
                version=known.version,
                queues=known.queues,
                popped=known.popped,
                routes={"t": (("a", self.seen.get(member, 4)),)},
            ),
            group_version=self.version,
            members=lambda: dict.fromkeys(self.members, ("t",)),
            now_ms=self.now_ms,
        )
        if outcome.assignment is not None and outcome.assignment.version >= known.version:
            self.assignments[member] = outcome.assignment
        return outcome

    def ask_all(self) -> list[QueryOutcome]:
        return [self.ask(member) for member in self.members]

    @property
    def ids(self) -> dict[str, list[int]]:
        return {
            member: [queue.queue_id for queue in share.queues] for member, share in sorted(self.assignments.items())
        }

    @property
    def versions(self) -> list[int]:
        return [share.version for _, share in sorted(self.assignments.items())]


@pytest.fixture
def group() -> Group:
    """Members A and B, who have two queues each."""
    group = Group()
    group.join("A", "B")
    group.ask_all()
    group.ask("A")
    assert group.ids == {"A": [0, 2], "B": [1, 3]}
    return group


def test_the_first_answer_waits_until_everyone_has_asked_and_then_all_are_reported() -> None:
    group = Group()
    group.join("A", "B")
    first, second, again = group.ask("A"), group.ask("B"), group.ask("A")
    assert (first.assignment, first.version, first.notify) == (None, 0, True)
    assert (second.version, second.notify, second.moved) == (1000, True, 0)
    assert (again.assignment, again.notify, again.moved) == (group.assignments["A"], False, -1)


def test_a_version_changes_only_with_what_someone_has(group: Group) -> None:
    group.version += 1
    assert [outcome.version for outcome in group.ask_all()] == [1000, 1000]
    group.join("C")
    outcomes = group.ask_all()
    assert [(outcome.version, outcome.moved, outcome.notify) for outcome in outcomes] == [
        (1001, 1, False),
        (1001, -1, False),
        (1001, -1, False),
    ]
    assert group.ids == {"A": [0, 2], "B": [1], "C": [3]}


def test_what_one_member_sees_first_is_shared_out_and_the_others_are_notified_to_look(group: Group) -> None:
    group.seen["A"] = 6
    outcome = group.ask("A")
    assert (outcome.version, outcome.notify, outcome.look_again) == (1001, True, True)
    assert group.ask("B").look_again
    assert sorted(group.ids["A"] + group.ids["B"]) == [0, 1, 2, 3, 4, 5]
    group.seen["B"] = 6
    outcome = group.ask("B")
    assert (outcome.version, outcome.notify, outcome.look_again) == (1001, False, False)


def test_queues_are_gone_when_no_one_sees_them_any_more(group: Group) -> None:
    group.seen["A"] = 2
    outcome = group.ask("A")
    assert (outcome.version, outcome.notify, outcome.look_again) == (1000, True, True)
    group.seen["B"] = 2
    outcome = group.ask("B")
    assert (outcome.version, outcome.notify, outcome.look_again) == (1001, True, False)
    group.ask("A")
    assert sorted(group.ids["A"] + group.ids["B"]) == [0, 1]


def test_a_coordinator_that_restarts_goes_on_from_what_members_were_notified(group: Group) -> None:
    before = group.ids
    group.coordinator, group.now_ms = GroupAssignments(), 500
    assert group.ask("A").assignment is None
    outcome = group.ask("B")
    assert (outcome.version, outcome.moved, outcome.notify) == (1001, 0, True)
    group.ask("A")
    assert (group.ids, group.versions) == (before, [1001, 1001])


def test_a_member_that_died_with_the_coordinator_is_not_waited_for_once_it_is_out(group: Group) -> None:
    group.coordinator = GroupAssignments()
    assert group.ask("A").assignment is None
    group.leave("B")
    group.ask("A")
    assert group.ids == {"A": [0, 1, 2, 3]}


def test_a_coordinator_that_was_replaced_in_between_forgets_what_it_knew(group: Group) -> None:
    old, group.coordinator = group.coordinator, GroupAssignments()
    group.join("C")
    group.ask_all()
    group.ask_all()
    ids = group.ids
    group.coordinator = old
    outcomes = group.ask_all()
    assert [outcome.assignment is None for outcome in outcomes] == [True, True, False]
    assert outcomes[0].notify
    group.ask_all()
    assert group.ids == ids
    assert len(set(group.versions)) == 1


def test_the_newer_of_two_claims_counts() -> None:
    group = Group()
    group.join("A", "B")
    q = [MessageQueue("t", "a", number) for number in range(4)]
    group.assignments = {
        "A": MemberAssignment(version=5, queues=(q[0], q[1])),
        "B": MemberAssignment(version=6, queues=(q[1], q[2], q[3])),
    }
    group.ask_all()
    group.ask_all()
    assert len(group.ids["A"]) == len(group.ids["B"]) == 2
    assert 0 in group.ids["A"]


def test_members_follow_the_mode_and_get_back_what_they_pulled_after_it(group: Group) -> None:
    group.coordinator.set_mode("g", "t", TopicMode(mode=RequestMode.POP))
    group.ask_all()
    assert (group.ids, group.versions) == ({"A": [ALL_QUEUES], "B": [ALL_QUEUES]}, [1001, 1001])
    assert group.assignments["A"].popped == {"t": -1}
    group.coordinator.set_mode("g", "t", TopicMode(mode=RequestMode.PULL))
    group.ask_all()
    assert sorted(group.ids["A"] + group.ids["B"]) == [0, 1, 2, 3]
    assert group.assignments["A"].popped == {}


def test_a_coordinator_that_was_added_later_goes_on_with_the_mode(group: Group) -> None:
    group.coordinator.set_mode("g", "t", TopicMode(mode=RequestMode.POP, pop_share_queue_num=5))
    group.ask_all()
    group.coordinator = GroupAssignments()
    group.ask_all()
    group.ask_all()
    assert group.assignments["A"].popped == {"t": 5}


def test_modes_outlive_the_members_and_go_with_the_group(group: Group) -> None:
    mode = TopicMode(mode=RequestMode.POP, pop_share_queue_num=2)
    group.coordinator.set_mode("g", "t", mode)
    group.coordinator.forget("g")
    assert group.coordinator.modes_of("g") == {"t": mode}
    assert group.coordinator.delete("g") == ["t"]
    assert group.coordinator.modes_of("g") == {}
    assert group.coordinator.assignments_of("g") == (0, {})


@given(st.lists(st.tuples(st.sampled_from(["join", "leave", "restart", "scale", "clock"]), st.integers(0, 9))))
def test_versions_grow_and_every_assignment_is_one_of_all_queues_whatever_happens(steps: list[tuple[str, int]]) -> None:
    group, count, newest = Group(), 4, 0
    for step, number in steps:
        name = f"c{number}"
        if step == "join" and name not in group.members:
            group.join(name)
            group.seen[name] = count
        elif step == "leave" and name in group.members:
            group.leave(name)
        elif step == "restart":
            group.coordinator = GroupAssignments()
        elif step == "scale":
            count = number
            group.seen = dict.fromkeys(group.members, count)
        elif step == "clock":
            group.now_ms = 100 * number
        before = {queue: member for member, share in group.assignments.items() for queue in share.queues}
        group.ask_all()
        group.ask_all()
        group.ask_all()
        if not group.members:
            newest = 0  # nobody knows of any version
        else:
            assert len(set(group.versions)) == 1
            assert group.versions[0] >= newest
            newest = group.versions[0]
            queues = [MessageQueue("t", "a", number) for number in range(count)]
            owners = {queue: member for member, share in group.assignments.items() for queue in share.queues}
            assert dict(sorted(owners.items())) == assign(before, {"t": queues}, dict.fromkeys(group.members, ("t",)))
