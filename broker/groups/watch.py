"""Says what is wrong with a group as soon as it is: in an event, in the broker's log, and to the members themselves.

Members hear of it with the answers to their heartbeats, and log it (`client/instance/heartbeats.py`). Everything is
said once for each change, and not once for each heartbeat; so it names those who were on each side at that moment.
"""

from __future__ import annotations

import logging

from broker.groups.group import ConsumerGroupInfo, Member
from model.errors import ClientIdConflict
from model.event_log import EventLog
from model.events import EventKind
from model.group_agreement import describe, disagreements

logger = logging.getLogger(__name__)

_REMEDY = "give one of the two another instance_name (or none, for a random one), or another client_ip"


class GroupWatch:
    """The reports of one broker.

    Args:
        broker_name: its name.
        events: where they go.
    """

    def __init__(self, broker_name: str, events: EventLog) -> None:
        self._broker_name = broker_name
        self._events = events

    def report_disagreement(self, info: ConsumerGroupInfo, cause: str) -> None:
        """Report when what the members disagree in has changed; costs next to nothing when it has not."""
        split = info.settings.split()
        if split == info.split:
            return
        info.split = split
        members = {key: member.data for key, member in info.members.items()}
        info.disagreement = describe(disagreements(members)) if split else ""
        if split:
            logger.warning("members of group %s disagree: %s", info.group, info.disagreement)
        else:
            logger.info("members of group %s agree again", info.group)
        self._events.emit(
            EventKind.GROUP_INCONSISTENT,
            cause=cause,
            group=info.group,
            broker=self._broker_name,
            version=info.version,
            n=len(split),
            detail=info.disagreement or "agreed",
        )

    def refuse(
        self, group: str, member: Member, member_at: str, *, epoch: str, newcomer_at: str, cause: str, now: float
    ) -> ClientIdConflict:
        """Report a second process with the client id of a live member.

        Args:
            group: the group.
            member: who has the id.
            member_at: its address.
            epoch: which run of a client the newcomer is; one that comes again is not reported again.
            newcomer_at: its address.
            cause: id of the root trigger.
            now: loop time in seconds.

        Returns:
            What the newcomer is told.
        """
        client_id = member.client_id
        if member.rival != epoch:
            member.rival = epoch
            member.warning = (
                f"another process, at {newcomer_at}, came with our client id {client_id!r} and was refused: {_REMEDY}"
            )
            logger.warning(
                "group %s: %s has the client id %s of the member at %s and is refused: %s",
                *(group, newcomer_at, client_id, member_at, _REMEDY),
            )
            self._events.emit(
                EventKind.CLIENT_ID_CONFLICT,
                cause=cause,
                group=group,
                broker=self._broker_name,
                client=client_id,
                detail=newcomer_at,
            )
        return ClientIdConflict(
            f"client id {client_id!r} is taken: a live member of group {group!r}, at {member_at}, has it: {_REMEDY}. "
            f"If that process is dead, the id is free in {max(0.0, member.expires_at - now):.0f} s at the latest, when "
            "its session ends"
        )

    @staticmethod
    def warnings(info: ConsumerGroupInfo, member: Member) -> list[str]:
        """What a member has to be told with the answer to its heartbeat; bounded, and the same until it changes."""
        found = [f"members of group {info.group} disagree: {info.disagreement}"] if info.disagreement else []
        return [*found, member.warning] if member.warning else found
