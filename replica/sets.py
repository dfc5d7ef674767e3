"""The decisions about a set of replicas: what each change makes of its row, or why it is refused. Pure.

Each function takes the row that was read from the register and returns the row to write with its version. The
compare-and-set of the register makes the change; if another replica was faster, read and decide again.

    create          the first replica of a set is its master, in epoch 1
    joined          a new member, with an id of its own; it is not in sync
    started         one more start of a member: a higher incarnation, and a higher epoch if it is the master
    in_sync_with    the master has waited for a replica, and counts it as in sync from now on
    removed_from_in_sync   the master no longer waits for a replica, or a replica withdraws
    handed_over     the master makes a replica in sync the master
    elected         an operator makes a replica the master, because the master does not return
    begun           that replica has waited until the master before it has certainly stopped
    forgotten       a member that will not return
    with_options    the wanted number of copies, and what acknowledgements wait for

Invariants, for any sequence of them: see `model/replica_set.py`. Only the master of the current epoch adds to
`in_sync`, because only that replica knows which messages it has acknowledged; so a replica in `in_sync` has all of
them.

    >>> row, replica_id = joined(create("broker-a", "h1:1", set_id=7), "h2:1")
    >>> row = in_sync_with(started(row, replica_id, "h2:1"), 2, by=1, epoch=1, incarnation=1)
    >>> handed_over(row, 2, by=1, epoch=1).master
    2
"""

from __future__ import annotations

from dataclasses import replace

from model.counted import plural
from model.errors import IllegalOperation
from model.replica_limits import MAX_REPLICAS
from model.replica_set import NO_MASTER, Acks, Replica, ReplicaSet


class SetRefusal(IllegalOperation):
    """A change of a set that is refused; the class is the reason, and the row stays as it is."""


class UnknownReplica(SetRefusal):
    """No member of the set has this replica id: it was forgotten, or belongs to another set."""


class DeposedMaster(SetRefusal):
    """The replica that decides this is not the master of the current epoch."""


class ReplicaNotInSync(SetRefusal):
    """The replica may lack acknowledged messages."""


class ReplicaRestarted(SetRefusal):
    """Another process of this replica has started since."""


class MasterAnswers(SetRefusal):
    """The master of the set answers, so it can hand over without loss."""


class AlreadyMaster(SetRefusal):
    """The replica is the master."""


class ReplicaNeeded(SetRefusal):
    """The set relies on the replica: it is the master, or in sync."""


class AddressTaken(SetRefusal):
    """Another member of the set has this address."""


class LeaseInUse(SetRefusal):
    """Replicas rely on the length of the lease as it is."""


class SetFull(SetRefusal):
    """The set has as many members as a set may have."""


def create(
    name: str, address: str, *, set_id: int, copies: int = 1, min_in_sync: int = 1, acks: Acks = Acks.ALL
) -> ReplicaSet:
    """The first row of a set, to be written with version 0; the caller is replica 1, and has started.

    `set_id` is a random number, which the caller has stored before. If the answer of the register is lost, the caller
    recognises its own set by this number.

    Raises:
        InvalidParameter: a name, a number or the address is not legal.
    """
    return ReplicaSet(
        name=name,
        set_id=set_id,
        epoch=1,
        master=1,
        in_sync=(1,),
        members=(Replica(replica_id=1, address=address, incarnation=1),),
        last_replica_id=1,
        copies=copies,
        min_in_sync=min_in_sync,
        acks=acks,
    )


def joined(row: ReplicaSet, address: str) -> tuple[ReplicaSet, int]:
    """Add a member; returns the row and the id of the new replica, which stores it and then starts.

    A member of this address that has never started is the same replica, whose answer was lost.

    Raises:
        AddressTaken: a member that has started has this address.
        SetFull: no more members fit.
        InvalidParameter: the address is not legal.
    """
    for member in row.members:
        if member.address == address and member.incarnation == 0:
            return row, member.replica_id
    replica_id = row.last_replica_id + 1
    _check_address(row, replica_id, address)
    if len(row.members) >= MAX_REPLICAS:
        raise SetFull(f"set {row.name} has {MAX_REPLICAS} replicas, the most it may have: forget one that is gone")
    member = Replica(replica_id=replica_id, address=address)
    return replace(row, members=(*row.members, member), last_replica_id=replica_id), replica_id


