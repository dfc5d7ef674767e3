"""Connects fault injection with a broker: finds the client of a connection, and records each fault as an event.

Only for test clusters: nothing on the wire reaches this.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from broker.groups.members import Groups
from model.event_log import EventLog
from model.events import EventKind
from remoting.connection import Connection
from remoting.faults.active import ActiveFault
from remoting.faults.hook import BEGAN, DONE, HEALED, FaultHook
from remoting.server import RemotingServer

_KINDS = {BEGAN: EventKind.FAULT_BEGAN, DONE: EventKind.FAULT_DONE, HEALED: EventKind.FAULT_HEALED}


def make_fault_hook(server: RemotingServer, groups: Groups, events: EventLog, rng: Random) -> FaultHook:
    """Create the hook that injects faults into the connections of a running broker."""

    def client_of(connection: Connection) -> tuple[str, tuple[str, ...]]:
        _, client = groups.client_on(connection)
        if client is None:
            return "", ()
        consumers = client.heartbeat.consumers if client.heartbeat is not None else ()
        return client.client_id, (*(each.group for each in consumers), *client.producer_groups)

    def report(kind: str, active: ActiveFault, client: str, n: int) -> str:
        return events.emit(
            _KINDS[kind],
            cause=active.cause,
            group=active.fault.group,
            broker=events.node,
            client=client or active.fault.client,
            n=-1 if kind == BEGAN else n,  # a fault that begins has no count yet
            detail=str(active.fault),
        )

    return FaultHook(server, report, rng=rng, known_as=client_of)


class BrokerFaults:
    """The connection faults and the fault events of a broker whose parent process is a test cluster.

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
        return make_fault_hook(self._server, self._groups, self._events, rng)

    def record(self, kind: EventKind, process: str, verb: str, cause: str) -> str:
        """Record that a process of the test cluster was killed, paused or started; returns the id of the event.

        Args:
            kind: kind of the event.
            process: name of the process.
            verb: past participle for the detail of the event, for instance "killed".
            cause: id of the event that caused it, or an empty text.
        """
        event = self._events.emit(kind, cause=cause, broker=process, detail=f"{verb} {process}")
        # At once, because the process may be this one, and be killed next.
        self._store_trace()
        return event
