"""OffsetAdmin: putting a group somewhere else on a topic. RocketMQ: ResetOffsetByTimeCommand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from client.admin.requests import Answer, fail, listed, masters_of, unpack
from client.admin.topics import TopicAdmin
from model.errors import GroupNotExist, InvalidParameter, RlabError
from model.message_queue import MessageQueue
from model.names import check_group
from model.offset_reset import QueueReset, ResetTo
from remoting.tasks import run_together
from remoting.wire.request_code import RequestCode

_RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET


class OffsetAdmin(TopicAdmin):
    """The part of `Admin` that is about the offsets of groups."""

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        to: ResetTo,
        *,
        queues: Collection[MessageQueue] | None = None,
        dry_run: bool = False,
        create: bool = False,
    ) -> tuple[QueueReset, ...]:
        """Put a group somewhere else on a topic, also while it consumes.

        Members drop what they have fetched and begin again at the new place. What a listener has at that moment is
        finished, but not committed, so it comes again if it lies at or after the new place. Each broker resets all of
        its queues in one step, and answers when that is stored. They are asked what they would do first, so that
        nothing is reset anywhere when one of them refuses.

        Args:
            group: which.
            topic: on which topic. Its retry topic is another one: what waits there for its next attempt stays.
            to: where to.
            queues: only these; all of the topic by default.
            dry_run: only tell what would become of it.
            create: also for a group that no broker has heard of, which will begin there.

        Returns:
            Every queue, sorted.

        Raises:
            TopicNotExist: no such topic.
            InvalidParameter: a queue is not the topic's; or a shift where the group has committed nothing.
            GroupNotExist: no broker of the topic knows the group.
            IllegalOperation: the group is broadcasting: its members keep their offsets themselves.
            RlabError: a broker could not be reached. Safe to repeat, except a shift of those that were reached.

        Cancellation: some brokers may have been reset.
        """
        check_group(group)
        masters = masters_of((await self.route(topic)).brokers)
        wanted = _by_broker(topic, queues, masters)
        header = {"group": group, "topic": topic, "to": to.kind.value, "value": to.value}
        plan = await self._ask_each(masters, wanted, {**header, "dry_run": True})
        for name, answer in plan.items():
            if isinstance(answer, RlabError):
                fail(f"nothing was reset: broker {name}", answer)
        if not create:
            await self._check_known(group, topic, masters, plan)
        if dry_run:
            return _resets(topic, plan)
        done = await self._ask_each(masters, wanted, header)
        for name, answer in done.items():
            if isinstance(answer, RlabError):
                reached = [other for other, one in done.items() if not isinstance(one, RlabError)]
                fail(f"reset on {', '.join(reached) or 'no broker'}; broker {name}", answer)
        return _resets(topic, done)

    async def _check_known(
        self, group: str, topic: str, masters: Mapping[str, str], plan: Mapping[str, Answer]
    ) -> None:
        if any(not isinstance(answer, RlabError) and answer.header["known"] for answer in plan.values()):
            return
        lists = await self._cluster.ask_brokers(masters, RequestCode.GET_GROUP_LIST, {})
        names = {row[0] for answer in lists.values() if not isinstance(answer, RlabError) for row in unpack(answer)}
        raise GroupNotExist(
            f"no broker of topic {topic!r} knows group {group!r}; {listed('known groups', sorted(names))}. "
            "For a group that has yet to start, say so: --create"
        )

    async def _ask_each(
        self, masters: Mapping[str, str], wanted: Mapping[str, list[int] | None], header: Mapping[str, Any]
    ) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}

        async def ask(name: str, queue_ids: list[int] | None) -> None:
            whole = {**header, "queue_ids": queue_ids}
            answers.update(await self._cluster.ask_brokers({name: masters[name]}, _RESET, whole))

        await run_together([partial(ask, name, queue_ids) for name, queue_ids in wanted.items()])
        return {name: answers[name] for name in sorted(answers)}


def _by_broker(
    topic: str, queues: Collection[MessageQueue] | None, masters: Mapping[str, str]
) -> dict[str, list[int] | None]:
    """Broker name -> ids of the queues to reset, None for all."""
    if queues is None:
        return dict.fromkeys(masters)
    if not queues:
        raise InvalidParameter("no queue to reset: name some, or leave them out for all")
    wanted: dict[str, list[int] | None] = {}
    for queue in sorted(set(queues)):
        if queue.topic != topic or queue.broker_name not in masters:
            raise InvalidParameter(f"{queue} is no queue of {topic!r}; {listed('brokers that have it', masters)}")
        mine = wanted.setdefault(queue.broker_name, [])
        assert mine is not None, "only queues that were named are looked at"
        mine.append(queue.queue_id)
    return wanted


def _resets(topic: str, answers: Mapping[str, Answer]) -> tuple[QueueReset, ...]:
    return tuple(
        QueueReset(
            queue=MessageQueue(topic, name, queue_id),
            before=None if before < 0 else before,
            after=after,
            clamped=clamped,
            owner=owner or None,
        )
        for name, answer in answers.items()
        for queue_id, before, after, clamped, owner in unpack(answer)
    )
