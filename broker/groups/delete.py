"""DELETE_SUBSCRIPTIONGROUP: forget a group, so that it holds back nothing any more.

RocketMQ: AdminBrokerProcessor.deleteSubscriptionGroup, which deletes the settings of a group even while it consumes,
and its offsets only if asked. Here it is refused while there are members: they would go on, commit, and be a group
again with half of its past gone.
"""

from __future__ import annotations

import logging

from broker.broker import Broker
from model.errors import GroupNotExist, IllegalOperation, RlabError
from model.names import check_group, retry_topic
from remoting.command import Command
from remoting.connection import Connection
from remoting.server import Handler
from remoting.wire.request_code import RequestCode

logger = logging.getLogger(__name__)

_SHOWN_MEMBERS = 5


class DeleteGroupHandler:
    """Deletes groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def handlers(self) -> dict[RequestCode, Handler]:
        """Request code -> handler."""
        return {RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete}

    def delete(self, connection: Connection, request: Command) -> None:
        """Delete a group with its offsets and its retry topic; its dead letters stay. Answered once that is stored."""
        broker, group = self._broker, check_group(request.header["group"])
        info = broker.groups.get(group)
        if info is None and not broker.offsets.of_group(group) and not broker.assignments.modes_of(group):
            raise GroupNotExist(f"group {group!r} is not known to broker {broker.config.name!r}")
        if info is not None and info.members:
            names = sorted(info.members)
            more = f" and {len(names) - _SHOWN_MEMBERS} more" if len(names) > _SHOWN_MEMBERS else ""
            raise IllegalOperation(
                f"group {group!r} has members on broker {broker.config.name!r}: {', '.join(names[:_SHOWN_MEMBERS])}"
                f"{more}; stop them first. One that was killed is a member until its session or the grace after a "
                "restart is over"
            )
        broker.groups.delete(group)
        broker.offsets.delete_group(group)
        broker.locks.forget_group(group)
        broker.pops.forget_group(group)
        broker.features.group_deleted(group, request.header.get("cause") or "")
        broker.metadata.delete_group(group)
        broker.request_modes.delete_group(group, broker.assignments.delete(group))
        if broker.topics.get(retry_topic(group)) is not None:
            # Whoever uses the name next must not get what this group has failed on.
            broker.delete_topic(retry_topic(group), request.header.get("cause") or "")
        logger.info("broker %s: group %r was deleted", broker.config.name, group)

        def answer(failure: RlabError | None) -> None:
            if failure is None:
                connection.respond(request)
            else:
                connection.respond_error(request, failure)

        broker.barrier.after_commit(answer)
