"""Resets the offsets of a group for `Admin`. RocketMQ: ResetOffsetByTimeCommand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from client.admin.requests import Answer, ClusterRequests, listed, masters_of, succeeded, unpack
from model.errors import GroupNotExist, InvalidParameter, RlabError
from model.message_queue import MessageQueue
from model.names import check_group
from model.offset_reset import QueueReset, ResetTo
from remoting.request_code import RequestCode


async def reset_offsets(
    cluster: ClusterRequests,
    group: str,
    topic: str,
    to: ResetTo,
    *,
    queues: Collection[MessageQueue] | None,
    dry_run: bool,
    create: bool,
) -> tuple[QueueReset, ...]:
    """See `Admin.reset_offsets`: all brokers make a plan before any of them carries it out."""
    check_group(group)
    masters = masters_of((await cluster.route(topic)).brokers)
    wanted = _by_broker(topic, queues, masters)
    header = {"group": group, "topic": topic, "to": to.kind.value, "value": to.value}
    plan = await _ask_each(cluster, masters, wanted, {**header, "dry_run": True})
    succeeded(plan, "nothing was reset:")
    if not create:
        await _check_known(cluster, group, topic, masters, plan)
    if dry_run:
        return _resets(topic, plan)
    done = await _ask_each(cluster, masters, wanted, header)
    reached = [name for name, answer in done.items() if not isinstance(answer, RlabError)]
    succeeded(done, f"reset on {', '.join(reached) or 'no broker'};")
    return _resets(topic, done)


async def _check_known(
    cluster: ClusterRequests, group: str, topic: str, masters: Mapping[str, str], plan: Mapping[str, Answer]
) -> None:
    if any(not isinstance(answer, RlabError) and answer.header["known"] for answer in plan.values()):
        return
    lists = await cluster.ask_brokers(masters, RequestCode.GET_GROUP_LIST, {})
    names = {row[0] for answer in lists.values() if not isinstance(answer, RlabError) for row in unpack(answer)}
    raise GroupNotExist(
        f"no broker of topic {topic!r} knows group {group!r}; {listed('known groups', sorted(names))}. "
        "For a group that has yet to start, say so: --create"
    )


async def _ask_each(
    cluster: ClusterRequests,
    masters: Mapping[str, str],
    wanted: Mapping[str, list[int] | None],
    header: Mapping[str, Any],
) -> dict[str, Answer]:
    headers = {masters[name]: {**header, "queue_ids": queue_ids} for name, queue_ids in wanted.items()}
    answers = await cluster.ask_each(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, headers)
    return {name: answers[masters[name]] for name in sorted(wanted)}


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
        assert mine is not None, "queues were named"
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
