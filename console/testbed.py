"""The protocol through which the owner of a test cluster offers its processes, and actions on them, to a console.

Only the owner of processes may kill or pause them, so a console of a cluster that others run has no test bed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class TestPart(NamedTuple):
    """A process of a test cluster: its name, its kind, its state, and the actions that are possible now."""

    name: str
    kind: str  # broker, consumer or producer
    state: str  # running, paused or stopped
    actions: tuple[str, ...]


class TestBed(Protocol):
    """The processes of a test cluster."""

    def parts(self) -> list[TestPart]:
        """Return the present processes."""

    def missing(self) -> str:
        """Describe the actions that are impossible here, and the alternatives."""

    async def act(self, name: str, action: str) -> str:
        """Perform an action on a process; returns a description of it.

        Raises:
            InvalidParameter: the process does not exist, or the action is not possible now.
        """

    async def add_consumer(self, group: str, topic: str) -> str:
        """Start a consumer; returns a description of it.

        Raises:
            InvalidParameter: the group or topic has an illegal name, or too many processes were added.
        """

    async def begin_fault(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a fault of live connections, as docs/testing.md lists them, at the server `at`, or at all servers.

        Returns its id, its cause, and the number of connections that it affected at once.

        Raises:
            InvalidParameter: the fault is invalid.
        """

    async def heal(self, number: int | None = None) -> int:
        """End one fault, or all; returns the number of ended faults."""

    async def active_faults(self) -> list[dict[str, Any]]:
        """Return the active faults, each with its id, the fault, and the number of affected frames and connections."""
