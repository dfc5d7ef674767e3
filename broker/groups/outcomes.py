"""Outcomes of changes of the group table: of a heartbeat, and a member that left. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from broker.groups.group import ConsumerGroupInfo, Member


class LeaveReason(StrEnum):
    """Reason for which a broker removes a member."""

    UNREGISTER = "unregister"
    CLOSE = "close"
    EXPIRY = "expiry"
    RIGHT = "right"  # its user has lost the right to the group or to a topic that it subscribes to


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatOutcome:
    """Effect of a heartbeat on one group."""

    group: ConsumerGroupInfo
    member: Member
    joined: bool  # the member is new
    resubscribed: bool  # the member is not new, and changed its topics or the expression of a topic
    data_changed: bool  # the member's data or run id differs from the stored one, and has to be stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """A member that left."""

    group: ConsumerGroupInfo
    member: Member
    reason: LeaveReason
