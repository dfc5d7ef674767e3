"""Ledger of a crash run: the acknowledged messages with their places, and the messages that the group received. Pure.

A history check (`traces/check`) judges the deliveries to the group. Only the ledger has the place of each message, and
the sends that were certainly refused.

Messages are sent in *lanes*. A lane sends one message at a time and numbers them from 0, so the messages of one lane
in one queue must be stored in the order of their numbers, retried sends included. Many lanes keep many sends
outstanding. A body begins with its lane and number. Its other bytes are computed from them, so that a changed byte is
detected.

    acknowledge(SentMessage(3, 0), SendResult(q1, 17, id))   the group must consume it, and the log has it at q1+17
    record_failure(SentMessage(3, 1), refused=False)              it may be stored nevertheless
    deliver("c1", SentMessage(3, 0), q1, 17)               a listener is called with it
    consume("c1", SentMessage(3, 0), q1, 17)               the listener succeeded
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from model.message import SendResult
from model.message_queue import MessageQueue
from testbed.load.body import make_body, read_number
from traces.check.check import HistoryCheck
from traces.check.ledger import SentMessage, dispatched_line, ended_line, failed_line, sent_line
from traces.check.limits import HistoryLimits
from traces.check.verdict import GroupMessages, Verdict

GROUP = "crash-audit"
_MIN_BODY_BYTES, _BODY_SIZES = 48, 900
LANES = 18
"""Lanes of one producer."""
BATCH = 8
"""Messages in one request of a lane of kind `BATCH`: numbers 0 to 7, 8 to 15, ..."""
MAX_EXAMPLES = 20
"""Findings of one kind that are kept as text; further ones are only counted."""


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


def crash_body(sent: SentMessage) -> bytes:
    """The body of a message: 48 to 947 bytes, all determined by its lane and number."""
    return make_body(sent, _MIN_BODY_BYTES + (sent.number * 7919 + sent.lane * 104_729) % _BODY_SIZES)


def parse_crash_body(body: bytes) -> SentMessage | None:
    """The message of a body; None if a byte of it is wrong."""
    if len(body) < _MIN_BODY_BYTES:
        return None
    sent = read_number(body)
    return sent if body == crash_body(sent) else None


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
    """Messages of one run; `clock_ms` is any clock that advances."""

    def __init__(self, clock_ms: Callable[[], float]) -> None:
        self.acknowledged: dict[SentMessage, SendResult] = {}
        self.refused: set[SentMessage] = set()  # failed sends that are certainly not stored, by their error
        self.deliveries = 0  # messages passed to listeners, retries included
        self.findings = Findings()
        self._history = HistoryCheck(HistoryLimits(all_consumed=True))
        self._clock_ms = clock_ms

    def acknowledge(self, message: SentMessage, result: SendResult) -> None:
        """Record that a broker has acknowledged a message; to be called once for each message."""
        self.acknowledged[message] = result
        self._history.feed(sent_line(self._clock_ms(), message, result.queue, result.offset))

    def record_failure(self, message: SentMessage, *, refused: bool) -> None:
        """Record that a send failed for good.

        `refused` means that the message is certainly not stored, by the error of the send; otherwise it may be stored.
        """
        self._history.feed(failed_line(self._clock_ms(), message))
        if refused:
            self.refused.add(message)

    def deliver(self, owner: str, message: SentMessage, queue: MessageQueue, offset: int) -> None:
        """Record that a message was delivered to a member of the group."""
        self.deliveries += 1
        self._history.feed(dispatched_line(self._clock_ms(), GROUP, owner, message, queue, offset))

    def consume(self, owner: str, message: SentMessage, queue: MessageQueue, offset: int) -> None:
        """Record that a listener has processed a message."""
        self._history.feed(ended_line(self._clock_ms(), GROUP, owner, message, queue, offset))

    @property
    def messages(self) -> GroupMessages:
        """The counts of messages, so far."""
        return self._history.messages(GROUP)

    def verdict(self) -> Verdict:
        """The verdict on the deliveries to the group; to be called once, at the end."""
        return self._history.finish(self._clock_ms())
