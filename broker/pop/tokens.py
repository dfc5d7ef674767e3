"""Delivery tokens: random numbers of 64 bits, one for each batch, which no client can guess."""

from __future__ import annotations

from array import array
from random import Random

from broker.pop.ledger import GroupQueue

_TOKENS_AT_A_TIME = 64
"""Numbers are drawn in blocks: a call of the system's generator costs more than the numbers that it returns."""


class Tokens:
    """Draws the delivery tokens of one broker."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._drawn = array("Q")
        # (queue, old token, end of the invisible time) of the newest extension, and the token that it was given.
        self._extension: tuple[int, int, float] | None = None
        self._extension_token = 0

    def new(self, queue: GroupQueue) -> int:
        """A token that no other batch of the queue has."""
        while True:
            if not self._drawn:
                self._drawn = array("Q", self._rng.randbytes(8 * _TOKENS_AT_A_TIME))
            token = self._drawn.pop()
            if token and token not in queue.window.batches:
                return token

    def for_extension(self, queue: GroupQueue, token: int, visible_at: float) -> int:
        """The token of a message that stays invisible until another time.

        A client that needs more time for a batch extends its messages one after another, within a moment: all of them
        get the same token, so they are one batch again.
        """
        extension = (queue.number, token, visible_at)
        if self._extension != extension:
            self._extension, self._extension_token = extension, self.new(queue)
        return self._extension_token
