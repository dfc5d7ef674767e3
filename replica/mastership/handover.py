"""A handover: the master stops to take requests, waits until another replica has everything, and makes it the master.

    refuse new requests; wait until every replica in sync has all that is stored
    begin a segment, so that the new master scans next to nothing, unless the disk takes none; wait again
    compare-and-set: epoch + 1, the other one is the master         from here on this one is deposed
    send the row to the other replicas, refuse with the address of the new master, stop

Until the compare-and-set the handover can be abandoned, and the master continues to serve. While the outcome of the
compare-and-set is not known the master refuses requests, because another replica may be the master already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from broker.store.disk.errors import StoreError
from model.errors import NotMaster, ReplicationTimeout, RlabError
from model.replica_set import ReplicaSet
from replica.membership import Membership
from replica.sets import ReplicaNotInSync, handed_over

logger = logging.getLogger(__name__)


class HandingOver(Protocol):
    """The parts of a master that a handover needs: its sender and its log."""

    def refuse(self, error: RlabError | None) -> None:
        """Refuse all new requests with an error; None serves them again."""

    async def wait_committed(self, timeout_s: float) -> None:
        """Wait until every replica in sync has all that was stored before. Raises TimeoutError."""

    def announce_handover(self, row: ReplicaSet) -> None:
        """Send the new row to the replicas that are connected."""

    def targets(self) -> list[int]:
        """The replicas that are connected and in sync."""


async def hand_over(
    master: HandingOver,
    membership: Membership,
    to: int,
    *,
    begin_segment: Callable[[], None],
    timeout_s: float,
    leaves: bool = False,
) -> ReplicaSet:
    """Hand the mastership to replica `to`, or with 0 to one of those that are in sync; returns the new row.

    One that `leaves`, because its process ends, is not in sync afterwards.

    Raises:
        SetRefusal: the other one cannot take over without loss, or this one is no longer the master.
        ReplicationTimeout: the others did not get everything in `timeout_s`; the master serves on.

    Cancellation: the master serves on, or is deposed already.
    """
    row = membership.row
    epoch, own_id = row.epoch, membership.replica_id
    target = to or min(master.targets(), default=0)
    if not target:
        raise ReplicaNotInSync(
            f"no other replica of set {row.name} is connected and in sync: wait until one has caught up"
        )
    handed_over(row, target, by=own_id, epoch=epoch, leaves=leaves)  # refused before anybody has to wait
    if target not in master.targets():
        raise ReplicaNotInSync(f"replica {target} of set {row.name} is not connected to the master: start it, or wait")
    master.refuse(NotMaster(f"{row.name} hands over to replica {target}: try again", "", epoch))
    try:
        await master.wait_committed(timeout_s)
        try:
            begin_segment()
        except StoreError as error:
            logger.warning("%s: replica %d hands over without a new segment: %s", row.name, own_id, error)
        await master.wait_committed(timeout_s)
    except BaseException as error:  # a cancellation too: nothing is handed over yet, so this master serves on
        master.refuse(None)
        if isinstance(error, TimeoutError):
            raise ReplicationTimeout(
                f"the replicas of {row.name} did not get everything within {timeout_s:g} s, so replica {own_id} serves "
                f"on: see 'rlab broker replicas {row.name}'"
            ) from None
        raise
    try:
        new = await membership.change(lambda now: handed_over(now, target, by=own_id, epoch=epoch, leaves=leaves))
    except RlabError:
        # Refused: this handover was certainly not made. A cancellation leaves it open, and then nothing is served.
        if (membership.row.master, membership.row.epoch) == (own_id, epoch):
            master.refuse(None)
        raise
    master.refuse(NotMaster(f"replica {target} is the master now", new.master_address or "", new.epoch))
    master.announce_handover(new)
    logger.warning("%s: replica %d has handed over to replica %d, epoch %d", row.name, own_id, target, new.epoch)
    return new
