"""Resets the offsets of a group for `Admin`. RocketMQ: ResetOffsetByTimeCommand.

First all brokers of the topic return their plan, and then all of them carry it out. So nothing is reset anywhere if one
broker refuses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from client.admin.requests import ClusterRequests, list_names, masters_of, successful_answers, unpack
from model.arguments import short_repr
from model.errors import GroupNotExist, InvalidParameter, RlabError
from model.message_queue import MessageQueue, check_queues
from model.names import check_group
from model.offset_reset import QueueReset, ResetKind, ResetTo
from remoting.command import Command
from remoting.request_code import RequestCode


async def earliest_clock(cluster: ClusterRequests, topic: str) -> int | None:
    """See `Admin.clock_ms`."""
    masters = masters_of((await cluster.route(topic)).brokers)
    queue_header = {"topic": topic, "queue_id": 0}
    answers = (await cluster.ask(masters, RequestCode.GET_MAX_OFFSET, queue_header)).values()
    times_ms = [answer.header.get("now_ms") for answer in answers if not isinstance(answer, RlabError)]
    return min((time_ms for time_ms in times_ms if time_ms is not None), default=None)


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
    if not isinstance(to, ResetTo):
        raise InvalidParameter(f"to must be a ResetTo, for instance ResetTo.earliest(), got {short_repr(to)}")
    chosen = None if queues is None else check_queues(queues)
    masters = masters_of((await cluster.route(topic)).brokers)
    queue_ids = _by_broker(topic, chosen, masters)
    header = {"group": group, "topic": topic, "to": to.kind.value, "value": to.value}
    holders, code = {name: masters[name] for name in queue_ids}, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    plans = await cluster.ask(holders, code, {**header, "dry_run": True}, queue_ids=queue_ids)
    plan = successful_answers(plans, "nothing was reset:")
    if not create and not any(answer.header["known"] for answer in plan.values()):
        lists = await cluster.ask(masters, RequestCode.GET_GROUP_LIST, {})
        names = {row[0] for answer in lists.values() if not isinstance(answer, RlabError) for row in unpack(answer)}
        raise GroupNotExist(
            f"no broker of topic {topic!r} knows group {group!r}; {list_names('known groups', sorted(names))}. "
            "For a group that has yet to start, say so: --create"
        )
    if dry_run:
        return _resets(topic, plan)
    repeats = to.kind is not ResetKind.SHIFT
    results = await cluster.ask(holders, code, header, repeats=repeats, queue_ids=queue_ids)
    reached = [name for name, answer in results.items() if not isinstance(answer, RlabError)]
    return _resets(topic, successful_answers(results, f"reset on {', '.join(reached) or 'no broker'};"))


def _by_broker(
    topic: str, queues: Collection[MessageQueue] | None, masters: Mapping[str, str]
) -> Mapping[str, list[int] | None]:
    """Broker name -> ids of the queues to reset, None for all."""
    if queues is None:
        return dict.fromkeys(masters)
    if not queues:
        raise InvalidParameter("no queue to reset: name some, or leave them out for all")
    queue_ids: dict[str, list[int]] = {}
    for queue in sorted(set(queues)):
        if queue.topic != topic or queue.broker_name not in masters:
            raise InvalidParameter(
                f"{queue} is not a queue of {topic!r}; {list_names('brokers that have it', masters)}"
            )
        queue_ids.setdefault(queue.broker_name, []).append(queue.queue_id)
    return queue_ids


def _resets(topic: str, answers: Mapping[str, Command]) -> tuple[QueueReset, ...]:
    return tuple(
        QueueReset(
            queue=MessageQueue(topic, name, queue_id),
            before=None if old_offset < 0 else old_offset,
            after=new_offset,
            clamped=clamped,
            owner=owner or None,
        )
        for name, answer in answers.items()
        for queue_id, old_offset, new_offset, clamped, owner in unpack(answer)
    )
