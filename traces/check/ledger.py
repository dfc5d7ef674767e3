"""The ledger of a run: what producers were told and what listeners got, as lines with the columns of events. Pure.

The events of a trace count messages; a ledger has each of them. Who runs a load knows it, and writes one line for each:

    sent(...)         a broker acknowledged the message
    send_failed(...)  the send failed for good: the message may be stored or not
    dispatched(...)   a listener is called with it, or a poll returns it
    ended(...)        the listener is done with it: `processed`, `failed`, or `dead` for its last failure

A message has the number of its lane (what sends one message after another, for instance a producer) and its own number
there, counted from 0 without a gap: `version` and `n` of the line. So a check needs no memory for those that are done.
`detail` has the key for those that stay in order, `key=K`, and how it ended.
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
    """How a listener was done with a message."""

    PROCESSED = "processed"
    FAILED = "failed"  # it comes again
    DEAD = "dead"  # its last attempt failed, or it is among the dead-letter messages


LEDGER_KINDS = frozenset(LedgerKind)
LEDGER_NODE = "ledger"

NOWHERE = MessageQueue("", "", -1)
"""The queue of a message of which the run knows only that it came."""


class Sent(NamedTuple):
    """A message, by its lane and its number there."""

    lane: int
    number: int


def sent(t_ms: float, message: Sent, queue: MessageQueue = NOWHERE, offset: int = -1, key: str = "") -> Event:
    """A broker acknowledged a message, with its place if that is known."""
    return _line(t_ms, LedgerKind.SEND_ACKNOWLEDGED, "", "", message, queue, offset, _key(key))


def send_failed(t_ms: float, message: Sent) -> Event:
    """A send failed for good."""
    return _line(t_ms, LedgerKind.SEND_FAILED, "", "", message, NOWHERE, -1, "")


def dispatched(
    t_ms: float, group: str, client: str, message: Sent, queue: MessageQueue, offset: int, key: str = ""
) -> Event:
    """A listener of a group is called with a message."""
    return _line(t_ms, LedgerKind.MESSAGE_DISPATCHED, group, client, message, queue, offset, _key(key))


def ended(
    t_ms: float,
    group: str,
    client: str,
    message: Sent,
    queue: MessageQueue = NOWHERE,
    offset: int = -1,
    key: str = "",
    how: Ending = Ending.PROCESSED,
) -> Event:
    """A listener is done with a message."""
    detail = f"{how} {_key(key)}" if key else how.value
    return _line(t_ms, LedgerKind.MESSAGE_ENDED, group, client, message, queue, offset, detail)


def message_of(line: Event) -> Sent:
    """The message that a line of a ledger is about."""
    return Sent(line.version, line.n)


def key_of(line: Event) -> str:
    """The key of the message of a line; "" without one."""
    return line.detail.partition("key=")[2]


def _key(key: str) -> str:
    return f"key={key}" if key else ""


def _line(
    t_ms: float, kind: LedgerKind, group: str, client: str, message: Sent, queue: MessageQueue, offset: int, detail: str
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
