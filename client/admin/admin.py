"""Admin: what operators and the console ask of a cluster: topics, brokers, groups. RocketMQ: DefaultMQAdminExt.

Brokers are asked directly, each for its own part, all at the same time; name servers only tell where they are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random
from types import TracebackType

import anyio

from client.admin.assignments import AssignmentAdmin
from client.admin.dead_letters import DeadLetters
from client.admin.expected_owners import group_info
from client.admin.messages import MessageAdmin
from client.admin.offsets import OffsetAdmin
from client.admin.pop_records import PoppedQueue
from client.admin.records import BrokerInfo, GroupInfo, GroupReport, GroupSummary
from client.admin.requests import ClusterRequests, fail, listed, unpack, unpack_group
from client.allocate import AllocateMessageQueueStrategy
from client.allocate.registry import has_strategy, strategy_named
from model.errors import ConfigError, GroupNotExist, IllegalOperation, RlabError
from model.limits import REQUEST_TIMEOUT_S
from model.names import check_group
from model.topic_route import BrokerData
from remoting.wire.request_code import RequestCode

_log = logging.getLogger(__name__)


class Admin(OffsetAdmin, MessageAdmin, AssignmentAdmin):
    """Administration of a cluster; an async context manager.

    Args:
        name_servers: addresses, a string separated by commas or a list.
        timeout_s: per request.
        rng: chooses the name server that is asked first.

    Raises:
        ConfigError: a malformed address.

    Use:
        async with Admin("127.0.0.1:9876") as admin:
            await admin.create_topic("orders", 8)
            print((await admin.group("billing")).balanced)
    """

    def __init__(
        self, name_servers: str | Sequence[str], *, timeout_s: float = REQUEST_TIMEOUT_S, rng: Random | None = None
    ) -> None:
        super().__init__(ClusterRequests(name_servers, timeout_s, rng or Random()))

    async def __aenter__(self) -> Admin:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.shutdown()

    async def start(self) -> None:
        """Reach a name server.

        Raises:
            ConnectFailed: none answers.
            ConfigError: what answers is not a name server.

        Cancellation: nothing is left open.
        """
        await self._cluster.start()

    async def shutdown(self) -> None:
        """Close every connection. Idempotent. Cancellation: harmless."""
        await self._cluster.remoting.aclose()

    # --- brokers -----------------------------------------------------------------------------------------------------

    async def brokers(self) -> tuple[BrokerData, ...]:
        """Every broker that is registered, sorted by name.

        Raises:
            ConnectFailed: no name server answers.
        """
        return await self._cluster.brokers()

    async def broker_info(self, broker: str) -> BrokerInfo:
        """The state of a broker.

        Args:
            broker: its name.

        Raises:
            ServiceNotAvailable: no broker is registered.
            InvalidParameter: this one is not.
            NetworkError: it does not answer.
        """
        address = (await self._cluster.masters([broker]))[broker]
        answer = await self._cluster.request(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return BrokerInfo.from_wire(address, unpack(answer))

    # --- groups ------------------------------------------------------------------------------------------------------

    async def groups(self) -> tuple[GroupSummary, ...]:
        """Every group that has members or offsets on a broker that answers, sorted by name.

        Raises:
            ServiceNotAvailable: no broker is registered.
            ConnectFailed: no broker answers.
        """
        members: dict[str, int] = {}
        brokers: dict[str, list[str]] = {}
        masters = await self._cluster.masters()
        answers, _ = await self._cluster.ask_reachable(masters, RequestCode.GET_GROUP_LIST, {})
        for name, answer in answers.items():
            for group, n, _ in unpack(answer):
                # Every broker lists the whole group, so the counts are not added up.
                members[group] = max(n, members.get(group, 0))
                brokers.setdefault(group, []).append(name)
        return tuple(
            GroupSummary(group=group, members=members[group], brokers=tuple(brokers[group]))
            for group in sorted(members)
        )

    async def delete_group(self, group: str) -> None:
        """Delete a group that has no members: its offsets, and failed messages that wait for their next attempt.

        What was kept only for this group may be deleted then. Its dead letters stay. Every broker is asked for members
        first, so that nothing is deleted anywhere while there is one.

        Args:
            group: its name.

        Raises:
            InvalidParameter: an illegal name.
            GroupNotExist: no broker knows it; the text lists some that are known.
            IllegalOperation: it has members, or got one meanwhile.
            RlabError: a broker refused or could not be reached and still has it. Safe to repeat.

        Cancellation: some brokers may have deleted it.
        """
        cluster, header = self._cluster, {"group": check_group(group)}
        masters = await cluster.masters()
        members: dict[str, int] = {}
        known: dict[str, None] = {}
        for name, answer in (await cluster.ask_brokers(masters, RequestCode.GET_GROUP_LIST, {})).items():
            if isinstance(answer, RlabError):
                fail(f"nothing was deleted: broker {name}", answer)
            rows = {row[0]: row[1] for row in unpack(answer)}
            known.update(dict.fromkeys(rows))
            if group in rows:
                members[name] = rows[group]
        if not members:
            raise GroupNotExist(f"no broker knows group {group!r}; {listed('known groups', sorted(known))}")
        if any(members.values()):
            raise IllegalOperation(
                f"group {group!r} has {max(members.values())} members: stop them first; 'rlab group show {group}' "
                "lists them"
            )
        holders = {name: masters[name] for name in members}
        for name, answer in (await cluster.ask_brokers(holders, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)).items():
            if isinstance(answer, RlabError) and not isinstance(answer, GroupNotExist):
                fail(f"group {group!r} could not be deleted on broker {name}", answer)

    def dead_letters(self, group: str) -> DeadLetters:
        """What a group has given up on.

        Raises:
            InvalidParameter: an illegal name.
        """

        async def check_known() -> None:
            known = [summary.group for summary in await self.groups()]
            if group not in known:
                raise GroupNotExist(f"no broker knows group {group!r}; {listed('known groups', known)}")

        return DeadLetters(self._cluster, group, check_known)

    async def group(self, group: str) -> GroupInfo:
        """A group now: members, progress, and the current and the target owner of each queue.

        The parts are asked for one after another; a group that rebalances meanwhile may look odd.

        Raises:
            InvalidParameter: an illegal name.
            GroupNotExist: no broker that answers knows it; the text lists some that are known.
            ServiceNotAvailable: no broker is registered.
            ConnectFailed: no broker answers.
        """
        cluster, header = self._cluster, {"group": check_group(group)}
        masters = await cluster.masters()
        lists, silent = await cluster.ask_reachable(masters, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        stats, silent_later = await cluster.ask_reachable(masters, RequestCode.GET_CONSUME_STATS, header)
        pops, silent_last = await cluster.ask_reachable(masters, RequestCode.GET_POP_STATS, header)
        reports = [
            GroupReport.from_wire(name, unpack_group(lists[name]), unpack_group(stats[name]))
            for name in masters
            if name in lists and name in stats
        ]
        if not any(report.members or report.queues for report in reports):
            known = [summary.group for summary in await self.groups()]
            raise GroupNotExist(f"no broker knows group {group!r}; {listed('known groups', known)}")
        topics = {s.topic for report in reports for member in report.members for s in member.consumer.subscriptions}
        routes = {route.topic: route for route in await self.routes(sorted(topics))}
        silent = list(dict.fromkeys(silent + silent_later + silent_last))
        popped = [PoppedQueue.from_wire(name, row) for name, answer in pops.items() for row in unpack(answer)]
        strategies = _installed({member.consumer.strategy for report in reports for member in report.members})
        return group_info(group, reports, routes, silent, strategies, await self.assignment(group), popped)


def _installed(names: set[str]) -> dict[str, AllocateMessageQueueStrategy]:
    """The strategies of these names that can be computed here."""
    found: dict[str, AllocateMessageQueueStrategy] = {}
    for name in filter(has_strategy, sorted(names)):
        try:
            found[name] = strategy_named(name)
        except ConfigError as error:
            _log.warning("no targets of its members: %s", error)
    return found
