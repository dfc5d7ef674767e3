"""Conditions of a group that a test waits for. Each returns the parts that are not met, and [] once all are met. Pure.

not_stable(group, members=2)           -> ["orders@broker-a:0 is owned by c1 and should be owned by c2"]
not_owned(group, "c2", 2)              -> []
not_consumed(group, ends)              -> ["orders@broker-b:1 is consumed up to 7 of 9"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from client.admin.records import GroupInfo
from model.counted import plural
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from model.names import is_retry_topic


def is_client(name: str, client_id: str) -> bool:
    """Whether a name is a client id, or its part after the `@`."""
    return name in (client_id, client_id.rpartition("@")[2])


def not_stable(group: GroupInfo, members: int | None = None) -> list[str]:
    """The reasons why a group has not converged, or does not have the given number of members."""
    missing = []
    if members is not None and len(group.members) != members:
        missing.append(f"it has {plural(len(group.members), 'member')} instead of {members}")
    elif not group.members:
        missing.append("it has no members")
    missing += [f"broker {name} does not answer" for name in group.unreachable]
    missing += [f"a member has the strategy {name}, which is not installed here" for name in group.unknown_strategies]
    missing += [
        f"{each.queue} is owned by {each.owner or 'no member'} and should be owned by "
        f"{' and '.join(each.targets) or 'no member'}"
        for each in group.queues
        if not each.settled
    ]
    return missing + [f"{queue} is assigned to no member: the strategies disagree" for queue in group.stranded]


def not_owned(group: GroupInfo, client: str, queues: int | None = None) -> list[str]:
    """[] if a member owns this number of queues, without queues of retry topics; at least one by default."""
    owned = [
        each.queue
        for each in group.queues
        if each.owner and is_client(client, each.owner) and not is_retry_topic(each.queue.topic)
    ]
    if len(owned) == queues or (queues is None and owned):
        return []
    shares = any(is_client(client, each.client_id) and group.mode_of(each) == "pop" for each in group.members)
    why = ": it shares messages, so it owns no queue; wait for consumed" if shares else ""
    expected = "at least 1" if queues is None else queues
    return [f"{client} owns {plural(len(owned), 'queue')} instead of {expected}{why}"]


def ends_of(group: GroupInfo) -> dict[MessageQueue, int]:
    """The end offset of each queue of a group now."""
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
    """The membership and the queues of a member that should have left."""
    reasons = [f"{each.client_id} is a member" for each in group.members if is_client(client, each.client_id)]
    owned = [str(each.queue) for each in group.queues if each.owner and is_client(client, each.owner)]
    return reasons + [f"{client} owns {queue}" for queue in owned]


def not_passed(events: Sequence[Event], group: str, n: int) -> list[str]:
    """The members that made at least one pass in these events, and fewer than `n`."""
    passes: dict[str, int] = {}
    for event in events:
        if event.kind == EventKind.REBALANCE_END and event.group == group:
            passes[event.client] = passes.get(event.client, 0) + 1
    if not passes:
        return ["no member has made a pass"]
    return [f"{client} has made {n_passes} of {n} passes" for client, n_passes in passes.items() if n_passes < n]
