"""The decisions about a replica set: what each makes of a row, and each refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.errors import IllegalOperation, InvalidParameter
from model.replica_limits import MAX_REPLICAS
from model.replica_set import NO_MASTER, Acks, Replica, ReplicaSet
from replica.sets import (
    AddressTaken,
    AlreadyMaster,
    DeposedMaster,
    LeaseInUse,
    MasterAnswers,
    ReplicaNeeded,
    ReplicaNotInSync,
    ReplicaRestarted,
    SetFull,
    SetRefusal,
    UnknownReplica,
    begun,
    create,
    elected,
    forgotten,
    handed_over,
    in_sync_with,
    joined,
    removed_from_in_sync,
    started,
    took_over,
    with_options,
)

NEW = create("broker-a", "h1:1", set_id=7, copies=2)
"""Replica 1 is the master of epoch 1."""


def with_follower(row: ReplicaSet = NEW) -> ReplicaSet:
    """Add a replica that has started, and is not in sync."""
    row, replica_id = joined(row, f"h{row.last_replica_id + 1}:1")
    return started(row, replica_id, f"h{replica_id}:1")


OUT_OF_SYNC = with_follower()
PAIR = in_sync_with(OUT_OF_SYNC, 2, by=1, epoch=1, incarnation=1)
"""Replicas 1 and 2 are in sync."""


def test_the_first_replica_is_the_master_of_the_first_epoch() -> None:
    assert NEW.version == 0
    assert (NEW.epoch, NEW.master, NEW.in_sync) == (1, 1, (1,))
    assert NEW.members == (Replica(replica_id=1, address="h1:1", incarnation=1),)
    assert NEW.acks is Acks.ALL


def test_a_replica_that_joins_gets_an_id_of_its_own_and_is_not_in_sync() -> None:
    row, replica_id = joined(NEW, "h2:1")
    assert replica_id == 2
    assert row.members[1] == Replica(replica_id=2, address="h2:1", incarnation=0)
    assert row.in_sync == (1,)


def test_a_join_whose_answer_was_lost_gets_the_same_id_again() -> None:
    row, replica_id = joined(NEW, "h2:1")
    assert joined(row, "h2:1") == (row, replica_id)


def test_the_address_of_a_replica_that_has_started_is_refused_with_the_remedy() -> None:
    with pytest.raises(AddressTaken, match=r"replica 2 of set broker-a has the address h2:1: forget that replica"):
        joined(OUT_OF_SYNC, "h2:1")
    with pytest.raises(AddressTaken, match=r"replica 1 of set broker-a has the address h1:1"):
        started(OUT_OF_SYNC, 2, "h1:1")


def test_a_set_takes_its_limit_of_replicas_and_no_more() -> None:
    row = NEW
    while len(row.members) < MAX_REPLICAS:
        row = with_follower(row)
    with pytest.raises(SetFull, match=f"has {MAX_REPLICAS} replicas, the most it may have: forget one"):
        joined(row, "h99:1")
    assert joined(forgotten(row, MAX_REPLICAS), "h99:1")[1] == MAX_REPLICAS + 1


def test_each_start_has_the_next_incarnation_and_may_have_another_address() -> None:
    row = started(PAIR, 2, "elsewhere:1")
    assert row.members[1] == Replica(replica_id=2, address="elsewhere:1", incarnation=2)
    assert (row.epoch, row.master, row.in_sync) == (1, 1, (1, 2))


def test_a_master_that_starts_again_begins_the_next_epoch() -> None:
    row = started(PAIR, 1, "h1:1")
    assert (row.epoch, row.master, row.in_sync) == (2, 1, (1, 2))


def test_a_master_that_may_have_lost_messages_does_not_stay_one_if_another_replica_has_them() -> None:
    row = started(PAIR, 1, "h1:1", clean=False)
    assert (row.epoch, row.master, row.in_sync) == (2, NO_MASTER, (2,))
    assert elected(row, 2, accept_loss=False, master_answers=False).master == 2
    with pytest.raises(ReplicaNotInSync):
        elected(row, 1, accept_loss=False, master_answers=False)


def test_a_master_that_may_have_lost_messages_stays_one_if_it_is_alone() -> None:
    row = started(OUT_OF_SYNC, 1, "h1:1", clean=False)
    assert (row.epoch, row.master, row.in_sync) == (2, 1, (1,))


def test_a_replica_that_may_have_lost_messages_is_not_in_sync() -> None:
    row = started(PAIR, 2, "h2:1", clean=False)
    assert (row.epoch, row.master, row.in_sync) == (1, 1, (1,))


def test_a_replica_that_was_forgotten_cannot_start() -> None:
    row = forgotten(OUT_OF_SYNC, 2)
    with pytest.raises(UnknownReplica, match="has no replica 2, only 1; a replica that was forgotten"):
        started(row, 2, "h2:1")


def test_only_the_master_of_the_epoch_counts_a_replica_as_in_sync() -> None:
    assert PAIR.in_sync == (1, 2)
    assert in_sync_with(PAIR, 2, by=1, epoch=1, incarnation=1) == PAIR
    with pytest.raises(DeposedMaster, match=r"replica 2 is not the master .* the epoch is 1, and replica 1 is"):
        in_sync_with(OUT_OF_SYNC, 2, by=2, epoch=1, incarnation=1)
    with pytest.raises(DeposedMaster, match="in epoch 1: the epoch is 2"):
        in_sync_with(started(OUT_OF_SYNC, 1, "h1:1"), 2, by=1, epoch=1, incarnation=1)
    with pytest.raises(DeposedMaster, match="it has no master"):
        removed_from_in_sync(started(PAIR, 1, "h1:1", clean=False), 2, by=1, epoch=2)


def test_a_process_of_an_earlier_start_is_not_counted_as_in_sync() -> None:
    with pytest.raises(ReplicaRestarted, match="has started 2 times, and this is the process of start 1"):
        in_sync_with(started(OUT_OF_SYNC, 2, "h2:1"), 2, by=1, epoch=1, incarnation=1)


def test_a_replica_leaves_by_its_master_or_by_itself() -> None:
    assert removed_from_in_sync(PAIR, 2, by=1, epoch=1).in_sync == (1,)
    assert removed_from_in_sync(PAIR, 2, by=2, epoch=0).in_sync == (1,)
    assert removed_from_in_sync(OUT_OF_SYNC, 2, by=1, epoch=1) == OUT_OF_SYNC
    with pytest.raises(DeposedMaster):
        removed_from_in_sync(PAIR, 2, by=1, epoch=2)


def test_the_master_and_the_last_replica_stay_in_sync() -> None:
    with pytest.raises(ReplicaNeeded, match="replica 1 is the master of set broker-a: hand over first"):
        removed_from_in_sync(PAIR, 1, by=1, epoch=1)
    without_master = started(PAIR, 1, "h1:1", clean=False)
    with pytest.raises(ReplicaNeeded, match="no other replica of set broker-a is in sync than 2"):
        removed_from_in_sync(without_master, 2, by=2, epoch=2)


def test_the_master_hands_over_to_a_replica_in_sync_and_stays_in_sync() -> None:
    row = handed_over(PAIR, 2, by=1, epoch=1)
    assert (row.epoch, row.master, row.in_sync) == (2, 2, (1, 2))


def test_a_master_that_hands_over_because_it_stops_is_not_in_sync_afterwards() -> None:
    row = handed_over(PAIR, 2, by=1, epoch=1, leaves=True)
    assert (row.epoch, row.master, row.in_sync) == (2, 2, (2,))


def test_a_handover_that_would_lose_messages_or_that_is_not_the_masters_is_refused() -> None:
    with pytest.raises(ReplicaNotInSync, match=r"replica 2 of set broker-a is not in sync \(1 is\)"):
        handed_over(OUT_OF_SYNC, 2, by=1, epoch=1)
    with pytest.raises(UnknownReplica):
        handed_over(PAIR, 3, by=1, epoch=1)
    with pytest.raises(AlreadyMaster):
        handed_over(PAIR, 1, by=1, epoch=1)
    with pytest.raises(DeposedMaster):
        handed_over(PAIR, 2, by=2, epoch=1)


def test_an_operator_elects_a_replica_in_sync_whose_master_does_not_answer() -> None:
    row = elected(PAIR, 2, accept_loss=False, master_answers=False)
    assert (row.epoch, row.master, row.in_sync) == (2, 2, (2,))


def test_other_replicas_in_sync_stay_so_at_an_election() -> None:
    three = in_sync_with(with_follower(PAIR), 3, by=1, epoch=1, incarnation=1)
    assert elected(three, 2, accept_loss=False, master_answers=False).in_sync == (2, 3)


def test_an_election_that_would_lose_messages_needs_the_consent_of_the_operator() -> None:
    with pytest.raises(ReplicaNotInSync, match="may lack messages: elect one that is, or accept the loss"):
        elected(OUT_OF_SYNC, 2, accept_loss=False, master_answers=False)
    row = elected(OUT_OF_SYNC, 2, accept_loss=True, master_answers=False)
    assert (row.epoch, row.master, row.in_sync) == (2, 2, (2,))


def test_an_election_beside_a_master_that_answers_needs_the_consent_too() -> None:
    with pytest.raises(MasterAnswers, match="replica 1 at h1:1, answers: hand over instead"):
        elected(PAIR, 2, accept_loss=False, master_answers=True)
    assert elected(PAIR, 2, accept_loss=True, master_answers=True).master == 2


def test_the_master_and_a_stranger_are_not_elected() -> None:
    with pytest.raises(AlreadyMaster, match="it serves as soon as it runs"):
        elected(PAIR, 1, accept_loss=True, master_answers=False)
    with pytest.raises(UnknownReplica):
        elected(PAIR, 3, accept_loss=True, master_answers=False)


def test_a_replica_that_the_set_does_not_need_is_forgotten() -> None:
    row = forgotten(OUT_OF_SYNC, 2)
    assert row.members == (Replica(replica_id=1, address="h1:1", incarnation=1),)
    assert joined(row, "h2:1")[1] == 3


def test_the_master_and_replicas_in_sync_are_not_forgotten() -> None:
    with pytest.raises(ReplicaNeeded, match="replica 1 is the master"):
        forgotten(PAIR, 1)
    with pytest.raises(ReplicaNeeded, match="is in sync: stop it"):
        forgotten(PAIR, 2)
    with pytest.raises(UnknownReplica):
        forgotten(PAIR, 3)


def test_the_options_change_one_by_one() -> None:
    row = with_options(PAIR, acks=Acks.MASTER)
    assert (row.copies, row.min_in_sync, row.acks) == (2, 1, Acks.MASTER)
    row = with_options(row, copies=3, min_in_sync=3)
    assert (row.copies, row.min_in_sync, row.acks) == (3, 3, Acks.MASTER)
    with pytest.raises(InvalidParameter, match="min_in_sync must be 1 to 2, got 3"):
        with_options(row, copies=2)
    assert with_options(PAIR) == PAIR


def test_every_refusal_can_be_caught_as_one_and_is_definite() -> None:
    assert issubclass(SetRefusal, IllegalOperation)
    for refusal in SetRefusal.__subclasses__():
        assert refusal.definite
        assert not refusal.retryable


def test_a_decision_leaves_its_row_as_it_is() -> None:
    before = replace(PAIR)
    handed_over(PAIR, 2, by=1, epoch=1)
    assert before == PAIR


def test_only_the_start_of_a_master_changes_the_length_of_the_lease() -> None:
    row = started(PAIR, 1, "h1:1", lease_ms=5_000)
    assert (row.lease_ms, row.epoch) == (5_000, PAIR.epoch + 1)
    assert started(row, 2, "h2:1", lease_ms=5_000).lease_ms == 5_000
    with pytest.raises(LeaseInUse, match="only the start of its master"):
        started(row, 2, "h2:1", lease_ms=2_000)
    with pytest.raises(InvalidParameter, match="lease"):
        started(PAIR, 1, "h1:1", lease_ms=999)


def test_a_replica_in_sync_takes_over_from_a_master_that_serves_no_more_in_the_epoch_that_it_knows() -> None:
    row = took_over(PAIR, 2, epoch=PAIR.epoch)
    assert (row.master, row.epoch, row.in_sync) == (2, PAIR.epoch + 1, (2,))
    assert took_over(PAIR, 2, epoch=PAIR.epoch + 1) is PAIR
    assert took_over(OUT_OF_SYNC, 2, epoch=OUT_OF_SYNC.epoch) is OUT_OF_SYNC
    assert took_over(PAIR, 1, epoch=PAIR.epoch) is PAIR


THREE = in_sync_with(with_follower(PAIR), 3, by=1, epoch=1, incarnation=1)
CHOSEN = elected(THREE, 2, accept_loss=False, master_answers=False)
"""An operator has elected replica 2; replica 1 may still serve."""


def test_a_master_that_hands_over_or_whose_lease_is_over_has_stopped_and_one_beside_an_election_may_serve() -> None:
    assert NEW.has_settled
    assert handed_over(PAIR, 2, by=1, epoch=1, leaves=True).has_settled
    assert took_over(PAIR, 2, epoch=1).has_settled
    assert not CHOSEN.has_settled
    assert took_over(CHOSEN, 3, epoch=2).stopped_epoch == 2


def test_a_master_that_starts_again_has_ended_and_those_before_it_only_if_they_had_stopped() -> None:
    assert started(PAIR, 1, "h1:1").has_settled
    again = started(CHOSEN, 2, "h2:1")
    assert (again.epoch, again.master, again.has_settled) == (3, 2, False)
    assert started(CHOSEN, 3, "h3:1").stopped_epoch == CHOSEN.stopped_epoch


def test_a_set_without_a_master_has_settled_if_the_one_before_had_begun() -> None:
    lost = started(PAIR, 1, "h1:1", clean=False)
    assert (lost.master, lost.has_settled) == (NO_MASTER, True)
    assert elected(lost, 2, accept_loss=False, master_answers=True).has_settled
    lost = started(CHOSEN, 2, "h2:1", clean=False)
    assert (lost.master, lost.has_settled) == (NO_MASTER, False)
    assert not elected(lost, 3, accept_loss=False, master_answers=True).has_settled


def test_a_master_begins_once_and_only_in_its_own_epoch() -> None:
    row = begun(CHOSEN, 2, epoch=2)
    assert row.has_settled
    assert started(row, 2, "h2:1").has_settled
    assert begun(CHOSEN, 3, epoch=2) is CHOSEN
    assert begun(CHOSEN, 2, epoch=1) is CHOSEN


def test_the_lease_stays_as_it_is_while_an_earlier_master_may_serve_by_it() -> None:
    with pytest.raises(LeaseInUse, match="an earlier master may serve by it: start this one once with that lease"):
        started(CHOSEN, 2, "h2:1", lease_ms=1_500)
    assert started(begun(CHOSEN, 2, epoch=2), 2, "h2:1", lease_ms=1_500).lease_ms == 1_500
