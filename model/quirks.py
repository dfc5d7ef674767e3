"""Defects of RocketMQ that can be switched on by name, so that people can study what its users saw.

Without a quirk the behaviour is correct. Each quirk is one small `if` in the code that it changes; search for its name
to find it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from model.errors import ConfigError


class Quirk(StrEnum):
    """A behaviour of RocketMQ that users suffer from."""

    SILENT_EXPIRY = "SILENT_EXPIRY"
    """An expired member is removed without a notification: the others find out in their next pass, up to 20 s later."""
    LOCKS_SURVIVE_CLOSE = "LOCKS_SURVIVE_CLOSE"
    """A dead member's queue leases are not released with its connection: they block the queues until they expire."""
    RANDOM_VIEW = "RANDOM_VIEW"
    """Each member asks one random broker for the member list: the lists differ, queues have two owners or none."""
    NOTIFY_WITHOUT_VERSION = "NOTIFY_WITHOUT_VERSION"
    """A notification does not carry the group version: each one sets off a pass."""
    OFFSETS_GO_BACK = "OFFSETS_GO_BACK"
    """A commit below the stored offset is accepted, and any member may commit any queue."""
    OVERLAPPING_HANDOVER = "OVERLAPPING_HANDOVER"
    """No lease: the new owner starts while the old one still consumes, and both may see the same messages."""
    UNSUBSCRIBE_STRANDS = "UNSUBSCRIBE_STRANDS"
    """An unsubscribe notifies no member: no member reads the queues of that topic that were assigned to this one."""
    DUPLICATE_MEMBERS = "DUPLICATE_MEMBERS"
    """Members are listed by connection: two processes with one client id are both members, and own the same queues."""
    GROUP_WIDE_SUBSCRIPTION = "GROUP_WIDE_SUBSCRIPTION"
    """One table of topics per group, replaced by each heartbeat: members with different topics change it for ever."""
    ACK_BEFORE_REPLICATED = "ACK_BEFORE_REPLICATED"
    """The master answers before other replicas have the message, whatever `--acks` demands (inSyncReplicas=1)."""
    ACK_WITHOUT_IDENTITY = "ACK_WITHOUT_IDENTITY"
    """An acknowledgement of one replica counts for all: the HA protocol does not say who has acknowledged."""
    ELECT_OUT_OF_SYNC = "ELECT_OUT_OF_SYNC"
    """A replica outside of the in-sync set makes itself the master (enableElectUncleanMaster)."""
    SLAVE_OFFSETS_GO_BACK = "SLAVE_OFFSETS_GO_BACK"
    """A replica polls the offsets of groups every 10 s: a new master has older offsets than the last one."""
    SLAVE_SYNC_DELETES_TOPICS = "SLAVE_SYNC_DELETES_TOPICS"
    """A replica that notices a changed topic deletes all topics, and has them again with its next poll."""


CLIENT_QUIRKS = frozenset({Quirk.RANDOM_VIEW, Quirk.UNSUBSCRIBE_STRANDS})
"""Quirks of clients; the others are quirks of brokers."""
SET_QUIRKS = frozenset(
    {
        Quirk.ACK_BEFORE_REPLICATED,
        Quirk.ACK_WITHOUT_IDENTITY,
        Quirk.ELECT_OUT_OF_SYNC,
        Quirk.SLAVE_OFFSETS_GO_BACK,
        Quirk.SLAVE_SYNC_DELETES_TOPICS,
    }
)
"""Quirks of brokers with copies."""


def check_quirks(quirks: Iterable[Quirk], *, of_client: bool) -> None:
    """Refuse quirks of the other side, which would silently do nothing here.

    Raises:
        ConfigError: a quirk belongs to the other side; the message names the quirk and its side.
    """
    for quirk in sorted(quirks):
        if (quirk in CLIENT_QUIRKS) is not of_client:
            where = "clients: quirks= of ClientConfig" if quirk in CLIENT_QUIRKS else "brokers: quirks= of BrokerConfig"
            raise ConfigError(f"quirk {quirk} belongs to {where}, or --quirk of the command that starts one")
