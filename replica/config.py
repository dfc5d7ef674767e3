"""The options of one replica of a broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.config import BrokerConfig
from model.errors import ConfigError
from model.replica_limits import SET_GRACE_S, SET_SESSION_S
from model.replica_set import Acks, Elect
from replica.lease.clocks import boot_clock
from replica.register import Register

HANDOVER_TIMEOUT_S = 3.0
"""How long a handover may wait for the acknowledgements of the others: more than a replica may hold a send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """Options of one replica; see `rlab broker --help` for the same list.

    Attributes:
        broker: options of the broker that this replica is while it is the master.
        register: where the row of the set is.
        makes: whether the set is made if the register has none of this name; else a new directory joins the set.
        copies: how many replicas the set should have, the master counted; None leaves it as it is, as the next two.
        acks: whether an answer waits for every replica in sync, or for the master alone.
        min_in_sync: how many replicas have to be in sync for a send to be accepted.
        handover_timeout_s: how long a handover may take; a master that is stopped waits no longer either.
        lease_s: how long a master may serve without a confirmation of the others, in seconds; None leaves it as it is,
            and only the start of a master can change it.
        lease_clock: seconds of a clock that no user can set, and that goes on while the machine sleeps.
        elect: when this replica makes itself the master.

    Raises:
        ConfigError: a handover has no time, or members keep their queues for too short a time at a new master.
    """

    broker: BrokerConfig
    register: Register
    makes: bool = False
    copies: int | None = None
    acks: Acks | None = None
    min_in_sync: int | None = None
    handover_timeout_s: float = HANDOVER_TIMEOUT_S
    lease_s: float | None = None
    lease_clock: Callable[[], float] = boot_clock
    elect: Elect = Elect.AUTO

    def __post_init__(self) -> None:
        if self.handover_timeout_s <= 0:
            raise ConfigError(f"handover_timeout_s must be positive, got {self.handover_timeout_s}")
        if self.broker.restore_grace_s < SET_GRACE_S:
            raise ConfigError(
                f"restore_grace_s is {self.broker.restore_grace_s:g}, and the broker has copies: a member may dispatch "
                f"for {SET_SESSION_S:g} s after its master was replaced, so at least {SET_GRACE_S:g} s are needed"
            )
