"""The record of a replica set: which rows are legal, their encoded form, and which row may follow which."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from model.errors import IllegalOperation, InvalidParameter
from model.limits import MAX_FRAME_BYTES, MAX_NAME_CHARS
from model.replica_limits import MAX_REPLICA_SET_BYTES, MAX_REPLICA_SETS, MAX_REPLICAS, MAX_SET_NUMBER
from model.replica_set import (
    NO_MASTER,
    Acks,
    Replica,
    ReplicaSet,
    SetChanged,
    acks_of,
    check_newer,
    stored_row,
    was_written,
)
from process.output import document

ONE, TWO, THREE = (Replica(replica_id=each, address=f"h{each}:1", incarnation=1) for each in (1, 2, 3))
ROW = ReplicaSet(
    name="broker-a",
    set_id=7,
    epoch=3,
    master=1,
    in_sync=(1, 2),
    members=(ONE, TWO),
    register_id=9,
    version=4,
    last_replica_id=2,
    copies=2,
)


def wire_of(row: ReplicaSet) -> dict[str, Any]:
    fields: Any = msgpack.unpackb(row.to_wire())
    return dict(fields)


def largest() -> ReplicaSet:
    first = MAX_SET_NUMBER - MAX_REPLICAS
    ids = [first + each for each in range(MAX_REPLICAS)]
    members = [
        Replica(replica_id=each, address=f"{each:x>{MAX_NAME_CHARS}}", incarnation=MAX_SET_NUMBER) for each in ids
    ]
    return ReplicaSet(
        name="b" * MAX_NAME_CHARS,
        set_id=MAX_SET_NUMBER,
        epoch=MAX_SET_NUMBER,
        master=ids[0],
        in_sync=tuple(ids),
        members=tuple(members),
        register_id=MAX_SET_NUMBER,
        version=MAX_SET_NUMBER,
        last_replica_id=MAX_SET_NUMBER,
        copies=MAX_REPLICAS,
        min_in_sync=MAX_REPLICAS,
        acks=Acks.MASTER,
    )


@pytest.mark.parametrize("row", [ROW, replace(ROW, master=NO_MASTER), replace(ROW, acks=Acks.MASTER), largest()])
def test_a_row_is_the_same_behind_the_wire(row: ReplicaSet) -> None:
    assert ReplicaSet.from_wire(row.to_wire()) == row


def test_the_largest_row_fits_its_bound_and_all_rows_fit_a_frame() -> None:
    assert len(largest().to_wire()) <= MAX_REPLICA_SET_BYTES
    assert MAX_REPLICA_SETS * len(largest().to_wire()) < MAX_FRAME_BYTES


def test_a_longer_row_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(InvalidParameter, match=f"may have {MAX_REPLICA_SET_BYTES} bytes, not"):
        ReplicaSet.from_wire(b"\xc1" * (MAX_REPLICA_SET_BYTES + 1))


def test_a_field_of_a_later_version_is_left_out_and_an_optional_one_has_its_default() -> None:
    fields = wire_of(ROW)
    del fields["min_in_sync"], fields["acks"]
    assert ReplicaSet.from_wire(msgpack.packb({**fields, "leases": [1]})) == ROW


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "a b"}, "broker name"),
        ({"set_id": 0}, "set id"),
        ({"set_id": "7"}, "set id"),
        ({"epoch": 0}, "epoch"),
        ({"version": -1}, "version"),
        ({"register_id": 0}, "register id"),
        ({"copies": MAX_REPLICAS + 1}, "copies"),
        ({"min_in_sync": 3}, "min_in_sync must be 1 to 2, got 3"),
        ({"last_replica_id": 1}, "last replica id"),
        ({"members": []}, "number of replicas"),
        ({"members": [[1, "h:1", 0], [2, "h:1", 0]]}, "two replicas have one address"),
        ({"members": [[2, "h:1", 0], [1, "h:2", 0]]}, "must ascend"),
        ({"members": [[1, "h:1"]]}, "a member must be"),
        ({"members": {"1": 2}}, "must be a list"),
        ({"members": [[1, "", 0]]}, "address"),
        ({"members": [[0, "h:1", 0]]}, "replica id"),
        ({"in_sync": [2]}, "master 1 is not in sync"),
        ({"in_sync": [1, 3]}, "are in sync, but the members are"),
        ({"in_sync": [2, 1]}, "must ascend"),
        ({"in_sync": [1, None]}, "replica id in sync"),
        ({"in_sync": 1}, "must be a list"),
        ({"master": 3}, "master 3 is not in sync"),
        ({"master": None}, "master"),
        ({"acks": "some"}, "acks must be all or master"),
        ({"acks": ["all"]}, "acks must be all or master"),
    ],
)
def test_bytes_that_are_not_legal_row_are_refused_with_the_field(changes: dict[str, Any], reason: str) -> None:
    fields = wire_of(ROW)
    with pytest.raises(InvalidParameter, match=reason):
        ReplicaSet.from_wire(msgpack.packb({**fields, **changes}))


@pytest.mark.parametrize("wire", [b"", b"\xc1", msgpack.packb([1]), msgpack.packb({"name": "a"}), b"\x81\xa1a"])
def test_bytes_that_are_not_row_at_all_are_refused(wire: bytes) -> None:
    with pytest.raises(InvalidParameter, match="a replica set must be"):
        ReplicaSet.from_wire(wire)


def test_a_row_is_the_same_behind_a_document() -> None:
    for row in (ROW, largest()):
        assert ReplicaSet.from_document(json.loads(json.dumps(document(row)))) == row


@pytest.mark.parametrize(
    "wrong",
    [{"members": None}, {"members": [1]}, {"members": [{}]}, {"epoch": 2**70}, {"epoch": object()}, {"in_sync": [1.5]}],
)
def test_a_document_that_is_not_a_row_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        ReplicaSet.from_document({**document(ROW), **wrong})


def test_a_set_has_so_many_members_and_no_more() -> None:
    members = [Replica(replica_id=each, address=f"h:{each}") for each in range(1, MAX_REPLICAS + 2)]
    replace(ROW, members=tuple(members[:-1]), last_replica_id=MAX_REPLICAS + 1)
    with pytest.raises(InvalidParameter, match=f"number of replicas must be 1 to {MAX_REPLICAS}"):
        replace(ROW, members=tuple(members), last_replica_id=MAX_REPLICAS + 1)


def test_the_master_has_an_address_while_there_is_one() -> None:
    assert ROW.master_address == "h1:1"
    assert replace(ROW, master=NO_MASTER).master_address is None
    assert ROW.member(3) is None


def test_the_acknowledgements_are_known_by_name() -> None:
    assert acks_of("master") is Acks.MASTER


# ------------------------------------------------------------------------------------------------ compare-and-set


def test_a_row_is_stored_with_the_next_version_and_the_id_of_the_register() -> None:
    new = replace(ROW, version=0, register_id=0)
    first = stored_row(None, new, 0, register_id=9, n_rows=0)
    assert (first.version, first.register_id) == (1, 9)
    assert stored_row(first, replace(first, copies=3), 1, register_id=9, n_rows=1).version == 2


@pytest.mark.parametrize("expected", [0, 3, 5])
def test_another_version_than_expected_is_refused_with_the_row(expected: int) -> None:
    with pytest.raises(SetChanged, match=f"has version 4 and not {expected}") as refused:
        stored_row(ROW, ROW, expected, register_id=9, n_rows=1)
    assert refused.value.current == ROW


def test_a_row_that_is_gone_is_not_recreated_by_a_change_of_it() -> None:
    with pytest.raises(SetChanged, match="has version 0 and not 4") as refused:
        stored_row(None, ROW, 4, register_id=9, n_rows=0)
    assert refused.value.current is None


@pytest.mark.parametrize("current", [ROW, None])
def test_a_row_of_another_register_is_refused(current: ReplicaSet | None) -> None:
    expected = 0 if current is None else 4
    with pytest.raises(IllegalOperation, match="it belongs to register 9, and this is register 8"):
        stored_row(current, ROW, expected, register_id=8, n_rows=1)


def test_a_register_takes_its_limit_of_sets_and_no_more() -> None:
    stored_row(None, ROW, 0, register_id=9, n_rows=MAX_REPLICA_SETS - 1)
    stored_row(ROW, ROW, 4, register_id=9, n_rows=MAX_REPLICA_SETS)
    with pytest.raises(IllegalOperation, match=f"has {MAX_REPLICA_SETS} sets, the most it may have"):
        stored_row(None, ROW, 0, register_id=9, n_rows=MAX_REPLICA_SETS)


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (replace(ROW, set_id=8), "its set id is 8, and a set with id 7 has this name"),
        (replace(ROW, epoch=2), "its epoch 2 is lower than 3"),
        (replace(ROW, master=2), "epoch 3 belongs to master 1"),
        (replace(ROW, lease_ms=3_000), "the lease of epoch 3 is 2000 ms"),
        (replace(ROW, master=NO_MASTER), "epoch 3 belongs to master 1"),
        (replace(ROW, members=(ONE,), in_sync=(1,), last_replica_id=1), "replica id 2 was given already"),
        (replace(ROW, members=(ONE, replace(TWO, incarnation=0))), "replica 2 has started 1 time already"),
    ],
)
def test_nothing_of_a_row_goes_back(new: ReplicaSet, reason: str) -> None:
    with pytest.raises(IllegalOperation, match=f"stays as it is: {reason}"):
        check_newer(ROW, new)


def test_the_id_of_a_forgotten_replica_is_never_given_again() -> None:
    old = replace(ROW, members=(ONE, THREE), in_sync=(1,), last_replica_id=3)
    with pytest.raises(IllegalOperation, match="replica id 2 was given already, and is never given again"):
        check_newer(old, replace(old, members=(ONE, TWO, THREE)))
    check_newer(old, replace(old, members=(ONE, replace(TWO, replica_id=4)), last_replica_id=4))


def test_a_write_without_an_answer_is_found_again_only_if_it_is_the_newest() -> None:
    new = replace(ROW, copies=3)
    stored = stored_row(ROW, new, 4, register_id=9, n_rows=1)
    assert was_written(new, 4, stored)
    assert not was_written(new, 4, ROW)
    assert not was_written(new, 4, None)
    assert not was_written(new, 4, replace(stored, version=6))
    assert not was_written(new, 4, replace(stored, version=6, epoch=9, stopped_epoch=8))
    settled = replace(ROW, epoch=4, master=2, stopped_epoch=3)
    of_earlier_version = replace(stored_row(ROW, settled, 4, register_id=9, n_rows=1), stopped_epoch=0)
    assert was_written(settled, 4, of_earlier_version)
    first = stored_row(None, replace(ROW, register_id=0, version=0), 0, register_id=5, n_rows=0)
    assert was_written(replace(ROW, register_id=0, version=0), 0, first)


def test_a_row_of_an_earlier_version_does_not_say_whether_the_masters_before_have_stopped() -> None:
    fields = wire_of(replace(ROW, stopped_epoch=2))
    assert ReplicaSet.from_wire(msgpack.packb(fields)).has_settled
    del fields["stopped_epoch"]
    row = ReplicaSet.from_wire(msgpack.packb(fields))
    assert (row.stopped_epoch, row.has_settled) == (0, False)
    check_newer(replace(ROW, stopped_epoch=2), row)


def test_a_row_is_one_line_of_text() -> None:
    assert str(ROW) == "set broker-a version 4: epoch 3, master 1, in sync 1, 2"
    assert str(replace(ROW, master=NO_MASTER, in_sync=())) == "set broker-a version 4: epoch 3, no master, in sync none"