def started(
    row: ReplicaSet, replica_id: int, address: str, *, clean: bool = True, lease_ms: int | None = None
) -> ReplicaSet:
    """Record the start of a member, at this address; a master begins a new epoch.

    `lease_ms` is another length of the lease: only a master that starts can change it, because no other process serves
    by the old one then.

    Without `clean` its log may have lost acknowledged messages, by a power cut without flush=sync. If other replicas
    are in sync, they have these messages. Then this replica leaves the in-sync set; if it was the master, the set has
    no master until one of the others is elected.

    A master that was elected by an operator and starts before it has begun cannot count on the stop of the master
    before: `stopped_epoch` stays as it is, and it has to wait.

    Raises:
        UnknownReplica: the set has no such member.
        AddressTaken: another member has this address.
        LeaseInUse: the lease has another length, and the replica is not the master, or an earlier master may serve.
        InvalidParameter: the lease is too short or too long.
    """
    member = _member(row, replica_id)
    _check_address(row, replica_id, address)
    lease_ms = row.lease_ms if lease_ms is None else lease_ms
    if lease_ms != row.lease_ms and replica_id != row.master:
        raise LeaseInUse(
            f"the lease of set {row.name} is {row.lease_ms / 1000:g} s: only the start of its master can change it"
        )
    if lease_ms != row.lease_ms and not row.has_settled:
        raise LeaseInUse(
            f"the lease of set {row.name} is {row.lease_ms / 1000:g} s, and an earlier master may serve by it: start "
            "this one once with that lease, and then with another one"
        )
    changed = replace(member, address=address, incarnation=member.incarnation + 1)
    members = tuple(changed if each is member else each for each in row.members)
    is_master, others = row.master == replica_id, tuple(each for each in row.in_sync if each != replica_id)
    return replace(
        row,
        members=members,
        epoch=row.epoch + is_master,
        master=NO_MASTER if is_master and others and not clean else row.master,
        in_sync=row.in_sync if clean or not others else others,
        lease_ms=lease_ms,
        stopped_epoch=_stopped_with(row) if is_master else row.stopped_epoch,
    )


def in_sync_with(row: ReplicaSet, replica_id: int, *, by: int, epoch: int, incarnation: int) -> ReplicaSet:
    """Count a replica as in sync; the master `by`, of this epoch, waits for each of its acknowledgements already.

    `incarnation` is the one of the process that follows the master.

    Raises:
        DeposedMaster: the caller is not the master of this epoch.
        UnknownReplica: the set has no such member.
        ReplicaRestarted: the member has started again since; that process has to catch up first.
    """
    _check_master(row, by, epoch)
    member = _member(row, replica_id)
    if member.incarnation != incarnation:
        raise ReplicaRestarted(
            f"replica {replica_id} of set {row.name} has started {plural(member.incarnation, 'time')}, and this is "
            f"the process of start {incarnation}: two processes use one replica id, or this one is from a copied "
            "directory"
        )
    return replace(row, in_sync=tuple(sorted({*row.in_sync, replica_id})))


def removed_from_in_sync(row: ReplicaSet, replica_id: int, *, by: int, epoch: int) -> ReplicaSet:
    """Count a replica as not in sync; unchanged if it is not. The master removes others, a replica removes itself.

    Raises:
        DeposedMaster: the caller is neither the replica nor the master of this epoch.
        ReplicaNeeded: the replica is the master, or the only one in sync.
    """
    if by != replica_id:
        _check_master(row, by, epoch)
    if replica_id == row.master:
        raise ReplicaNeeded(f"replica {replica_id} is the master of set {row.name}: hand over first")
    left = tuple(each for each in row.in_sync if each != replica_id)
    if not left:
        raise ReplicaNeeded(f"no other replica of set {row.name} is in sync than {replica_id}")
    return replace(row, in_sync=left)


def handed_over(row: ReplicaSet, to: int, *, by: int, epoch: int, leaves: bool = False) -> ReplicaSet:
    """Make another replica the master; the old one has stopped acknowledging, and stays in sync.

    With `leaves` the old one leaves the in-sync set, because its process ends: the new master would wait for it.

    Raises:
        DeposedMaster: the caller is not the master of this epoch.
        AlreadyMaster: it hands over to itself.
        UnknownReplica, ReplicaNotInSync: the other one cannot take over without loss.
    """
    _check_master(row, by, epoch)
    if to == row.master:
        raise AlreadyMaster(f"replica {to} is the master of set {row.name}")
    _check_in_sync(row, to, "the master hands over only to a replica in sync")
    in_sync = tuple(each for each in row.in_sync if not (leaves and each == by))
    return replace(row, epoch=row.epoch + 1, master=to, in_sync=in_sync, stopped_epoch=row.epoch)


