"""The ledger of a crash run: what producers were promised, and what the group has consumed. Pure.

Messages are sent in *lanes*. A lane sends one message at a time and numbers them from 0, so whatever lands in one queue
from one lane has to lie there in the order of the numbers, tries that failed and were repeated included. Many lanes
make many messages in flight. A body tells its lane and number, and the rest of it follows from them, so that a changed
byte is seen.

    acknowledge(Sent(3, 0), StoredAt(q1, 17, id))    owed: the group has to get it, and the log to have it there
    give_up(Sent(3, 1), refused=False)            owed to nobody; it may be stored all the same
    deliver("c1", q1, 17)                         handed to a listener
    consume(Sent(3, 0))                           a listener was content with it: not owed any more
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import NamedTuple

from model.message_queue import MessageQueue

_HEAD = struct.Struct(">IQ")
_MIN_BODY_BYTES, _BODY_SIZES = 48, 900
LANES = 18
"""Lanes of one producer."""
MAX_EXAMPLES = 20
"""Findings of one kind that are told in full; the others are counted."""


class LaneKind(Enum):
    """How a lane sends."""

    KEYED = "by key: the queue follows from the key and the route"
    PINNED = "to one queue, whether its broker is there or not"
    ANYWHERE = "to any queue, and to another broker when the first does not answer"
    BATCH = "several messages in one request"
    DELAYED = "to be delivered later"


_KINDS = [LaneKind.KEYED] * 6 + [LaneKind.PINNED] * 6 + [LaneKind.ANYWHERE] * 4 + [LaneKind.BATCH, LaneKind.DELAYED]
assert len(_KINDS) == LANES


def lane_kind(lane: int) -> LaneKind:
    """How a lane sends: every producer has the same mixture."""
    return _KINDS[lane % LANES]


class Sent(NamedTuple):
    """A message by its lane and its number there."""

    lane: int
    number: int


class StoredAt(NamedTuple):
    """Where a broker said that a message is.

    Attributes:
        queue: its queue.
        offset: its offset there; -1 for a delayed message, which is to get one later.
        message_id: the producer's id for it.
    """

    queue: MessageQueue
    offset: int
    message_id: str


def body_of(sent: Sent) -> bytes:
    """The body of a message: from 48 to 947 bytes that all follow from its lane and number."""
    size = _MIN_BODY_BYTES + (sent.number * 7919 + sent.lane * 104_729) % _BODY_SIZES
    head = _HEAD.pack(*sent)
    return (head * (size // len(head) + 1))[:size]


def sent_of(body: bytes) -> Sent | None:
    """The message that a body belongs to; None if a byte of it is wrong."""
    if len(body) < _MIN_BODY_BYTES:
        return None
    sent = Sent(*_HEAD.unpack_from(body))
    return sent if body == body_of(sent) else None


class Findings:
    """What is wrong, counted by kind, with some examples.

    Attributes:
        counts: how many of each kind; a kind that was not found has no entry.
        examples: texts of the first ones of each kind.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.examples: list[str] = []

    def add(self, kind: str, text: str) -> None:
        """Note one."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= MAX_EXAMPLES:
            self.examples.append(f"{kind}: {text}")


class Ledger:
    """The books of one run.

    Attributes:
        acknowledged: where each acknowledged message was said to be.
        given_up: sends that failed for good.
        refused: those of them that are certainly not stored, as the error said.
        owed: acknowledged and not consumed so far; at the end they are lost to the group.
        consumed: each message that a listener was content with.
        deliveries: how often a message was handed to a listener, retries included.
        repeated: how often a listener was content with one that it, or another, had been content with before.
        findings: deliveries out of turn, and bodies that are wrong.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[Sent, StoredAt] = {}
        self.given_up = 0
        self.refused: set[Sent] = set()
        self.owed: dict[Sent, None] = {}
        self.consumed: set[Sent] = set()
        self.deliveries = 0
        self.repeated = 0
        self.findings = Findings()
        self._delivered: dict[MessageQueue, set[int]] = {}
        self._newest: dict[tuple[str, MessageQueue], int] = {}

    def acknowledge(self, sent: Sent, place: StoredAt) -> None:
        """Note that a broker has a message; once for each."""
        self.acknowledged[sent] = place
        if sent not in self.consumed:
            self.owed[sent] = None

    def give_up(self, sent: Sent, *, refused: bool) -> None:
        """Note that a send failed for good.

        Args:
            sent: its message.
            refused: whether the error says that it is not stored; otherwise that is open.
        """
        self.given_up += 1
        if refused:
            self.refused.add(sent)

    def deliver(self, owner: str, queue: MessageQueue, offset: int) -> None:
        """Note that a member of the group was handed a message.

        One that nobody was handed before has to lie behind all that this member was the first to get of this queue.
        """
        self.deliveries += 1
        delivered = self._delivered.setdefault(queue, set())
        if offset in delivered:
            return
        delivered.add(offset)
        newest = self._newest.get((owner, queue), -1)
        if offset < newest:
            self.findings.add(
                "delivered out of turn", f"{owner} got {queue}+{offset} for the first time after {newest}"
            )
        else:
            self._newest[owner, queue] = offset

    def consume(self, sent: Sent) -> None:
        """Note that a listener was content with a message."""
        if sent in self.consumed:
            self.repeated += 1
            return
        self.consumed.add(sent)
        self.owed.pop(sent, None)
