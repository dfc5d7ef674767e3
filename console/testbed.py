"""The processes of a test cluster and what may be done to them, as their owner offers it to a console. A protocol.

Only who started processes may kill or pause them, so a console of a cluster that others run has no test bed.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


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
