"""TCP of the simulated kernel, as asyncio uses it: listeners, sockets, and the pipes between two of them.

It simulates the kernel, not asyncio: these objects answer the calls that asyncio makes on a socket, and the loop builds
its own transports and servers on top of them. So flow control, half-closing, aborting and closing behave as on a real
machine, because they are the same code.

    transport.write -> socket.send -> pipe: latency, blocks -> other socket, unread -> recv -> protocol.data_received

Invariant: the bytes of one direction arrive in the order in which they were sent, or the connection is reset. No more
than the window is ever sent and unread in one direction; the rest waits in the transport, which pauses its protocol.

Example: latency 2 ms, window 64 KiB. A client writes 100 KiB at 0 ms, and the server reads all that arrives: 64 KiB
at 2 ms, and the rest, for which that made room, at 4 ms.
"""

from __future__ import annotations

import errno
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterable
from random import Random

from testbed.simulation.kernel.duplicate import Duplicate
from testbed.simulation.kernel.selector import VirtualSelector

Address = tuple[str, int]
Arrival = bytes | Callable[[], object]
"""An element in a pipe: bytes of the stream, or a function that is called on arrival (open, end of stream, reset)."""


class Wire:
    """Shared by all sockets of a network: the kernel's clock and poll, chance, limits and counters."""

    def __init__(self, kernel: VirtualSelector, random: Random, *, jitter_s: float, window_bytes: int) -> None:
        self.kernel, self.random = kernel, random
        self.jitter_s, self.window_bytes = jitter_s, window_bytes
        self.bytes_sent = self.bytes_delivered = self.deliveries = 0


class Link:
    """One direction between two hosts, shared by the connections between them."""

    __slots__ = ("blocks", "latency_s", "pipes")

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.blocks = 0  # how many faults stop it
        self.pipes: dict[Pipe, None] = {}

    def block(self) -> None:
        """Stop every connection of this link."""
        self.blocks += 1

    def unblock(self) -> None:
        """Undo one `block`; with the last one the blocked bytes flow."""
        self.blocks -= 1
        for pipe in tuple(self.pipes):
            pipe.resume()


class Pipe:
    """One direction of one connection.

    It has at most one booking with the kernel, for the next arrival, however much is in flight.
    """

    __slots__ = (
        "_booked",
        "_due_s",
        "_in_flight",
        "_sent_s",
        "_wire",
        "blocks",
        "link",
        "receiver",
        "sender",
        "unread",
    )

    def __init__(self, wire: Wire, link: Link, *, sender: VirtualSocket, receiver: VirtualSocket) -> None:
        self._wire, self.link, self.sender, self.receiver = wire, link, sender, receiver
        self.blocks = 0  # how many faults stop this connection alone
        self.unread = 0  # bytes sent and not yet read, wherever they are
        self._in_flight: deque[tuple[float, Arrival]] = deque()
        self._sent_s = self._due_s = -1.0  # of the last bytes sent
        self._booked = False
        link.pipes[self] = None
        sender.outbound = receiver.inbound = self

    def send(self, item: Arrival) -> None:
        """Deliver `item` after the latency of the link, and after everything sent before it."""
        wire = self._wire
        now_s = wire.kernel.now_s
        if now_s != self._sent_s:  # what leaves at one instant arrives at one instant
            self._sent_s = now_s
            self._due_s = now_s + self.link.latency_s
            if wire.jitter_s:
                self._due_s += wire.random.random() * wire.jitter_s
        self._in_flight.append((self._due_s, item))  # if it is due before earlier bytes, it waits behind them
        if not self._booked:
            self._book()

    def block(self) -> None:
        """Stop this direction of this connection."""
        self.blocks += 1

    def unblock(self) -> None:
        """Undo one `block`; with the last one the blocked bytes flow."""
        self.blocks -= 1
        self.resume()

    def resume(self) -> None:
        """Send the blocked bytes again; another fault that still holds stops them again."""
        again_s = self._wire.kernel.now_s + self.link.latency_s
        self._in_flight = deque((max(due_s, again_s), item) for due_s, item in self._in_flight)
        if self._in_flight and not self._booked:
            self._book()

    def drop(self) -> None:
        """Lose everything that is in flight."""
        self._in_flight.clear()

    def _book(self) -> None:
        self._booked = True
        self._wire.kernel.at(self._in_flight[0][0], self._arrive)

    def _arrive(self) -> None:
        self._booked = False
        if self.blocks or self.link.blocks:
            return
        in_flight, receiver, now_s = self._in_flight, self.receiver, self._wire.kernel.now_s
        while in_flight and in_flight[0][0] <= now_s:
            item = in_flight.popleft()[1]
            if isinstance(item, bytes):
                receiver.receive(item)
            else:
                item()
        if in_flight and not self._booked:
            self._book()


