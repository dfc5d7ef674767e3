"""Fault injection into the connections of a name server, which a test cluster starts as a child process."""

from __future__ import annotations

from random import Random

from model.events import EventKind
from remoting.faults.hook import FaultHook
from remoting.server import RemotingServer


class NameServerFaults:
    """The faults of its connections. A name server has no trace: brokers record its faults."""

    def __init__(self, server: RemotingServer) -> None:
        self._server = server

    def hook(self, rng: Random) -> FaultHook:
        """Create the hook that injects the faults into its connections."""
        return FaultHook(self._server, lambda kind, active, client, n: active.cause, rng=rng)

    def record(self, kind: EventKind, process: str, verb: str, cause: str) -> str:
        """Record nothing; returns an empty id."""
        return ""
