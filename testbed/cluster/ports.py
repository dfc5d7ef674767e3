"""Ports for servers that are killed and started again on the same port."""

from __future__ import annotations

import atexit
import socket
import sys
from contextlib import suppress

from model.errors import ServiceNotAvailable

_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A port of loopback that is free now, below the ephemeral ports, and reserved for this process on Linux.

    A killed broker restarts on its port. Until then its clients try to connect to it, each from an ephemeral port. If
    that were the broker's port, the client would connect to itself, and the broker would find its port in use.

    The reservation is a bound socket that does not listen, kept until this process ends: the server listens beside it
    if it sets SO_REUSEADDR (asyncio, uvloop, Java and Go do), and another process that looks for a free port, without
    that option, is refused. macOS lets no server listen beside it, so nothing is reserved there.

    Raises:
        ServiceNotAvailable: no port in the range is free.
    """
    for port in _PORTS:
        if port not in _reserved:
            probe = socket.socket()
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                # Only after the bind: two probes with the option would both get the port.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if sys.platform != "linux":
                    probe.close()
                atexit.register(probe.close)
                _reserved[port] = probe
                return port
            probe.close()
    raise ServiceNotAvailable(f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free")


_reserved: dict[int, socket.socket] = {}
"""The sockets that keep the ports of this process."""