def elected(row: ReplicaSet, replica_id: int, *, accept_loss: bool, master_answers: bool) -> ReplicaSet:
    """Make a replica the master because an operator asks for it; the old master is no longer in sync.

    A replica that was not in sync becomes the only one in sync: others may have messages that it lacks, and cut them.
    The old master may still serve, so `stopped_epoch` stays lower than its epoch: the new one waits before it begins.

    Raises:
        UnknownReplica: the set has no such member.
        AlreadyMaster: it is the master.
        ReplicaNotInSync: it may lack acknowledged messages, and `accept_loss` is not set.
        MasterAnswers: the master is there, and `accept_loss` is not set.
    """
    _member(row, replica_id)
    if replica_id == row.master:
        raise AlreadyMaster(f"replica {replica_id} is the master of set {row.name}: it serves as soon as it runs")
    if not accept_loss:
        _check_in_sync(row, replica_id, "elect one that is, or accept the loss with --accept-loss")
        if master_answers and row.master != NO_MASTER:
            raise MasterAnswers(
                f"the master of set {row.name}, replica {row.master} at {row.master_address}, answers: hand over "
                "instead, which loses nothing, or accept a loss with --accept-loss"
            )
    kept = [each for each in row.in_sync if each != row.master] if replica_id in row.in_sync else [replica_id]
    stopped_epoch = _stopped_with(row) if row.master == NO_MASTER else row.stopped_epoch
    return replace(row, epoch=row.epoch + 1, master=replica_id, in_sync=tuple(kept), stopped_epoch=stopped_epoch)


def begun(row: ReplicaSet, replica_id: int, *, epoch: int) -> ReplicaSet:
    """Record that earlier masters no longer serve: the master of this epoch has waited for that, and begins.

    Returns the row unchanged if the replica is not the master of this epoch: another change was faster.
    """
    return replace(row, stopped_epoch=epoch - 1) if (row.master, row.epoch) == (replica_id, epoch) else row


def took_over(row: ReplicaSet, replica_id: int, *, epoch: int, accept_loss: bool = False) -> ReplicaSet:
    """Make a replica in sync the master, because the master of an epoch no longer serves.

    Returns the row unchanged if the epoch is over, or the replica has left the in-sync set: another change was faster.
    `accept_loss` allows a replica that is not in sync, for the quirk ELECT_OUT_OF_SYNC.
    """
    may = replica_id in row.in_sync or (accept_loss and row.member(replica_id) is not None)
    if row.epoch != epoch or replica_id == row.master or not may:
        return row
    changed = elected(row, replica_id, accept_loss=accept_loss, master_answers=False)
    return replace(changed, stopped_epoch=epoch)


def forgotten(row: ReplicaSet, replica_id: int) -> ReplicaSet:
    """Remove a member that will not return; its id is never given again.

    Raises:
        UnknownReplica: the set has no such member.
        ReplicaNeeded: it is the master, or in sync.
    """
    member = _member(row, replica_id)
    if replica_id == row.master:
        raise ReplicaNeeded(f"replica {replica_id} is the master of set {row.name}: hand over, or elect another one")
    if replica_id in row.in_sync:
        raise ReplicaNeeded(
            f"replica {replica_id} of set {row.name} is in sync: stop it, and the master removes it within seconds"
        )
    return replace(row, members=tuple(each for each in row.members if each is not member))


def with_options(
    row: ReplicaSet, *, copies: int | None = None, min_in_sync: int | None = None, acks: Acks | None = None
) -> ReplicaSet:
    """Change the options of a set; None leaves one as it is.

    Raises:
        InvalidParameter: a number is out of its range; min_in_sync is at most copies.
    """
    return replace(
        row,
        copies=row.copies if copies is None else copies,
        min_in_sync=row.min_in_sync if min_in_sync is None else min_in_sync,
        acks=row.acks if acks is None else acks,
    )


def _stopped_with(row: ReplicaSet) -> int:
    """The `stopped_epoch` of the next row, when the master of this one has stopped, or this one has no master."""
    return row.epoch if row.has_settled else row.stopped_epoch


def _member(row: ReplicaSet, replica_id: int) -> Replica:
    member = row.member(replica_id)
    if member is None:
        ids = ", ".join(str(each.replica_id) for each in row.members)
        raise UnknownReplica(
            f"set {row.name} has no replica {replica_id}, only {ids}; a replica that was forgotten can only join again "
            "as a new one, with an empty directory"
        )
    return member


def _check_master(row: ReplicaSet, by: int, epoch: int) -> None:
    if (by, epoch) != (row.master, row.epoch):
        master = "it has no master" if row.master == NO_MASTER else f"replica {row.master} is the master"
        raise DeposedMaster(
            f"replica {by} is not the master of set {row.name} in epoch {epoch}: the epoch is {row.epoch}, and {master}"
        )


def _check_in_sync(row: ReplicaSet, replica_id: int, advice: str) -> None:
    _member(row, replica_id)
    if replica_id not in row.in_sync:
        in_sync = ", ".join(map(str, row.in_sync))
        raise ReplicaNotInSync(
            f"replica {replica_id} of set {row.name} is not in sync ({in_sync} is) and may lack messages: {advice}"
        )


def _check_address(row: ReplicaSet, replica_id: int, address: str) -> None:
    for member in row.members:
        if member.address == address and member.replica_id != replica_id:
            raise AddressTaken(
                f"replica {member.replica_id} of set {row.name} has the address {address}: forget that replica if it "
                "is gone, or use another address"
            )
