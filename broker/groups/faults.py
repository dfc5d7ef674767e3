"""Fault injection into the live connections of a broker, with the client behind each, and the events that record it.

Only for test clusters: nothing on the wire reaches this.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from broker.groups.members import Groups
from model.event_log import EventLog
from model.events import EventKind
from remoting.connection import Connection
from remoting.faults.active import Active
from remoting.faults.hook import BEGAN, DONE, HEALED, FaultHook
from remoting.server import RemotingServer

_KINDS = {BEGAN: EventKind.FAULT_BEGAN, DONE: EventKind.FAULT_DONE, HEALED: EventKind.FAULT_HEALED}


def faults_of(server: RemotingServer, groups: Groups, events: EventLog, rng: Random) -> FaultHook:
    """The faults of a broker that runs."""

    def known_as(connection: Connection) -> tuple[str, tuple[str, ...]]:
        client = groups.clients.get(connection.number)
        if client is None:
            return "", ()
        consumers = client.heartbeat.consumers if client.heartbeat is not None else ()
        return client.client_id, (*(each.group for each in consumers), *client.producer_groups)

    def report(what: str, active: Active, client: str, n: int) -> str:
        return events.emit(
            _KINDS[what],
            cause=active.cause,
            group=active.fault.group,
            broker=events.node,
            client=client or active.fault.client,
            n=-1 if what == BEGAN else n,
            detail=str(active.fault),
        )

    return FaultHook(server, report, rng=rng, known_as=known_as)


class BrokerFaults:
    """Carries out the orders of the parent process of a broker in a test cluster.

    Args:
        store_trace: writes the events to the broker's trace, or nothing where it keeps none.
    """

    def __init__(
        self, server: RemotingServer, groups: Groups, events: EventLog, store_trace: Callable[[], None]
    ) -> None:
        self._server = server
        self._groups = groups
        self._events = events
        self._store_trace = store_trace

    def hook(self, rng: Random) -> FaultHook:
        """The hook that injects the faults into its connections."""
        return faults_of(self._server, self._groups, self._events, rng)

    def record(self, kind: EventKind, process: str, done: str, cause: str) -> str:
        """Record a fault of a process of the cluster; returns the id of the event."""
        event = self._events.emit(kind, cause=cause, broker=process, detail=f"{done} {process}")
        # At once, because the process may be this one, and be killed next.
        self._store_trace()
        return event