class _SocketFile:
    """The calls that asyncio makes on every socket."""

    family, type, proto = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP

    def __init__(self, kernel: VirtualSelector, address: Address) -> None:
        self._kernel, self._address = kernel, address
        self._options: dict[tuple[int, int], int] = {}
        self.fd, self.closed = kernel.open(), False

    def fileno(self) -> int:
        """Return the virtual descriptor, -1 when closed."""
        return -1 if self.closed else self.fd

    def getsockname(self) -> Address:
        """Return the address of this end."""
        return self._address

    def setblocking(self, _flag: bool) -> None:
        """Do nothing: a virtual socket never blocks."""

    def setsockopt(self, level: int, name: int, value: int) -> None:
        """Keep an option, for `SimulatedNetwork.forget`: there is no Nagle algorithm to switch off."""
        self._options[level, name] = value

    def getsockopt(self, level: int, name: int) -> int:
        """Return an option; 0 for one that was not set."""
        return self._options.get((level, name), 0)


class VirtualSocket(_SocketFile):
    """One end of a connection, as asyncio's transport sees it: non-blocking, and failing with a kernel's errors."""

    outbound: Pipe
    inbound: Pipe

    def __init__(self, wire: Wire, address: Address, peer: Address, on_close: Callable[[], object]) -> None:
        super().__init__(wire.kernel, address)
        self._wire, self._peer, self._on_close, self._open_duplicates = wire, peer, on_close, 0
        self._unread: list[bytes] = []
        self._ended = self._broken = self._shut = False
        self._kernel.attach(self)

    def getpeername(self) -> Address:
        """Return the address of the other end."""
        return self._peer

    def poll(self) -> int:
        """See `VirtualFile.poll`; a broken connection is ready for everything, so that reads and writes fail."""
        ready = selectors.EVENT_READ if self._unread or self._ended or self._broken else 0
        if self._broken or self.outbound.unread < self._wire.window_bytes:
            ready |= selectors.EVENT_WRITE
        return ready

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send as much as the window has room for; returns the number of bytes, at least 1.

        Raises:
            BlockingIOError: The window is full.
            ConnectionResetError: The connection was reset.
        """
        if self._broken:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        wire, pipe = self._wire, self.outbound
        room = wire.window_bytes - pipe.unread
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        sent = data if isinstance(data, bytes) and len(data) <= room else bytes(memoryview(data).cast("B")[:room])
        pipe.unread += len(sent)
        wire.bytes_sent += len(sent)
        pipe.send(sent)
        return len(sent)

    def sendmsg(self, buffers: Iterable[bytes | bytearray | memoryview]) -> int:
        """Send several buffers as one, as asyncio's transports do from Python 3.12 on."""
        return self.send(b"".join(buffers))

    def recv(self, limit: int) -> bytes:
        """Return everything that has arrived, b"" at the end of the stream.

        Raises:
            BlockingIOError: Nothing has arrived.
            ConnectionResetError: The connection was reset, and what arrived before has been read.
        """
        if self._unread:
            data = self._unread[0] if len(self._unread) == 1 else b"".join(self._unread)
            assert len(data) <= limit, (
                f"asyncio reads only {limit} bytes at once, and the window let {len(data)} arrive"
            )
            self._unread.clear()
            pipe = self.inbound
            if pipe.unread >= self._wire.window_bytes:
                self._kernel.wake(pipe.sender)
            pipe.unread -= len(data)
            if not (self._ended or self._broken):
                self._kernel.mark_read(self)
            return data
        if self._broken:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        if self._ended:
            return b""
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    def shutdown(self, _how: int) -> None:
        """End the outbound stream; asyncio never shuts the inbound one alone."""
        if not self._shut:
            self._shut = True
            self.outbound.send(self.outbound.receiver.end)

    def close(self, *, reset: bool = False) -> None:
        """Close as a kernel does: bytes sent are still delivered; unread bytes, or `reset`, reset the connection."""
        if self.closed:
            return
        self.closed = True
        if (reset or self._unread) and not self._open_duplicates:
            self.outbound.send(self.outbound.receiver.break_)
        elif not self._broken and not self._open_duplicates:
            self.shutdown(socket.SHUT_WR)
        self._kernel.detach(self)
        self._on_close()

    def dup(self) -> Duplicate:
        """Return a second descriptor of this end, which stays open until both are closed."""
        self._open_duplicates += 1
        return Duplicate(self.shutdown, self._closed_duplicate)

    def _closed_duplicate(self) -> None:
        self._open_duplicates -= 1
        if self.closed and not self._open_duplicates:  # bytes after `close` were not read, so it is reset
            self.outbound.send(self.outbound.receiver.break_)

    def receive(self, data: bytes) -> None:
        """Bytes arrive."""
        if self.closed:  # they will never be read, and a kernel answers that with a reset
            if not self._open_duplicates:
                self.outbound.send(self.outbound.receiver.break_)
            return
        self._unread.append(data)
        self._wire.bytes_delivered += len(data)
        self._wire.deliveries += 1
        self._kernel.wake(self)

    def end(self) -> None:
        """The end of the inbound stream arrives."""
        self._ended = True
        self._kernel.wake(self)

    def break_(self) -> None:
        """A reset arrives."""
        self._broken = True
        self._kernel.wake(self)


