"""Reads producer groups for `Admin`: their members, and their open transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from client.admin.requests import ClusterRequests, unpack
from model.errors import GroupNotExist, RequestCodeNotSupported
from model.limits import MAX_SHOWN_TRANSACTIONS
from model.transaction import OpenTransaction
from remoting.request_code import RequestCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerGroup:
    """One line of a list of producer groups; its transactions are added up over the brokers."""

    group: str
    members: int
    open: int  # transactions that are not ended
    oldest_s: float  # age of the oldest of them, 0 without one
    waiting: int  # those that are due for a check, while no member can be asked


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMember:
    """A producer of a group."""

    client_id: str
    address: str
    answers_checks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerGroupInfo:
    """A producer group; of its open transactions the oldest of each broker are here, sorted by age."""

    group: str
    members: tuple[ProducerMember, ...]
    open: int
    transactions: tuple[OpenTransaction, ...]


async def all_producer_groups(cluster: ClusterRequests) -> tuple[ProducerGroup, ...]:
    """See `Admin.producer_groups`."""
    answers, _ = await cluster.ask_reachable(await cluster.masters(), RequestCode.GET_ALL_PRODUCER_INFO, {})
    groups: dict[str, ProducerGroup] = {}
    for answer in answers.values():
        if isinstance(answer, RequestCodeNotSupported):
            continue  # a broker without transactions
        for group, members, n_open, oldest_s, waiting in unpack(answer):
            # A producer registers its group with every broker that it knows, so members are not added up.
            so_far = groups.get(group, ProducerGroup(group=group, members=0, open=0, oldest_s=0.0, waiting=0))
            groups[group] = ProducerGroup(
                group=group,
                members=max(so_far.members, members),
                open=so_far.open + n_open,
                oldest_s=max(so_far.oldest_s, oldest_s),
                waiting=so_far.waiting + waiting,
            )
    return tuple(groups[group] for group in sorted(groups))


async def one_producer_group(cluster: ClusterRequests, group: str) -> ProducerGroupInfo:
    """See `Admin.producer_group`."""
    masters = await cluster.masters()
    answers, _ = await cluster.ask_reachable(masters, RequestCode.GET_PRODUCER_CONNECTION_LIST, {"group": group})
    members: dict[str, ProducerMember] = {}
    transactions: list[OpenTransaction] = []
    n_open, is_known = 0, False
    for answer in answers.values():
        if isinstance(answer, RequestCodeNotSupported | GroupNotExist):
            continue
        rows, oldest, n = unpack(answer)
        is_known = True
        for client_id, address, checks in rows:
            members[client_id] = ProducerMember(client_id=client_id, address=address, answers_checks=checks)
        transactions += [OpenTransaction(*row) for row in oldest]
        n_open += n
    if not is_known:
        _unknown(group, [each.group for each in await all_producer_groups(cluster)])
    transactions.sort(key=lambda each: -each.age_s)
    return ProducerGroupInfo(
        group=group,
        members=tuple(members[client_id] for client_id in sorted(members)),
        open=n_open,
        transactions=tuple(transactions[:MAX_SHOWN_TRANSACTIONS]),
    )


def _unknown(group: str, group_names: list[str]) -> NoReturn:
    groups_text = f"there are {', '.join(group_names[:10])}" if group_names else "there are none"
    raise GroupNotExist(f"producer group {group!r} has no member and no open transaction; {groups_text}")
