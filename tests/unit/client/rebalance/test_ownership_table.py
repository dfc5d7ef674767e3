"""The way of one queue through the table, step by step; tests/property/test_ownership_table.py has the laws."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest

from client.rebalance import ownership_acts as acts
from client.rebalance import ownership_events as events
from client.rebalance.ownership_table import ABSENT, DRAINING, LOST, OWNED, RELEASING, REQUESTED, WANTED, OwnershipTable
from model.message_queue import MessageQueue

Q, R = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


@dataclass(eq=False)
class Held:
    queue: MessageQueue = Q
    token: int = 1
    commit_offset: int = 0
    busy: bool = False


def owning(*holdings: Held) -> OwnershipTable[Held]:
    table: OwnershipTable[Held] = OwnershipTable()
    table.on(events.TargetFound([held.queue for held in holdings]))
    table.on(events.LeasesDue(()))
    for held in holdings:
        assert table.on(events.QueueGranted(held, None)) == [acts.StartQueue(held)]
    return table


def test_a_queue_goes_from_the_target_to_its_release_as_the_header_shows() -> None:
    table: OwnershipTable[Held] = OwnershipTable()
    held = Held()
    way: list[tuple[Any, list[Any], Any]] = [
        (events.TargetFound([Q]), [], WANTED),
        (events.LeasesDue(()), [acts.RequestLeases([Q], [])], REQUESTED),
        (events.QueueRefused(Q), [], WANTED),
        (events.LeasesDue(()), [acts.RequestLeases([Q], [])], REQUESTED),
        (events.QueueGranted(held, None), [acts.StartQueue(held)], OWNED),
        (events.TargetFound([]), [acts.StopQueue(held, "revoked"), acts.DrainQueues([held])], DRAINING),
        (events.QueuesDrained([held]), [acts.ReleaseQueues([held])], RELEASING),
        (events.QueuesReleased([held]), [], ABSENT),
    ]
    for event, expected, state in way:
        assert table.on(event) == expected
        assert table.state(Q) is state


def test_a_pass_that_finds_what_it_found_before_makes_nothing() -> None:
    table = owning(Held(), Held(R))
    target = [Q, R]
    assert table.on(events.TargetFound(target)) == []
    assert table.on(events.LeasesDue(())) == []
    assert table.balanced
    assert table.settled(target)


def test_a_lease_that_is_granted_after_its_timeout_is_given_back_when_another_should_have_the_queue() -> None:
    table: OwnershipTable[Held] = OwnershipTable()
    table.on(events.TargetFound([Q]))
    table.on(events.LeasesDue(()))
    table.on(events.RequestFailed(Q, definite=False))
    table.on(events.TargetFound([]))
    assert table.state(Q) is REQUESTED
    assert table.on(events.LeasesDue(())) == [acts.RequestLeases([], [Q])]
    late = Held()
    assert table.on(events.QueueGranted(late, None)) == [acts.DrainQueues((late,))]
    assert table.state(Q) is DRAINING


def test_a_request_that_did_not_leave_does_not_end_the_doubt_about_the_one_before() -> None:
    table: OwnershipTable[Held] = OwnershipTable()
    table.on(events.TargetFound([Q]))
    table.on(events.LeasesDue(()))
    table.on(events.RequestFailed(Q, definite=True))
    assert table.state(Q) is WANTED
    for definite in (False, True):
        table.on(events.LeasesDue(()))
        table.on(events.RequestFailed(Q, definite=definite))
        assert table.state(Q) is REQUESTED


def test_a_lost_queue_with_a_message_at_a_listener_is_asked_for_again_only_when_that_is_done() -> None:
    held = Held(busy=True)
    table = owning(held)
    dropped = [acts.DropQueue(held, "lost"), acts.DrainQueues((held,)), acts.WakePass(recompute=True)]
    assert table.on(events.QueueLost(held)) == dropped
    assert table.state(Q) is LOST
    assert table.on(events.LeasesDue(())) == []
    assert table.on(events.QueuesDrained([held])) == [acts.WakePass(recompute=False)]
    assert table.on(events.LeasesDue(())) == [acts.RequestLeases([Q], [])]


@pytest.mark.parametrize(("confirmed", "start", "is_renewed"), [(3, 3, True), (3, 2, False), (None, 9, False)])
def test_a_lease_that_is_granted_again_goes_on_only_if_no_one_consumed_or_reset_in_between(
    confirmed: int | None, start: int, is_renewed: bool
) -> None:
    held = Held(commit_offset=5)
    table = owning(held)
    table.on(events.LeasesDue([Q]))
    again = Held(token=2, commit_offset=start)
    done = table.on(events.QueueGranted(again, confirmed))
    lost = [acts.DropQueue(held, "lost"), acts.WakePass(recompute=True), acts.StartQueue(again)]
    assert done == ([acts.RenewQueue(held, again)] if is_renewed else lost)


def test_a_grant_for_a_queue_that_was_lost_while_it_was_confirmed_is_not_forgotten() -> None:
    held = Held(busy=True)
    table = owning(held)
    table.on(events.LeasesDue([Q]))
    table.on(events.QueueLost(held))
    assert table.on(events.QueueGranted(Held(token=2), None)) == []
    table.on(events.TargetFound([]))
    table.on(events.QueuesDrained([held]))
    assert table.state(Q) is REQUESTED, "it is another member's by now, and ours at the broker"
    assert table.on(events.LeasesDue(())) == [acts.RequestLeases([], [Q])]


def test_a_reset_drops_the_leases_that_it_revoked_and_no_later_one() -> None:
    old, new = Held(Q, 4), Held(R, 5)
    table = owning(old, new)
    assert table.on(events.QueuesReset([Q, R, Q], 4)) == [acts.DropQueue(old, "reset"), acts.WakePass(recompute=False)]
    assert table.owned == {R: new}


def test_a_close_while_a_lease_is_asked_for_leaves_a_later_grant_to_the_end_of_the_membership() -> None:
    held = Held()
    table = owning(held)
    table.on(events.TargetFound([Q, R]))
    table.on(events.LeasesDue(()))
    stopped = [acts.StopQueue(held, "shutdown"), acts.FinishQueues([held])]
    assert table.on(events.MemberClosed(alone=False)) == stopped
    assert table.on(events.QueueGranted(Held(R), None)) == []
    assert (table.state(Q), table.state(R), table.owned) == (DRAINING, ABSENT, {})


def test_a_close_takes_over_what_is_drained_by_tasks_that_have_ended() -> None:
    draining, releasing = Held(Q, busy=True), Held(R)
    table = owning(draining, releasing)
    table.on(events.TargetFound([]))
    table.on(events.QueuesDrained([releasing]))
    assert table.on(events.MemberClosed(alone=True)) == [acts.FinishQueues([draining])]
    assert table.on(events.QueuesReleased([releasing])) == []
    assert table.leaving == {Q: draining}


def test_events_and_acts_are_frozen() -> None:
    for record in (events.QueueRefused(Q), acts.RequestLeases([Q], [])):
        with pytest.raises(FrozenInstanceError):
            record.__setattr__(record.__slots__[0], R)
