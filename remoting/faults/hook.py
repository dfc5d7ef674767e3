"""FaultHook: carries out the faults of one server, and reports them for the trace.

    hook = FaultHook(server, report, rng=Random())
    active = hook.begin(parse_fault({"do": "drop", "code": "HEART_BEAT", "client": "c3"}))
    ...
    hook.heal(active.number)

While no fault is active, the server's connections are unchanged; see `connection.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import msgpack

from model.limits import FAULT_REPORT_S, MAX_CONNECTIONS
from remoting.command import Command, call_name
from remoting.connection import Connection
from remoting.faults.active import ActiveFault, ActiveFaults
from remoting.faults.connection import UNKNOWN, FaultyConnection
from remoting.faults.fault import CLIENT_END, TO_CLIENT, TO_SERVER, ConnectionFault, Traffic
from remoting.request_code import RequestCode
from remoting.server import RemotingServer

BEGAN, DONE, HEALED = "began", "done", "healed"
"""Reports about a fault: its begin, that it was carried out, its end."""

Report = Callable[[str, ActiveFault, str, int], str]
"""Called with the kind of report, the fault, the client and how often it was carried out; returns the cause."""

IdentityOf = Callable[[Connection], tuple[str, tuple[str, ...]]]
"""The client id and the groups of a connection that the server knows, or empty ones."""


class Identity(NamedTuple):
    """The client of a connection, from its frames."""

    client: str = ""
    groups: tuple[str, ...] = ()


_NO_IDENTITY = Identity()


def no_identity(_connection: Connection) -> tuple[str, tuple[str, ...]]:
    """An empty identity, for a server that knows no clients."""
    return _NO_IDENTITY


class FaultHook:
    """The faults of one server; see the module header.

    Args:
        report: gets the reports about faults. It gets DONE at most once a second for each client, with the number.
        known_as: returns the server's own knowledge of the client of a connection.
    """

    def __init__(
        self, server: RemotingServer, report: Report, *, rng: Random, known_as: IdentityOf = no_identity
    ) -> None:
        self._server = server
        self._report = report
        self._known_as = known_as
        self._loop = asyncio.get_running_loop()
        self._faults = ActiveFaults(rng)
        self._faulty: dict[Connection, FaultyConnection] = {}
        self._identities: dict[Connection, Identity] = {}
        self._late: dict[tuple[Connection, int, str], float] = {}  # when the last delayed frame is due
        self._kept_open: dict[int, list[Any]] = {}  # by fault: sockets that keep the clients' ends open
        self._unreported: dict[tuple[ActiveFault, str], int] = {}
        self._report_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None

    # --- what the owner calls ----------------------------------------------------------------------------------------

    def begin(self, fault: ConnectionFault, cause: str = "") -> ActiveFault:
        """Begin a fault, with the cause of another server that has begun the same fault, if there is one.

        Raises:
            InvalidParameter: too many faults are active.
        """
        active = self._faults.begin(fault, cause, self._loop.time())
        active.cause = self._report(BEGAN, active, "", 0) or cause
        self._server.follow_connections(self._opened)
        for connection in self._server.connections:
            self._opened(connection)
        if fault.do == "cut" and not fault.on_frames:
            for connection in self._server.connections:
                identity = self._identity(connection)
                if not active.is_used_up and fault.chooses(*identity, connection.peer):
                    self._count(active, connection)
                    self._faulty[connection].reset()
            self._end(self._faults.heal(active.number))
        else:
            self._expire()
        return active

    def heal(self, number: int | None = None) -> list[ActiveFault]:
        """End one fault, or all; returns the ended ones."""
        healed = self._faults.heal(number)
        self._end(healed)
        return healed

    def active(self) -> list[dict[str, Any]]:
        """The active faults as documents, oldest first."""
        return [active.document(self._loop.time()) for active in self._faults.all()]

    # --- the end of faults -------------------------------------------------------------------------------------------

    def _expire(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end(self._faults.expire(self._loop.time() + 1e-6))
        deadline = self._faults.next_deadline()
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._expire)

    def _end(self, healed: list[ActiveFault]) -> None:
        if not healed:
            return
        self._report_done()
        for active in healed:
            for sock in self._kept_open.pop(active.number, ()):
                sock.close()
            self._report(HEALED, active, "", active.done)
        for connection in list(self._faulty.values()):
            self._apply(connection)
        if not self._faults:
            self._server.follow_connections(None)
            for connection in self._faulty.values():
                connection.leave()
            self._faulty.clear()
            self._identities.clear()
            self._late.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    # --- clients of connections --------------------------------------------------------------------------------------

    def _identity(self, connection: Connection) -> Identity:
        seen = self._identities.get(connection, _NO_IDENTITY)
        client, groups = self._known_as(connection)
        return Identity(client or seen.client, groups or seen.groups)

    def identify(self, connection: FaultyConnection, command: Command) -> None:
        """Record the client of a connection, if a frame shows it."""
        identity = self._identities.get(connection.connection, _NO_IDENTITY)
        header = command.header
        client, group = header.get("client_id"), header.get("group")
        groups: tuple[str, ...] = (group,) if isinstance(group, str) and group not in identity.groups else ()
        if command.code == RequestCode.HEART_BEAT and command.body and not identity.client:
            client, groups = _in_heartbeat(command.body)
        if (isinstance(client, str) and client != identity.client) or groups:
            if len(self._identities) > MAX_CONNECTIONS:
                self._identities.clear()
            self._identities[connection.connection] = Identity(
                client if isinstance(client, str) else identity.client, (*identity.groups, *groups)
            )
            self._apply(connection)

    def _opened(self, connection: Connection) -> None:
        """Apply the active faults to a connection."""
        if connection not in self._faulty:
            if len(self._faulty) > MAX_CONNECTIONS:
                self._faulty = {each: faulty for each, faulty in self._faulty.items() if not each.closed}
            self._faulty[connection] = FaultyConnection(connection, self)
        self._apply(self._faulty[connection])

    def _apply(self, connection: FaultyConnection) -> None:
        """Carry out the active faults that affect a connection as a whole."""
        if connection.connection.closed:
            return
        rate: float | None = None
        identity = self._identity(connection.connection)
        for active in self._faults.of_connection(*identity, connection.connection.peer):
            do = active.fault.do
            if do in ("pause", "slow_reader"):
                slower = 0.0 if do == "pause" else active.fault.rate
                rate = slower if rate is None else min(rate, slower)
                self._count_once(active, connection.connection)
            elif active.is_used_up or connection.is_half_open:
                continue
            elif do == "refuse":
                self._count(active, connection.connection)
                connection.reset()
                return
            elif active.fault.end == CLIENT_END:
                self._count(active, connection.connection)
                connection.end_at_the_client()
            else:
                self._count(active, connection.connection)
                self._kept_open.setdefault(active.number, []).append(connection.end_here())
                return
        is_half_open = any(active.fault.end == CLIENT_END for active in self._faults.all())
        if connection.is_half_open and is_half_open:
            rate = 0.0
        elif connection.is_half_open:
            connection.is_half_open = False
        connection.hold_to(rate)

    # --- frames ------------------------------------------------------------------------------------------------------

    def incoming(self, connection: FaultyConnection, command: Command, *, is_answer: bool) -> object:
        """Pass a command that has arrived, or carry out the fault that affects it."""
        active = self._choose(connection, command.code, TO_SERVER, is_answer, call_name(command))
        if active is None:
            return connection.pass_in(command)
        match active.fault.do:
            case "delay":
                self._later(active, connection, TO_SERVER, connection.pass_in, command)
            case "duplicate":
                connection.pass_in(command)
                connection.pass_in(command)
            case "cut":
                connection.reset()
        return None

    def answering(self, connection: FaultyConnection, request: Command, respond: Callable[[], None]) -> None:
        """Let a call of another protocol be answered, or carry out the fault that affects its answer."""
        active = self._choose(connection, request.code, TO_CLIENT, True, call_name(request))
        match active and active.fault.do:
            case "delay":
                assert active is not None
                self._later(active, connection, TO_CLIENT, lambda _: respond(), None)
            case "drop":
                connection.connection.forget(request)
            case "cut":
                connection.reset()
            case _:  # a call cannot be answered twice
                respond()

    def outgoing(self, connection: FaultyConnection, frame: bytes, code: int, *, is_answer: bool) -> None:
        """Pass a frame that leaves, or carry out the fault that affects it."""
        active = self._choose(connection, code, TO_CLIENT, is_answer)
        if active is None:
            connection.pass_out(frame)
            return
        match active.fault.do:
            case "delay":
                self._later(active, connection, TO_CLIENT, connection.pass_out, frame)
            case "duplicate":
                connection.pass_out(frame)
                connection.pass_out(frame)
            case "cut":
                connection.reset()

    def _choose(
        self, connection: FaultyConnection, code: int, direction: str, is_answer: bool, rpc: str = ""
    ) -> ActiveFault | None:
        identity = self._identity(connection.connection)
        if is_answer and direction == TO_SERVER:
            code = UNKNOWN  # in an answer it is a response code
        active = self._faults.choose(Traffic(code, direction, is_answer, *identity, connection.connection.peer, rpc))
        if active is not None:
            self._count(active, connection.connection)
            if active.is_used_up:
                self._loop.call_soon(self._expire)
        return active

    def _later(
        self,
        active: ActiveFault,
        connection: FaultyConnection,
        direction: str,
        act: Callable[[Any], object],
        argument: object,
    ) -> None:
        """Act later, and not before earlier delayed frames of this connection: a stream has an order."""
        key = (connection.connection, active.number, direction)
        due = max(self._loop.time() + self._faults.late_by_s(active.fault), self._late.get(key, 0.0))
        self._late[key] = due
        self._loop.call_at(due, _unless_closed, connection.connection, act, argument)

    # --- reports -----------------------------------------------------------------------------------------------------

    def _count_once(self, active: ActiveFault, connection: Connection) -> None:
        key = (connection, active.number, "")
        if key not in self._late:
            self._late[key] = 0.0
            self._count(active, connection)

    def _count(self, active: ActiveFault, connection: Connection) -> None:
        if not active.fault.on_frames:
            active.done += 1
        client = self._identity(connection).client or connection.peer
        key = (active, client)
        if self._report_timer is None:  # the first is reported at once, later ones of the same second together
            self._report(DONE, active, client, 1)
            self._report_timer = self._loop.call_later(FAULT_REPORT_S, self._report_done)
        else:
            self._unreported[key] = self._unreported.get(key, 0) + 1

    def _report_done(self) -> None:
        if self._report_timer is not None:
            self._report_timer.cancel()
            self._report_timer = None
        for (active, client), n in self._unreported.items():
            self._report(DONE, active, client, n)
        self._unreported.clear()


def _unless_closed(connection: Connection, act: Callable[[Any], object], argument: object) -> None:
    if not connection.closed:
        act(argument)


def _in_heartbeat(body: bytes) -> tuple[str | None, tuple[str, ...]]:
    """The client id and the groups in a heartbeat; its handler checks whether it is well formed."""
    try:
        wire: Any = msgpack.unpackb(body)
        groups = [consumer[0] for consumer in wire["consumers"]] + list(wire["producers"])
        return str(wire["client_id"]), tuple(str(group) for group in groups)
    except (ValueError, TypeError, LookupError, msgpack.UnpackException):
        return None, ()
