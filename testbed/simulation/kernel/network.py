"""A network on the virtual clock: hosts, latency, and on demand partitions, resets, refusals and hung hosts.

Each node has a host name; any string will do. A listener's host is the one it binds; what connects is on the host of
its context, which tasks inherit: `with network.host("10.0.0.7"): ...`. The addresses "", 0.0.0.0, 127.0.0.1 and
localhost mean the context's host.

Invariant: a fault holds for existing and for later connections, from its call until it is healed; overlapping faults
are healed one by one. Two networks with equal arguments, faults and traffic behave equally.

Example::

    network = SimulatedNetwork(loop, random.Random(7), latency_s=0.002)
    with network.partition("10.0.0.1", ["10.0.0.2", "10.0.0.3"]):
        ...  # bytes stall and connects hang; both continue after the block
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import socket
from collections.abc import Callable, Generator, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from random import Random

from testbed.simulation.kernel.loop import VirtualLoop
from testbed.simulation.kernel.sockets import Address, Link, Listener, Pipe, SimulatedConnection, VirtualSocket, Wire
from testbed.simulation.kernel.standstill import Standstill

DEFAULT_LATENCY_S = 0.000_5
DEFAULT_WINDOW_BYTES = 64 * 1024
MAX_WINDOW_BYTES = 256 * 1024
"""asyncio reads at most this much at once, and a socket returns all that has arrived."""

FIRST_PORT, LAST_PORT = 49_152, 65_535
HERE = frozenset({"", "0.0.0.0", "::", "127.0.0.1", "::1", "localhost"})

_current_host: ContextVar[str] = ContextVar("simulated_host", default="127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkStatistics:
    """Counters of a network, and the number of its connections now."""

    bytes_sent: int
    bytes_delivered: int
    deliveries: int
    connections_opened: int
    connections_open: int
    connections_refused: int


class Fault:
    """A fault of the network, which lasts until `heal`, the end of its `with` block, or `SimulatedNetwork.heal`."""

    def __init__(self, active: dict[Fault, None], description: str, undo: Callable[[], object]) -> None:
        self._active, self._description, self._undo = active, description, undo
        active[self] = None

    def heal(self) -> None:
        """End the fault; harmless when it has ended."""
        if self in self._active:
            del self._active[self]
            self._undo()

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_error: object) -> None:
        self.heal()

    def __repr__(self) -> str:
        return f"<{self._description}, {'active' if self in self._active else 'healed'}>"


class SimulatedNetwork:
    """The network of one virtual loop, used through the loop's `create_server` and `create_connection`.

    Args:
        loop: The loop whose connections it carries from now on.
        random: Source of the jitter.
        latency_s: One way from one host to another; also within a host.
        jitter_s: Up to this much is added to each latency.
        window_bytes: Bytes that may be sent in one direction and not yet read; at most 256 KiB.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        random: Random,
        *,
        latency_s: float = DEFAULT_LATENCY_S,
        jitter_s: float = 0.0,
        window_bytes: int = DEFAULT_WINDOW_BYTES,
    ) -> None:
        if latency_s < 0 or jitter_s < 0:
            raise ValueError(f"latency_s={latency_s} and jitter_s={jitter_s} must not be negative")
        if not 0 < window_bytes <= MAX_WINDOW_BYTES:
            raise ValueError(f"window_bytes={window_bytes} must be in 1 to {MAX_WINDOW_BYTES}")
        self._loop, self._latency_s = loop, latency_s
        self._wire = Wire(loop.kernel, random, jitter_s=jitter_s, window_bytes=window_bytes)
        self._links: dict[tuple[str, str], Link] = {}
        self._ports: dict[Address, Listener | None] = {}  # taken; by a listener, or by a client
        self._next_port: dict[str, int] = {}
        self._connections: dict[SimulatedConnection, None] = {}
        self._opened = self._refused = 0
        self._faults: dict[Fault, None] = {}
        self.standstill = Standstill(loop, _current_host)
        self._blocked: list[Callable[[str, str], bool]] = []
        self._refusing: list[Address] = []
        self._dead: dict[str, None] = {}  # hosts whose process was killed
        loop.network = self

    # ------------------------------------------------------------------------------------------- hosts and connections

    @contextlib.contextmanager
    def host(self, host: str) -> Generator[None]:
        """Be on `host` in this block: connections of the block and of tasks that it starts come from there."""
        token = _current_host.set(host)
        try:
            yield
        finally:
            _current_host.reset(token)

    @property
    def here(self) -> str:
        """The host on which the code runs that asks."""
        return _current_host.get()

    def bind(self, host: str | None, port: int) -> Listener:
        """Bind an address for a server.

        A host of `HERE`, or None, is the current host. Port 0 takes a free one, the same in every run.

        Raises:
            OSError: The port is taken (EADDRINUSE).
        """
        address = self._allocate_port(self._resolve(host), port)
        listener = Listener(self._loop.kernel, address, partial(self._ports.pop, address, None))
        self._ports[address] = listener
        return listener

    async def connect(self, host: str | None, port: int) -> VirtualSocket:
        """Connect from the current host; takes one round trip.

        Raises:
            ConnectionRefusedError: No process listens there, or a fault refuses; after the round trip.

        Cancellation: the attempt ends; a server that it has not reached never sees it.
        """
        client = self._allocate_port(_current_host.get(), 0)
        server = (self._resolve(host), port)
        self._ports[client] = None
        links = self._link(client[0], server[0]), self._link(server[0], client[0])
        connection = SimulatedConnection(self._wire, client, server, links, self._forget)
        to_server, to_client = connection.pipes
        answered: asyncio.Future[Listener | None] = self._loop.create_future()

        def answer(listener: Listener | None) -> None:
            if not answered.done() and client[0] not in self._dead:
                answered.set_result(listener)

        def ask() -> None:
            if client[0] in self._dead:
                return
            is_refused = server in self._refusing or server[0] in self._dead
            listener = None if is_refused else self._ports.get(server)
            to_client.send(partial(answer, listener if listener and listener.listening else None))

        to_server.send(ask)
        try:
            listener = await answered
            if listener is None:
                self._refused += 1
                raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {server}")
        except BaseException:
            connection.abandon()
            raise
        connection.establish(listener)
        self._connections[connection] = None
        self._opened += 1
        return connection.client_socket

    def connections(self, a: str | None = None, b: str | None = None) -> tuple[SimulatedConnection, ...]:
        """Return the open connections, oldest first: all, the ones of host `a`, or the ones between `a` and `b`."""
        hosts = {host for host in (a, b) if host is not None}
        return tuple(each for each in self._connections if hosts <= {each.client[0], each.server[0]})

    def statistics(self) -> NetworkStatistics:
        """Return the counters as they are now."""
        return NetworkStatistics(
            bytes_sent=self._wire.bytes_sent,
            bytes_delivered=self._wire.bytes_delivered,
            deliveries=self._wire.deliveries,
            connections_opened=self._opened,
            connections_open=len(self._connections),
            connections_refused=self._refused,
        )

    # ---------------------------------------------------------------------------------------------------------- faults

    def set_latency(self, a: str, b: str, latency_s: float, *, one_way: bool = False) -> Fault:
        """Change the latency from `a` to `b`, and back unless `one_way`; healing restores the network's own.

        Bytes in flight arrive at their old time, and later ones do not overtake them.
        """
        if latency_s < 0:
            raise ValueError(f"latency_s={latency_s} must not be negative")
        links = [self._link(a, b)] if one_way else [self._link(a, b), self._link(b, a)]

        def change(latency_s: float) -> None:
            for link in links:
                link.latency_s = latency_s

        change(latency_s)
        return self._fault(f"latency {a} {b} {latency_s} s", partial(change, self._latency_s))

    def partition(self, a: str | Iterable[str], b: str | Iterable[str], *, one_way: bool = False) -> Fault:
        """Stop everything from hosts `a` to hosts `b`, and back unless `one_way`.

        Nothing is lost or reset: bytes and connection attempts stall, as when a cable is pulled, and continue when
        healed.
        """
        from_, to = _hosts(a), _hosts(b)

        def covers(source: str, target: str) -> bool:
            return (source in from_ and target in to) or (not one_way and source in to and target in from_)

        return self._block(f"partition {' '.join(from_)} {'|' if not one_way else '/'} {' '.join(to)}", covers)

    def stall(self, host: str) -> Fault:
        """Deliver nothing to or from `host`, nor within it, as when its process hangs."""
        return self._block(f"stall {host}", lambda source, target: host in (source, target))

    def kill(self, host: str) -> Fault:
        """Let nothing more come from the process of `host` or reach it, and refuse connections to it.

        As after SIGKILL: its machine works, and answers for the ports on which processes no longer listen. Nothing
        that the process begins before its end has an effect; heal this after its end.
        """
        for connection in self.connections(host):
            for pipe in connection.pipes:
                pipe.block()
        self._dead[host] = None
        return self._fault(f"kill {host}", partial(self._dead.pop, host, None))

    def freeze(self, host: str) -> Fault:
        """Stop the process of a host, as SIGSTOP does: nothing of it runs until this is healed. Its clocks go on."""
        self.standstill.freeze(host)
        return self._fault(f"freeze {host}", partial(self.standstill.go_on, host))

    def pause_machine(self, host: str) -> Fault:
        """Let a whole machine stand still, with the loop's clock of its process, until this is healed."""
        self.standstill.pause(host)
        return self._fault(f"pause {host}", partial(self.standstill.go_on, host))

    def stall_connection(self, connection: SimulatedConnection) -> Fault:
        """Deliver nothing on this connection, in either direction."""
        for pipe in connection.pipes:
            pipe.block()

        def unblock() -> None:
            for pipe in connection.pipes:
                pipe.unblock()

        return self._fault(f"stall connection {connection.client} {connection.server}", unblock)

    def half_open(self, connection: SimulatedConnection, host: str) -> Fault:
        """Reset a connection at the end of `host` alone: the other end learns nothing of it until this is healed."""
        fault = self.stall_connection(connection)
        connection.break_end(host)
        return fault

    def forget(self, connection: SimulatedConnection) -> None:
        """Lose all that is sent on a connection from now on, as a router does that has forgotten it; it stays so.

        Neither end is notified. An end that sends nothing is reset by its system after as many seconds as the options
        for its keepalive say. One that sends is not: by default, Linux repeats unconfirmed bytes for 15 minutes.
        """
        self.stall_connection(connection)
        for pipe in connection.pipes:
            pipe.drop()
            if (silence_s := _keepalive_s(pipe.sender)) > 0:
                self._loop.call_later(silence_s, _reset_if_idle, pipe)

    def refuse(self, host: str, port: int) -> Fault:
        """Refuse new connections to this address; those that exist stay."""
        self._refusing.append((host, port))
        return self._fault(f"refuse {host}:{port}", partial(self._refusing.remove, (host, port)))

    def cut(self, a: str, b: str | None = None) -> int:
        """Reset the connections between `a` and `b`, or all of `a`, at both ends, now; returns their number.

        There is nothing to heal: both ends may connect again.
        """
        cut = self.connections(a, b)
        for connection in cut:
            connection.cut()
        return len(cut)

    def heal(self) -> None:
        """End every fault that is still active, the latest first."""
        for fault in tuple(reversed(self._faults)):
            fault.heal()

    # ------------------------------------------------------------------------------------------------------- internals

    def _fault(self, description: str, undo: Callable[[], object]) -> Fault:
        return Fault(self._faults, description, undo)

    def _block(self, description: str, covers: Callable[[str, str], bool]) -> Fault:
        self._blocked.append(covers)
        for (source, target), link in self._links.items():
            if covers(source, target):
                link.block()

        def undo() -> None:
            self._blocked.remove(covers)
            for (source, target), link in self._links.items():
                if covers(source, target):
                    link.unblock()

        return self._fault(description, undo)

    def _link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self._latency_s)
            link.blocks = sum(covers(source, target) for covers in self._blocked)
        return link

    def _resolve(self, host: str | None) -> str:
        return _current_host.get() if host is None or host in HERE else host

    def _allocate_port(self, host: str, port: int) -> Address:
        if port:
            if (host, port) in self._ports:
                raise OSError(
                    errno.EADDRINUSE,
                    f"error while attempting to bind on address {(host, port)}: address already in use",
                )
            return host, port
        first = self._next_port.get(host, FIRST_PORT)
        for candidate in itertools.chain(range(first, LAST_PORT + 1), range(FIRST_PORT, first)):
            if (host, candidate) not in self._ports:
                self._next_port[host] = candidate + 1
                return host, candidate
        raise OSError(errno.EADDRNOTAVAIL, f"host {host} has no free port between {FIRST_PORT} and {LAST_PORT}")

    def _forget(self, connection: SimulatedConnection) -> None:
        self._connections.pop(connection, None)
        self._ports.pop(connection.client, None)


def _keepalive_s(end: VirtualSocket) -> float:
    """After how many silent seconds the system of an end resets a connection; 0 if it was not asked to."""
    idle: int = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE")  # noqa: B009 - of macOS
    idle_s, interval_s, probes = (
        end.getsockopt(socket.IPPROTO_TCP, option) for option in (idle, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    )
    return end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) and idle_s + interval_s * probes


def _reset_if_idle(pipe: Pipe) -> None:
    if not pipe.unread and not pipe.sender.closed:
        pipe.sender.break_()


def _hosts(hosts: str | Iterable[str]) -> dict[str, None]:
    return dict.fromkeys([hosts] if isinstance(hosts, str) else hosts)
