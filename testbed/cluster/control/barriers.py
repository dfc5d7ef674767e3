"""Conditions of a group that a test waits for: each says what is still missing, and nothing once it is so. Pure.

not_stable(group, members=2)           -> ["orders@broker-a:0 is of c1 and should be of c2"]
not_owned(group, "c2", 2)              -> []
not_consumed(group, ends)              -> ["orders@broker-b:1 is consumed up to 7 of 9"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from client.admin.records import GroupInfo
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from model.names import is_retry_topic


def is_client(name: str, client_id: str) -> bool:
    """Whether a name is a client id, or what comes behind its `@`."""
    return name in (client_id, client_id.rpartition("@")[2])


def not_stable(group: GroupInfo, members: int | None = None) -> list[str]:
    """What keeps a group from being balanced, with so many members if that is given."""
    missing = []
    if members is not None and len(group.members) != members:
        missing.append(f"it has {len(group.members)} members and not {members}")
    elif not group.members:
        missing.append("it has no members")
    missing += [f"broker {name} does not answer" for name in group.unreachable]
    missing += [f"a member has the strategy {name}, which is not installed here" for name in group.unknown_strategies]
    missing += [
        f"{each.queue} is of {each.owner or 'nobody'} and should be of {' and '.join(each.targets) or 'nobody'}"
        for each in group.queues
        if not each.settled
    ]
    return missing + [f"nobody should own {queue}: the strategies disagree" for queue in group.stranded]


def not_owned(group: GroupInfo, client: str, queues: int | None = None) -> list[str]:
    """What a member lacks until it owns so many queues, those of retry topics not counted; at least one by default."""
    owned = [
        each.queue
        for each in group.queues
        if each.owner and is_client(client, each.owner) and not is_retry_topic(each.queue.topic)
    ]
    if len(owned) == queues or (queues is None and owned):
        return []
    return [f"{client} owns {len(owned)} queues and not {'at least 1' if queues is None else queues}"]


def ends_of(group: GroupInfo) -> dict[MessageQueue, int]:
    """Up to where each queue of a group is filled now."""
    return {each.queue: each.max_offset for each in group.queues}


def not_consumed(group: GroupInfo, ends: Mapping[MessageQueue, int]) -> list[str]:
    """The queues that are not consumed up to these offsets."""
    committed = {each.queue: (each.start if each.committed is None else each.committed) or 0 for each in group.queues}
    return [
        f"{queue} is consumed up to {committed.get(queue, 0)} of {end}"
        for queue, end in ends.items()
        if committed.get(queue, 0) < end
    ]


def not_gone(group: GroupInfo, client: str) -> list[str]:
    """What is left of a member that should be gone: its membership, and what it owns."""
    found = [f"{each.client_id} is a member" for each in group.members if is_client(client, each.client_id)]
    owned = [str(each.queue) for each in group.queues if each.owner and is_client(client, each.owner)]
    return found + [f"{client} owns {queue}" for queue in owned]


def not_passed(events: Sequence[Event], group: str, n: int) -> list[str]:
    """The members that have not made so many passes in these events; one by one, those that made any."""
    passes: dict[str, int] = {}
    for event in events:
        if event.kind == EventKind.REBALANCE_END and event.group == group:
            passes[event.client] = passes.get(event.client, 0) + 1
    if not passes:
        return ["no member has made a pass"]
    return [f"{client} has made {made} of {n} passes" for client, made in passes.items() if made < n]
