"""Ports for servers that are killed and started again on the same port."""

from __future__ import annotations

import socket
from contextlib import suppress

from model.errors import ServiceNotAvailable

_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A port that is free now, and below the ephemeral ports.

    A killed broker restarts on its port. Until then its clients try to connect to it, each from an ephemeral port. If
    that were the broker's port, the client would connect to itself, and the broker would find its port in use.

    Raises:
        ServiceNotAvailable: no port in the range is free.
    """
    for port in _PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
    raise ServiceNotAvailable(f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free")


_given: set[int] = set()
