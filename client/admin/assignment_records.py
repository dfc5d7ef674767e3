"""What `Admin` returns about groups whose queues a broker shares out; read from the answers of brokers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from model.assignment import ALL_QUEUES, MemberShare, RequestMode
from model.message_queue import MessageQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicModeInfo:
    """How a group gets messages of a topic, if it leaves that to the broker.

    Attributes:
        pop_share_queue_num: for POP: members pop their own share and those of so many others; 0 or less for all.
    """

    topic: str
    mode: RequestMode
    pop_share_queue_num: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInfo:
    """The newest assignment of a group that any broker knows of.

    Attributes:
        coordinator: name of the broker that made it, "" if there is none.
        version: of it, 0 if there is none.
        shares: client id -> what it should have.
        modes: what was set for topics of the group, sorted.
    """

    coordinator: str
    version: int
    shares: Mapping[str, MemberShare]
    modes: tuple[TopicModeInfo, ...]

    def targets(self) -> dict[MessageQueue, str]:
        """Who should have each queue that is pulled."""
        return {
            queue: client_id
            for client_id, share in self.shares.items()
            for queue in share.queues
            if queue.topic not in share.popped and queue.queue_id != ALL_QUEUES
        }

    @property
    def popped(self) -> frozenset[str]:
        """Topics that members pop according to it."""
        return frozenset(topic for share in self.shares.values() for topic in share.popped)


NO_ASSIGNMENT = AssignmentInfo(coordinator="", version=0, shares={}, modes=())


def newest_assignment(answers: Iterable[tuple[str, int, Any]]) -> AssignmentInfo:
    """Choose among what brokers say.

    Args:
        answers: broker name, version and body of each that knows the group.
    """
    newest = NO_ASSIGNMENT
    modes: dict[str, TopicModeInfo] = {}
    for name, version, (rows, set_modes) in answers:
        for topic, mode, share in set_modes:
            modes[topic] = TopicModeInfo(topic=topic, mode=RequestMode(mode), pop_share_queue_num=share)
        if version > newest.version:
            shares = {client_id: MemberShare.from_wire(version, share) for client_id, *share in rows}
            newest = AssignmentInfo(coordinator=name, version=version, shares=shares, modes=())
    return AssignmentInfo(
        coordinator=newest.coordinator,
        version=newest.version,
        shares=newest.shares,
        modes=tuple(modes[topic] for topic in sorted(modes)),
    )