class SimulatedConnection:
    """Two sockets and the pipes between them.

    `links` are from the client's host to the server's, and back. `on_closed` is called once both ends are closed.
    """

    def __init__(
        self,
        wire: Wire,
        client: Address,
        server: Address,
        links: tuple[Link, Link],
        on_closed: Callable[[SimulatedConnection], object],
    ) -> None:
        self.client, self.server = client, server
        self._on_closed = on_closed
        self._admitted = False
        self.client_socket = VirtualSocket(wire, client, server, self._closed_one_end)
        self.server_socket = VirtualSocket(wire, server, client, self._closed_one_end)
        self.pipes = (
            Pipe(wire, links[0], sender=self.client_socket, receiver=self.server_socket),
            Pipe(wire, links[1], sender=self.server_socket, receiver=self.client_socket),
        )

    def establish(self, listener: Listener) -> None:
        """Complete the handshake: the client may send from now on, after its last packet of the handshake."""

        def admit() -> None:
            self._admitted = True
            listener.admit(self.server_socket)

        self.pipes[0].send(admit)

    def cut(self) -> None:
        """Reset the connection at both ends, now; bytes in flight are lost."""
        for pipe in self.pipes:
            pipe.drop()
            pipe.receiver.break_()
        if not self._admitted:  # and it never will be, so no server closes this end
            self.server_socket.close()

    def break_end(self, host: str) -> None:
        """Reset the connection at the end that is on a host, and nowhere else; bytes in flight to it are lost."""
        for pipe in self.pipes:
            if pipe.receiver.getsockname()[0] == host:
                pipe.drop()
                pipe.receiver.break_()

    def abandon(self) -> None:
        """Forget a connection that was never established."""
        for pipe in self.pipes:
            pipe.receiver.close()
            pipe.drop()

    def _closed_one_end(self) -> None:
        if self.client_socket.closed and self.server_socket.closed:
            for pipe in self.pipes:
                del pipe.link.pipes[pipe]
            self._on_closed(self)


class Listener(_SocketFile):
    """A bound socket: it takes connections between `listen` and `close`."""

    def __init__(self, kernel: VirtualSelector, address: Address, on_close: Callable[[], object]) -> None:
        super().__init__(kernel, address)
        self.listening = False
        self._on_close = on_close
        self._queue: deque[VirtualSocket] = deque()
        kernel.attach(self)

    def listen(self, _backlog: int) -> None:
        """Accept connections from now on; their number is not limited."""
        self.listening = True

    def poll(self) -> int:
        """See `VirtualFile.poll`."""
        return selectors.EVENT_READ if self._queue else 0

    def admit(self, server_socket: VirtualSocket) -> None:
        """The last packet of a handshake arrives."""
        if self.closed:
            server_socket.close(reset=True)
            return
        self._queue.append(server_socket)
        self._kernel.wake(self)

    def accept(self) -> tuple[VirtualSocket, Address]:
        """Return the next connection and the client's address; raises BlockingIOError when there is none."""
        if not self._queue:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        accepted = self._queue.popleft()
        return accepted, accepted.getpeername()

    def close(self) -> None:
        """Stop listening; connections that were not accepted are reset."""
        if self.closed:
            return
        self.closed, self.listening = True, False
        for server_socket in self._queue:
            server_socket.close(reset=True)
        self._queue.clear()
        self._kernel.detach(self)
        self._on_close()
