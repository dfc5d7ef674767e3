"""Reports groups whose members disagree, and client ids that two processes use.

A report is an event, a line in the broker's log, and a warning in the answers to the members' heartbeats, which they
log (`client/instance/heartbeats.py`). It is made once for each change, and not once for each heartbeat; so it names the
members that were on each side at that moment. If a group changes all the time, reports are limited to a number per
minute; the first heartbeat after that minute reports the state that the group has then.
"""

from __future__ import annotations

import logging

from broker.feature import Core
from broker.groups.group import ConsumerGroupInfo, Member
from model.errors import ClientIdConflict
from model.events import EventKind
from model.group_agreement import describe, disagreements
from model.log_lines import LogLines

logger = logging.getLogger(__name__)

_REMEDY = "give one of the two another instance_name (or none, for a random one), or another client_ip"


class GroupWatch:
    """The reports of one broker."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._conflicts = LogLines()

    def report_disagreement(self, info: ConsumerGroupInfo, cause: str) -> None:
        """Report a change of the settings that the members disagree in; costs next to nothing without a change."""
        split = info.settings.split()
        if split == info.split or not info.reports.has_room(now := self._core.loop.time()):
            return
        info.split = split
        members = {key: member.data for key, member in info.members.items()}
        info.disagreement = describe(disagreements(members)) if split else ""
        if split:
            info.reports.warning(logger, now, "members of group %s disagree: %s", info.group, info.disagreement)
        else:
            info.reports.info(logger, now, "members of group %s agree again", info.group)
        self._core.emit(
            EventKind.GROUP_INCONSISTENT,
            cause=cause,
            group=info.group,
            version=info.version,
            n=len(split),
            detail=info.disagreement or "agreed",
        )

    def refuse(
        self, group: str, member: Member, member_at: str, *, run_id: str, refused_at: str, cause: str, now: float
    ) -> ClientIdConflict:
        """Report a second process with the client id of a live member, once for each run id; returns its error."""
        client_id = member.client_id
        if member.conflicting_run_id != run_id:
            member.conflicting_run_id = run_id
            member.warning = (
                f"another process, at {refused_at}, came with our client id {client_id!r} and was refused: {_REMEDY}"
            )
            text = "group %s: %s has the client id %s of the member at %s and is refused: %s"
            if self._conflicts.warning(logger, now, text, group, refused_at, client_id, member_at, _REMEDY):
                self._core.emit(
                    EventKind.CLIENT_ID_CONFLICT, cause=cause, group=group, client=client_id, detail=refused_at
                )
        return ClientIdConflict(
            f"client id {client_id!r} is taken: a live member of group {group!r}, at {member_at}, has it: {_REMEDY}. "
            f"If that process is dead, the id is free within {max(0.0, member.expires_at - now):.0f} s, when its "
            "session ends"
        )

    @staticmethod
    def warnings(info: ConsumerGroupInfo, member: Member) -> list[str]:
        """Warnings for the answer to a member's heartbeat; bounded, and the same until something changes."""
        warnings = [f"members of group {info.group} disagree: {info.disagreement}"] if info.disagreement else []
        return [*warnings, member.warning] if member.warning else warnings
