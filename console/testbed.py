"""The processes of a test cluster and what may be done to them, as their owner offers it to a console. A protocol.

Only who started processes may kill or pause them, so a console of a cluster that others run has no test bed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class TestPart(NamedTuple):
    """A process of a test cluster: its name, its kind, its state, and the actions that it takes now."""

    name: str
    kind: str  # broker, consumer or producer
    state: str  # running, paused or stopped
    actions: tuple[str, ...]


class TestBed(Protocol):
    """The processes of a test cluster."""

    def parts(self) -> list[TestPart]:
        """The processes now."""

    def missing(self) -> str:
        """What cannot be done here, and what can be done instead."""

    async def act(self, name: str, action: str) -> str:
        """Do something to a process; returns what was done.

        Raises:
            InvalidParameter: there is no such process, or it does not take this action now.
        """

    async def add_consumer(self, group: str, topic: str) -> str:
        """Start a consumer; returns what was done.

        Raises:
            InvalidParameter: the group or topic has an illegal name, or too many processes were added.
        """

    async def begin_fault(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a fault of live connections, as docs/testing.md lists them; `at` names one server, else it is all.

        Returns its id, its cause, and to how many connections it was done at once.

        Raises:
            InvalidParameter: the fault makes no sense.
        """

    async def heal(self, number: int | None = None) -> int:
        """End one fault, or all; returns how many were active."""

    async def active_faults(self) -> list[dict[str, Any]]:
        """The faults that are active, each with its id, the fault, and how often it was done."""
