"""DELETE_SUBSCRIPTIONGROUP: forget a group, so that it holds back nothing any more.

RocketMQ: AdminBrokerProcessor.deleteSubscriptionGroup, which deletes the settings of a group even while it consumes,
and its offsets only if asked. Here it is refused while there are members: they would go on, commit, and be a group
again with half of its past gone.
"""

from __future__ import annotations

import logging

from broker.feature import Core, Feature
from broker.groups.members import Groups
from broker.topics.service import Topics
from model.errors import GroupNotExist, IllegalOperation
from model.names import check_group, retry_topic
from remoting.command import Command
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler

logger = logging.getLogger(__name__)

_SHOWN_MEMBERS = 5


class DeleteGroupHandler(Feature):
    """Deletes groups."""

    def __init__(self, core: Core, topics: Topics, groups: Groups) -> None:
        self._core = core
        self._topics = topics
        self._groups = groups

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete}

    def delete(self, connection: Connection, request: Command) -> None:
        """Delete a group with its offsets and its retry topic; its dead-letter messages stay. Answered once stored."""
        core, group, cause = self._core, check_group(request.header["group"]), request.header.get("cause") or ""
        if not core.features.knows_group(group):
            raise GroupNotExist(f"group {group!r} is not known to broker {core.name!r}")
        info = self._groups.table.get(group)
        if info is not None and info.members:
            names = sorted(info.members)
            more = f" and {len(names) - _SHOWN_MEMBERS} more" if len(names) > _SHOWN_MEMBERS else ""
            raise IllegalOperation(
                f"group {group!r} has members on broker {core.name!r}: {', '.join(names[:_SHOWN_MEMBERS])}"
                f"{more}; stop them first. One that was killed is a member until its session or the grace after a "
                "restart is over"
            )
        core.features.group_deleted(group, cause)
        if self._topics.table.get(retry_topic(group)) is not None:
            # The next group of this name must not get what this one has failed on.
            self._topics.delete(retry_topic(group), cause)
        logger.info("broker %s: group %r was deleted", core.name, group)
        core.barrier.respond_after_commit(connection, request)
