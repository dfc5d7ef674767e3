"""AssignmentAdmin: groups whose queues a broker shares out. RocketMQ: SetConsumeModeSubCommand."""

from __future__ import annotations

from client.admin.assignment_records import AssignmentInfo, newest_assignment
from client.admin.requests import fail, unpack
from client.admin.topics import TopicAdmin
from model.assignment import ALL_QUEUES, RequestMode
from model.errors import InvalidParameter, RlabError
from model.names import check_group, check_topic, is_retry_topic
from remoting.wire.request_code import RequestCode


class AssignmentAdmin(TopicAdmin):
    """The part of `Admin` that is about assignment by a broker."""

    async def assignment(self, group: str) -> AssignmentInfo:
        """The newest assignment that a broker has made for a group, and what was set for its topics.

        Raises:
            InvalidParameter: an illegal name.
            ServiceNotAvailable: no broker is registered.
            ConnectFailed: no broker answers.
        """
        masters = await self._cluster.masters()
        header = {"group": check_group(group)}
        answers, _ = await self._cluster.ask_reachable(masters, RequestCode.GET_GROUP_ASSIGNMENT, header)
        return newest_assignment(
            (name, answer.header["version"], unpack(answer))
            for name, answer in sorted(answers.items())
            if not isinstance(answer, RlabError)
        )

    async def set_request_mode(
        self, group: str, topic: str, mode: RequestMode | str, *, pop_share_queue_num: int = ALL_QUEUES
    ) -> None:
        """Let the members of a group pull or pop a topic from now on, also while they consume.

        It counts for members with `assignment="broker"`. Every broker is told, for each may have to share out.

        Args:
            group: the group, which may have no members yet.
            topic: the topic, no retry topic.
            mode: `PULL` or `POP`.
            pop_share_queue_num: for POP, see `client/admin/assignment_records.py`.

        Raises:
            InvalidParameter: an illegal name or mode.
            IllegalOperation: a retry topic.
            TopicNotExist: no broker serves the topic.
            RlabError: a broker refused or could not be reached; others may have taken it. Safe to repeat.

        Cancellation: some brokers may have taken it.
        """
        if mode not in list(RequestMode):
            raise InvalidParameter(f"mode must be one of {', '.join(RequestMode)}, got {mode!r}")
        header = {
            "group": check_group(group),
            "topic": check_topic(topic),
            "mode": RequestMode(mode).value,
            "pop_share_queue_num": pop_share_queue_num,
        }
        if not is_retry_topic(topic):  # brokers say what is wrong with one
            await self.route(topic)  # brokers take any name: each is told of topics that only others have
        masters = await self._cluster.masters()
        answers = await self._cluster.ask_brokers(masters, RequestCode.SET_MESSAGE_REQUEST_MODE, header)
        for name, answer in answers.items():
            if isinstance(answer, RlabError):
                fail(f"the mode of {topic!r} could not be set on broker {name}", answer)
