"""Inbox: the commands of one connection that wait for a later iteration of the event loop. Pure.

A connection handles a few of its commands per iteration, so that other connections get their turn. A late server puts
requests aside, and takes no more from a connection that has many of them aside.

    receive([a, b, c], 900)     three commands of 900 bytes
    hand_out(handle)            handles some of them, in order; the others wait for the next call
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from model.limits import COMMANDS_PER_ITERATION, MAX_INBOX_BYTES, MAX_INBOX_COMMANDS, MAX_WAITING_OF_ONE
from remoting.command import Command, request_cost


class Inbox(deque[Command]):
    """Commands in the order in which they arrived.

    Attributes:
        aside: number of requests of the connection that a late server has put aside.
        is_scheduled: whether `hand_out` will be called in the next iteration.
    """

    __slots__ = ("_n_bytes", "aside", "is_scheduled")

    def __init__(self) -> None:
        super().__init__()
        self._n_bytes = 0  # read since it was empty
        self.aside = 0
        self.is_scheduled = False

    def receive(self, commands: Sequence[Command], n_bytes: int) -> None:
        """Add the commands that were read with these bytes."""
        self.extend(commands)
        self._n_bytes += n_bytes

    def hand_out(self, handle: Callable[[Command], object]) -> None:
        """Handle some commands; `handle` returns whether it only put one aside, which costs almost nothing."""
        self.is_scheduled = False
        popleft, budget = self.popleft, COMMANDS_PER_ITERATION
        while self and budget > 0 and self.aside < MAX_WAITING_OF_ONE:
            command = popleft()
            if not handle(command):
                budget -= request_cost(command)
        if not self:
            self._n_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no more may be read from the connection."""
        return self._n_bytes > MAX_INBOX_BYTES or self.aside >= MAX_WAITING_OF_ONE or len(self) > MAX_INBOX_COMMANDS
