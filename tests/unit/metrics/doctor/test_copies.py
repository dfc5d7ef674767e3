"""What is wrong with the replicas of a broker is found with its evidence, and what passes by itself is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metrics.doctor.copies import another_copy
from metrics.doctor.problems import Diagnosis, Problem
from metrics.doctor.rules import diagnose
from metrics.doctor.snapshot import ObservedBroker, Snapshot
from model.absent_broker import Absence, AbsentBroker
from model.replica_info import ReplicaInfo, ReplicaSetInfo
from model.replica_limits import REPLICA_MAX_LAG_BYTES
from model.replica_set import NO_MASTER
from tests.unit.metrics.doctor.doctor_copies import Sets, copies_of, look_at, replica

NOTHING = Snapshot(name_servers=(), brokers=(), groups={}, interval_s=5, events=(), minutes=10)
AWAY = replica(2, in_sync=False, failure="refused")
OUT_OF_SYNC = replica(2, in_sync=False, state="following", lag_bytes=0)


def found(sets: Sets) -> list[Diagnosis]:
    return diagnose(replace(NOTHING, sets=sets))


def only(sets: Sets) -> Diagnosis:
    [diagnosis] = found(sets)
    return diagnosis


def test_a_set_with_all_its_copies_on_machines_of_their_own_has_no_finding() -> None:
    assert found(copies_of(replica(1), replica(2), replica(3))) == []
    assert found(copies_of(replica(1))) == []  # one copy is wanted


def test_a_set_with_a_replica_too_many_is_sound_as_long_as_the_wanted_copies_are_in_sync() -> None:
    assert found(copies_of(replica(1), replica(2), replica(3, in_sync=False), copies=2)) == []


def test_a_replica_that_was_not_in_sync_at_one_of_two_looks_is_not_a_finding() -> None:
    both, one = look_at(replica(1), replica(2)), look_at(replica(1), AWAY)
    assert found({"b": (one, both)}) == found({"b": (both, one)}) == []


@pytest.mark.parametrize(
    ("before", "now", "is_found"),
    [
        (AWAY, OUT_OF_SYNC, False),  # its process has just started
        (replace(OUT_OF_SYNC, state="catching up"), OUT_OF_SYNC, False),
        (replace(OUT_OF_SYNC, state="away", lag_bytes=-1), replace(OUT_OF_SYNC, state="catching up"), False),
        (OUT_OF_SYNC, OUT_OF_SYNC, True),  # it has to prove for longer that it is not slow
        (AWAY, replace(OUT_OF_SYNC, state="catching up", lag_bytes=REPLICA_MAX_LAG_BYTES + 1), True),
        (OUT_OF_SYNC, AWAY, True),
    ],
)
def test_a_replica_that_has_just_returned_is_not_a_finding(
    before: ReplicaInfo, now: ReplicaInfo, is_found: bool
) -> None:
    sets = {"b": (look_at(replica(1), before), look_at(replica(1), now))}
    assert bool(found(sets)) is is_found


def test_damage_at_a_master_is_mended_by_a_handover_if_another_replica_in_sync_answers() -> None:
    seen = replace(NOTHING, sets=copies_of(replica(1), replica(2), replica(3)))
    assert another_copy(seen, "b") == 2
    assert another_copy(seen, "c") == 0
    assert another_copy(replace(NOTHING, sets=copies_of(replica(1), AWAY)), "b") == 0


def test_the_copies_that_are_missing_are_named_with_their_reasons() -> None:
    behind = replica(3, in_sync=False, state="catching up", lag_bytes=3 << 20)
    diagnosis = only(copies_of(replica(1), AWAY, behind, copies=4))
    assert diagnosis.problem is Problem.ONE_COPY
    assert diagnosis.evidence == (
        "of 4 copies, replica 1 is in sync; replica 2 at h2:1 does not answer: refused; "
        "replica 3 at h3:1 is catching up, 3.0 MiB behind; only 3 joined the set"
    )
    assert "--replica-of b" in diagnosis.remedy


def test_it_is_named_that_sends_are_refused_with_so_few_copies() -> None:
    diagnosis = only(copies_of(replica(1), AWAY, min_in_sync=2))
    assert diagnosis.evidence.endswith("sends are refused, because min_in_sync is 2")


def test_a_set_without_a_master_names_the_replica_that_can_take_over_without_loss() -> None:
    dead = replica(1, failure="refused", in_sync=True)
    diagnosis = only(copies_of(dead, replica(2)))
    assert (diagnosis.problem, diagnosis.subject) == (Problem.MASTER_AWAY, "broker b")
    assert diagnosis.evidence == (
        "replica 1 at h1:1 is the master, and does not answer: refused; "
        "replica 2 is in sync and can take over without loss"
    )
    assert "rlab broker elect b --replica 2" in diagnosis.remedy


def test_an_election_that_loses_messages_is_named_as_one() -> None:
    alone, late = replica(1, failure="refused"), replica(2, in_sync=False)
    [master, copies] = found(copies_of(alone, late))
    assert (master.problem, copies.problem) == (Problem.MASTER_AWAY, Problem.ONE_COPY)
    assert "no other replica is in sync and answers (in sync: 1)" in master.evidence
    assert "--accept-loss" in master.remedy


def test_a_set_that_the_register_left_without_a_master_is_found() -> None:
    diagnosis = only(copies_of(replica(1, role="following"), replica(2), master=NO_MASTER))
    assert diagnosis.evidence.startswith("no replica is the master")
    assert "replicas 1, 2 are in sync" in diagnosis.evidence


def test_a_master_that_begins_is_found_only_if_it_takes_longer_than_both_looks() -> None:
    begins, serves = look_at(replica(1, role="waiting"), replica(2)), look_at(replica(1), replica(2))
    assert found({"b": (begins, serves)}) == []
    [diagnosis] = found({"b": (begins, begins)})
    assert "does not serve yet" in diagnosis.evidence


def test_replicas_that_get_no_answer_from_the_register_at_both_looks_are_named() -> None:
    cut_off, well = replica(2, register_answers=False), replica(2)
    looks: tuple[ReplicaSetInfo, ReplicaSetInfo] = (look_at(replica(1), cut_off), look_at(replica(1), cut_off))
    diagnosis = only({"b": looks})
    assert (diagnosis.problem, diagnosis.evidence) == (
        Problem.REGISTER_AWAY,
        "the register of the set does not answer replica 2",
    )
    assert found({"b": (looks[0], look_at(replica(1), well))}) == []


def test_a_member_of_a_set_that_is_away_is_reported_once_and_not_as_a_broker_to_forget() -> None:
    gone = AbsentBroker(
        cluster="c", broker_name="b", broker_id=2, address="h2:1", away_s=60.0, reason="closed its connection"
    )
    seen = replace(
        NOTHING,
        sets=copies_of(replica(1), AWAY),
        absence=Absence(brokers=(gone,), known_for_s=100.0, unable={}),
        brokers=(ObservedBroker(name="b", address="h1:1", error="refused"),),
    )
    assert [each.problem for each in diagnose(seen)] == [Problem.ONE_COPY]


def test_a_register_on_the_machine_of_the_master_alone_is_found_and_one_with_more_machines_is_not() -> None:
    one = only(copies_of(replica(1, register_at=("h1:9876",)), replica(2, register_at=("h1:9876",))))
    assert one.problem is Problem.REGISTER_TOGETHER
    assert "replica 1, and the register of the set are both at h1" in one.evidence
    assert found(copies_of(replica(1, register_at=("h2:9876",)), replica(2))) == []
    assert found(copies_of(replica(1, register_at=("h1:2379", "h2:2379")), replica(2))) == []
    assert found(copies_of(replica(1, register_at=("h1:9876",)))) == []


def test_a_lease_of_which_little_was_left_is_found_before_it_ends() -> None:
    short = only(copies_of(replica(1, lease_margin_s=0.4), replica(2)))
    assert short.problem is Problem.LEASE_SHORT
    assert short.evidence.startswith("0.40 s of the lease of 2 s were left")
    assert found(copies_of(replica(1, lease_margin_s=0.6), replica(2))) == []
    assert found(copies_of(replica(1, lease_margin_s=0.6), replica(2), lease_ms=5_000)) != []
