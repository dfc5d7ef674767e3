"""Takes the doctor's snapshot of a cluster: queries name servers, brokers and groups, and reads the last events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import anyio

from client.admin.admin import Admin
from client.admin.records import BrokerInfo, GroupInfo
from client.admin.requests import ClusterRequests, masters_of, unpack
from client.config import wall_clock_ms
from metrics.doctor.snapshot import ObservedBroker, ObservedNameServer, Snapshot
from model.errors import GroupNotExist, InvalidParameter, NetworkError, RlabError, ServiceNotAvailable
from model.replica_info import ReplicaSetInfo
from model.topic_route import BrokerData
from remoting.command import Command
from remoting.request_code import RequestCode
from traces.figures.clocks.clocks import ClockReader
from traces.figures.records import order_of

TIMEOUT_S = 3.0
INTERVAL_S = 5.0
MINUTES = 10.0


async def observe(
    name_servers: str | Sequence[str],
    *,
    interval_s: float = INTERVAL_S,
    minutes: float = MINUTES,
    clock_ms: Callable[[], float] = wall_clock_ms,
) -> Snapshot:
    """Take a snapshot of a cluster; this lasts a little longer than `interval_s` seconds.

    Args:
        name_servers: addresses, separated by commas or as a list.
        interval_s: time between the two observations of each group.
        minutes: maximum age of the events that are used.
        clock_ms: wall clock in milliseconds.

    Raises:
        ConnectFailed: no name server answers.
        ConfigError: an address is malformed, or the server there is not a name server.

    Cancellation: harmless.
    """
    cluster = ClusterRequests(name_servers, TIMEOUT_S, Random())
    await cluster.start()
    try:
        servers, with_copies = await _name_servers(cluster)
        registered = {name: address for server in servers for name, address in server.brokers.items()}
        brokers = [await _broker(cluster, name, address, clock_ms) for name, address in sorted(registered.items())]
        absence = await cluster.absent()
    finally:
        with anyio.CancelScope(shield=True):
            await cluster.remoting.aclose()
    async with Admin(name_servers, timeout_s=TIMEOUT_S) as admin:
        groups_before, sets_before = await _groups(admin), await _sets(admin, with_copies)
        await anyio.sleep(interval_s)
        now, sets_now = await _groups(admin), await _sets(admin, with_copies)
        trace = admin.trace(clock_ms() - minutes * 60_000)
        events = await trace.read()
        oldest_ms = min((event.t_ms for event in events), default=None)
        missing = await trace.missing(None if oldest_ms is None else (clock_ms() - oldest_ms) / 1000)
    reader = ClockReader()
    for event in events:
        reader.read(event)
    clocks = reader.finish()
    return Snapshot(
        name_servers=tuple(servers),
        brokers=tuple(brokers),
        groups={name: (groups_before[name], now[name]) for name in sorted(groups_before.keys() & now.keys())},
        interval_s=interval_s,
        events=tuple(sorted(map(clocks.correct, events), key=order_of)),
        minutes=minutes,
        clocks=clocks.faults,
        absence=absence,
        missing=missing,
        sets={name: (sets_before[name], sets_now[name]) for name in sorted(sets_before.keys() & sets_now.keys())},
    )


async def _name_servers(cluster: ClusterRequests) -> tuple[list[ObservedNameServer], set[str]]:
    """The brokers that each name server lists, and the names of the brokers that have copies."""
    answers = await cluster.ask(cluster.servers, RequestCode.GET_BROKER_CLUSTER_INFO, {})
    observed, with_copies = [], set()
    for address, answer in answers.items():
        if isinstance(answer, Command):
            with_copies |= {str(name) for name, *_ in answer.header.get("sets", ())}
            brokers = [
                BrokerData(
                    cluster=group,
                    broker_name=name,
                    addresses={int(key): str(server_address) for key, server_address in addresses},
                )
                for group, name, addresses in unpack(answer)
            ]
            observed.append(ObservedNameServer(address=address, brokers=masters_of(brokers)))
        else:
            observed.append(ObservedNameServer(address=address, error=str(answer)))
    return observed, with_copies


async def _broker(cluster: ClusterRequests, name: str, address: str, clock_ms: Callable[[], float]) -> ObservedBroker:
    asked_ms = clock_ms()
    try:
        answer = await cluster.request(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    except RlabError as error:
        return ObservedBroker(name=name, address=address, error=str(error))
    answered_ms = clock_ms()
    wire = unpack(answer)
    ahead_ms = wire["now_ms"] - (asked_ms + answered_ms) / 2 if "now_ms" in wire else None
    return ObservedBroker(
        name=name,
        address=address,
        info=BrokerInfo.from_wire(address, wire),
        clock_ahead_ms=ahead_ms,
        round_trip_ms=answered_ms - asked_ms,
    )


async def _groups(admin: Admin) -> dict[str, GroupInfo]:
    try:
        summaries = await admin.groups()
    except (ServiceNotAvailable, NetworkError):
        return {}  # other rules report brokers that do not answer
    make_diagnosis: dict[str, GroupInfo] = {}
    for summary in summaries:
        try:
            make_diagnosis[summary.group] = await admin.group(summary.group)
        except (GroupNotExist, ServiceNotAvailable, NetworkError):
            continue  # race: the group was just deleted; or its brokers do not answer
    return make_diagnosis


async def _sets(admin: Admin, names: set[str]) -> dict[str, ReplicaSetInfo]:
    make_diagnosis: dict[str, ReplicaSetInfo] = {}
    for name in sorted(names):
        try:
            make_diagnosis[name] = await admin.replicas(name)
        except (InvalidParameter, NetworkError):
            continue  # no replica of it answers: another rule reports the broker
    return make_diagnosis
