"""Ledger of a crash run: messages that were acknowledged to producers, and messages that the group has consumed. Pure.

Messages are sent in *lanes*. A lane sends one message at a time and numbers them from 0, so the messages of one lane
in one queue must be stored in the order of their numbers, retried sends included. Many lanes keep many sends
outstanding. A body begins with its lane and number, and its other bytes follow from them, so that a changed byte is
detected.

    acknowledge(Sent(3, 0), StoredAt(q1, 17, id))   owed: the group must consume it, and the log must have it there
    give_up(Sent(3, 1), refused=False)              not owed; it may be stored nevertheless
    deliver("c1", q1, 17)                           a listener is called with it
    consume(Sent(3, 0))                             the listener succeeded: no longer owed
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import NamedTuple

from figures.history.ledger import Sent
from model.message_queue import MessageQueue

_HEAD = struct.Struct(">IQ")
_MIN_BODY_BYTES, _BODY_SIZES = 48, 900
LANES = 18
"""Lanes of one producer."""
MAX_EXAMPLES = 20
"""Findings of one kind that are kept in full; the others are only counted."""


class LaneKind(Enum):
    """Ways to send."""

    KEYED = "by key: the queue follows from the key and the route"
    PINNED = "to one queue, even while its broker is down"
    ANYWHERE = "to any queue, and to another broker if the first does not answer"
    BATCH = "several messages in one request"
    DELAYED = "to be delivered later"


_KINDS = [LaneKind.KEYED] * 6 + [LaneKind.PINNED] * 6 + [LaneKind.ANYWHERE] * 4 + [LaneKind.BATCH, LaneKind.DELAYED]
assert len(_KINDS) == LANES


def lane_kind(lane: int) -> LaneKind:
    """The way in which a lane sends; every producer has the same mixture."""
    return _KINDS[lane % LANES]


class StoredAt(NamedTuple):
    """Position of a message, as acknowledged by a broker."""

    queue: MessageQueue
    offset: int  # -1 for a delayed message, which gets one later
    message_id: str  # given by the producer


def body_of(sent: Sent) -> bytes:
    """The body of a message: 48 to 947 bytes, all determined by its lane and number."""
    size = _MIN_BODY_BYTES + (sent.number * 7919 + sent.lane * 104_729) % _BODY_SIZES
    head = _HEAD.pack(*sent)
    return (head * (size // len(head) + 1))[:size]


def sent_of(body: bytes) -> Sent | None:
    """The message of a body; None if a byte of it is wrong."""
    if len(body) < _MIN_BODY_BYTES:
        return None
    sent = Sent(*_HEAD.unpack_from(body))
    return sent if body == body_of(sent) else None


class Findings:
    """Violations, counted by kind, with the first ones of each kind as examples."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # a kind that was not found has no entry
        self.examples: list[str] = []

    def add(self, kind: str, text: str) -> None:
        """Add a finding."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= MAX_EXAMPLES:
            self.examples.append(f"{kind}: {text}")


class Ledger:
    """Messages of one run."""

    def __init__(self) -> None:
        self.acknowledged: dict[Sent, StoredAt] = {}
        self.given_up = 0  # sends that failed for good
        self.refused: set[Sent] = set()  # failed sends that are certainly not stored, by their error
        self.owed: dict[Sent, None] = {}  # acknowledged and not consumed yet; any left at the end are lost to the group
        self.consumed: set[Sent] = set()
        self.deliveries = 0  # messages passed to listeners, retries included
        self.repeated = 0  # messages processed again
        self.findings = Findings()
        self._delivered: dict[MessageQueue, set[int]] = {}
        self._newest: dict[tuple[str, MessageQueue], int] = {}

    def acknowledge(self, sent: Sent, place: StoredAt) -> None:
        """Record that a broker has acknowledged a message; once for each."""
        self.acknowledged[sent] = place
        if sent not in self.consumed:
            self.owed[sent] = None

    def give_up(self, sent: Sent, *, refused: bool) -> None:
        """Record that a send failed for good.

        `refused` means that the error says that it is certainly not stored; otherwise it may be.
        """
        self.given_up += 1
        if refused:
            self.refused.add(sent)

    def deliver(self, owner: str, queue: MessageQueue, offset: int) -> None:
        """Record that a message was delivered to a member of the group.

        A first delivery must come after all earlier first deliveries of this queue to this member.
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
        """Record that a listener has processed a message."""
        if sent in self.consumed:
            self.repeated += 1
            return
        self.consumed.add(sent)
        self.owed.pop(sent, None)
