"""The states of a transaction on the wire: the state that a producer reports, and the outcome at the broker.

RocketMQ: MessageSysFlag (TRANSACTION_COMMIT_TYPE, ...), LocalTransactionState.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class TransactionState(IntEnum):
    """The result of the local branch of a transaction; RocketMQ's numbers."""

    UNKNOWN = 0
    """Not known yet: the broker asks again."""
    COMMIT = 8
    """The transaction succeeded: consumers get the message."""
    ROLLBACK = 12
    """The transaction failed, and never will succeed: no consumer gets the message."""


class EndOutcome(IntEnum):
    """What END_TRANSACTION did to one half message."""

    DONE = 0
    """The transaction is ended as asked, or stays open as asked."""
    ENDED_BEFORE = 1
    """The transaction was committed, rolled back or abandoned before; nothing changes."""
    NOT_FOUND = 2
    """This broker has no such half message of this group: it was lost with the end of the log, or never stored here."""


class HalfMessage(NamedTuple):
    """A half message as a broker stores it, and as a check names it."""

    group: str  # producer group
    topic: str  # where a commit publishes it
    queue_id: int
    tag_hash: int
    check_after_ms: int  # first check, after the message was stored; -1 for the broker's own timeout
    cause: str  # id of the event of its arrival, the cause of all later events
    payload: bytes


class OpenTransaction(NamedTuple):
    """An open half message, as operators see it."""

    message_id: str
    topic: str
    age_s: float
    checks: int  # how often its group was asked
    next_check_s: float  # seconds until the next check; -1 while it waits for a producer of the group
