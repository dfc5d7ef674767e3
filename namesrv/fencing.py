"""Decides whether a broker may register under a name, which belongs to one data directory or set of replicas. Pure.

    broker-a runs at h1 with data directory 7      from h2 with data directory 8      refused: BrokerNameTaken
    set 5: epoch 2, master at h1                   set 5, epoch 3, from h2            accepted: h2 is the master now
                                                   set 5, epoch 1, from h3            refused: NotMaster, with h1 and 2
                                                   set 6, from h4                     refused: BrokerNameTaken

The epoch of a set is remembered after its brokers have gone. So a master that was suspended during an election is
refused even while the new master is away. This is not the only protection, because a name server that has restarted
does not know the epoch: the replicas and the register of the set also refuse such a master.

RocketMQ: RouteInfoManager.registerBroker, which refuses an older stateVersion.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from model.errors import BrokerNameTaken, NotMaster, StaleRegistration
from model.topic_route import MASTER_ID
from namesrv.registration import BrokerRegistration


class LastMaster(NamedTuple):
    """The mastership of a set that registered last."""

    set_id: int
    epoch: int
    address: str


class LastMasters:
    """The last mastership of each set by broker name, also of sets without a registered broker."""

    def __init__(self, max_names: int) -> None:
        self._max_names = max_names
        self._of: dict[str, LastMaster] = {}  # the latest is last

    def of(self, broker_name: str) -> LastMaster | None:
        """The last mastership under a name; None if its last master had no set, or is not known."""
        return self._of.get(broker_name)

    def record(self, master: BrokerRegistration, registered: Container[str]) -> None:
        """Record a registered master. Beyond the bound, forget the oldest name that is not in `registered`."""
        self._of.pop(master.broker_name, None)
        if master.set_id:
            self._of[master.broker_name] = LastMaster(master.set_id, master.epoch, master.address)
            if len(self._of) > self._max_names:
                self.forget(next((name for name in self._of if name not in registered), master.broker_name))

    def forget(self, broker_name: str) -> None:
        """Forget the mastership under a name; harmless if there is none."""
        self._of.pop(broker_name, None)


def check_claim(new: BrokerRegistration, live: Iterable[BrokerRegistration], last: LastMaster | None) -> None:
    """Check a registration against the live ones of the same broker name, and the last mastership of its set.

    Raises:
        BrokerNameTaken: another broker or another set has the name, or another data directory the same replica id.
        NotMaster: a later mastership of the set has registered.
        StaleRegistration: the same broker is live with a newer version.
    """
    holder: BrokerRegistration | None = None
    for other in live:
        if other.key == new.key:
            holder = other
        if new.set_id != other.set_id and not _are_one_broker(new, other):
            other_text = "a broker without a set" if not other.set_id else "a broker of another set of replicas"
            raise BrokerNameTaken(
                f"{other_text} named {new.broker_name!r} runs at {other.address}, so {new.address} cannot have that "
                "name: rename one of them, or stop one"
            )
    is_of_last = last is not None and last.set_id == new.set_id and new.broker_id == MASTER_ID
    if last is not None and is_of_last and new.epoch < last.epoch:
        raise NotMaster(
            f"broker {new.broker_name!r} at {new.address} is no longer the master: its epoch {new.epoch} ended with "
            f"epoch {last.epoch}, whose master is {last.address}",
            last.address,
            last.epoch,
        )
    if holder is None or (new.broker_id == MASTER_ID and new.set_id and new.epoch > holder.epoch):
        return
    if holder.address != new.address and 0 != holder.data_id != new.data_id != 0:
        raise BrokerNameTaken(
            f"a broker named {new.broker_name!r} with id {new.broker_id} runs at {holder.address}, "
            f"with another data directory than the one at {new.address}: rename one of them, or stop one"
        )
    if new.version < holder.version:
        raise StaleRegistration(
            f"broker {new.broker_name!r} id {new.broker_id} is registered with version {holder.version} from "
            f"{holder.address}, newer than {new.version} from {new.address}: give two brokers two names, or wait until "
            "the other one expires"
        )


def _are_one_broker(new: BrokerRegistration, other: BrokerRegistration) -> bool:
    """Whether two registrations, of which one belongs to a set, are of one broker that has joined or left the set."""
    return not (new.set_id and other.set_id) and (new.address == other.address or 0 != new.data_id == other.data_id)
