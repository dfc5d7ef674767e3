"""What a replay gives: which member consumed which queue when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from model.message_queue import MessageQueue
from pipeline.replay.recorded import Move


class Span(NamedTuple):
    """A member consumed a queue from `from_ms` to `to_ms`.

    Attributes:
        drained_ms: when the last of what its listener had was done.
        ended: `revoked`, `shutdown`, `silent`, or `open` at the end of the trace.
    """

    queue: MessageQueue
    client: str
    from_ms: float
    to_ms: float
    drained_ms: float
    ended: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a replay gave.

    Attributes:
        moves: leases that went to another member than the last time, in order.
        spans: who consumed what when.
        alive: (from, to, client): who was there to consume.
        passes: how many the members made.
    """

    moves: tuple[Move, ...]
    spans: tuple[Span, ...]
    alive: tuple[tuple[float, float, str], ...]
    passes: int
