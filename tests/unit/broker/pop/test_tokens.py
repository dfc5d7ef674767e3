"""Which tokens are drawn; that they cannot be guessed is up to the generator."""

from __future__ import annotations

from random import Random

from broker.pop.ledger import GroupQueue, PopKey
from broker.pop.tokens import Tokens
from broker.pop.window import PopWindow


def queue_of(number: int = 1) -> GroupQueue:
    return GroupQueue(PopKey("g", "t", 0), number, PopWindow(0))


class Generator(Random):
    """Draws zeros, then ones, and so on: numbers that are taken before long."""

    drawn = 0

    def randbytes(self, n: int) -> bytes:
        self.drawn += 1
        return (self.drawn - 1).to_bytes(8, "little") * (n // 8)


def test_a_token_is_neither_zero_nor_that_of_another_batch() -> None:
    queue, tokens = queue_of(), Tokens(Generator())
    queue.window.deliver([0], upto=1, token=1, client_id="c", now=0.0, visible_at=1.0)
    assert tokens.new(queue) not in (0, 1)


def test_messages_of_a_batch_that_are_extended_to_one_time_share_their_new_token() -> None:
    queue, tokens = queue_of(), Tokens(Random(1))
    first = tokens.for_extension(queue, 7, 5.0)
    assert tokens.for_extension(queue, 7, 5.0) == first
    others = [tokens.for_extension(queue, 7, 5.01), tokens.for_extension(queue, 8, 5.01)]
    others.append(tokens.for_extension(queue_of(2), 8, 5.01))
    assert len({first, *others}) == 4
