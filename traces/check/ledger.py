"""The ledger of a run: acknowledged sends and dispatched messages, as lines with the columns of events. Pure.

The events of a trace only count messages; a ledger has a line for each. The process that runs the load writes them:

    sent_line(...)        a broker acknowledged the message
    failed_line(...)      the send failed for good: the message may be stored or not
    dispatched_line(...)  a listener is called with it, or a poll returns it
    ended_line(...)       the listener has ended it: `processed`, `failed`, or `dead` for its last failure

A message has the number of its lane (a sequence of sends, for instance of one producer) and its own number there,
counted from 0 without a gap: `version` and `n` of the line. So a check needs no memory for complete messages. `detail`
has the key of an ordered message, `key=K`, and the result of the listener.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from model.events import Event
from model.message_queue import MessageQueue


class LedgerKind(StrEnum):
    """Kinds of lines of a ledger."""

    SEND_ACKNOWLEDGED = "SEND_ACKNOWLEDGED"
    SEND_FAILED = "SEND_FAILED"
    MESSAGE_DISPATCHED = "MESSAGE_DISPATCHED"
    MESSAGE_ENDED = "MESSAGE_ENDED"


class Ending(StrEnum):
    """The result of a listener for a message."""

    PROCESSED = "processed"
    FAILED = "failed"  # it will be redelivered
    DEAD = "dead"  # its last attempt failed, or it is in the dead-letter queue


LEDGER_KINDS = frozenset(LedgerKind)
LEDGER_NODE = "ledger"

NOWHERE = MessageQueue("", "", -1)
"""The queue of a message if the run only knows that the message arrived."""


class SentMessage(NamedTuple):
    """A message, by its lane and its number there."""

    lane: int
    number: int


def sent_line(
    t_ms: float, message: SentMessage, queue: MessageQueue = NOWHERE, offset: int = -1, key: str = ""
) -> Event:
    """Make the line of an acknowledged send, with queue and offset if they are known."""
    return _line(t_ms, LedgerKind.SEND_ACKNOWLEDGED, "", "", message, queue, offset, _key(key))


def failed_line(t_ms: float, message: SentMessage) -> Event:
    """Make the line of a send that failed for good."""
    return _line(t_ms, LedgerKind.SEND_FAILED, "", "", message, NOWHERE, -1, "")


def dispatched_line(
    t_ms: float, group: str, client: str, message: SentMessage, queue: MessageQueue, offset: int, key: str = ""
) -> Event:
    """Make the line of a message with which a listener of a group is called."""
    return _line(t_ms, LedgerKind.MESSAGE_DISPATCHED, group, client, message, queue, offset, _key(key))


def ended_line(
    t_ms: float,
    group: str,
    client: str,
    message: SentMessage,
    queue: MessageQueue = NOWHERE,
    offset: int = -1,
    key: str = "",
    how: Ending = Ending.PROCESSED,
) -> Event:
    """Make the line of a message that a listener has ended."""
    detail = f"{how} {_key(key)}" if key else how.value
    return _line(t_ms, LedgerKind.MESSAGE_ENDED, group, client, message, queue, offset, detail)


def message_of(line: Event) -> SentMessage:
    """Return the message of a line."""
    return SentMessage(line.version, line.n)


def key_of(line: Event) -> str:
    """Return the key of the message of a line; "" without one."""
    return line.detail.partition("key=")[2]


def _key(key: str) -> str:
    return f"key={key}" if key else ""


def _line(
    t_ms: float,
    kind: LedgerKind,
    group: str,
    client: str,
    message: SentMessage,
    queue: MessageQueue,
    offset: int,
    detail: str,
) -> Event:
    topic, broker, queue_id = queue
    return Event(
        t_ms,
        LEDGER_NODE,
        -1,
        kind.value,
        "",
        group,
        topic,
        broker,
        queue_id,
        client,
        *message[:1],
        offset,
        message[1],
        detail,
    )
