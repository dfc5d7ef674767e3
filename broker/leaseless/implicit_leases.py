"""Leases that the broker takes for members that ask for none, and when such a member has given one up. Pure.

RocketMQ's own clients know no leases: a member pulls a queue as soon as its allocation says so, maybe while another one
still consumes it. So the broker takes the lease for it at its first pull of a queue that is free. While another member
has the queue, the pull waits. A member gives a queue up without a word; but once somebody else wants the queue, its
lease is *contested*, and the broker looks at what it shows:

    drained     Its pulls bring nothing new any more. What it was sent it has committed: it has nothing of this queue in
                process, whether it still wants it or not, and the next one may have it. This is exact.
    given up    It neither pulls, nor could flow control be the reason: it pulls again as long as it has fewer than 1000
                messages and 100 MiB. Or it neither pulls nor commits, which clients do every 5 s. This is inferred: a
                listener may still have a message, and whatever was not committed comes twice.

A lease is contested at the earliest `TAKEN_TENURE_S` after it was taken. While two members disagree about who has a
queue, it would go back and forth between their pulls otherwise, and neither would get a message.

A lease that a member has asked for (RocketMQ's lock of an orderly consumer) is no such lease: it ends when its owner
says so or leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.leases.table import QueueKey
from model.limits import (
    MAX_PROCESS_QUEUE_BYTES,
    MAX_PROCESS_QUEUE_COUNT,
    TAKEN_COMMIT_SILENCE_S,
    TAKEN_DRAIN_S,
    TAKEN_PULL_SILENCE_S,
    TAKEN_TENURE_S,
)

NEVER = float("inf")

TakenKey = tuple[str, QueueKey]
"""Group and queue."""


@dataclass(slots=True)
class TakenLease:
    """What the owner of one taken lease has shown; times are loop time in seconds."""

    taken_at: float
    pulled_at: float
    committed_at: float
    contested_at: float = NEVER  # from when on it counts that somebody else wants the queue
    is_told: bool = False  # whether its parked pull was looked at since
    sent_bytes: int = 0  # of messages, since it had processed everything
    begins: bool = True  # whether it has not pulled from the group's offset on yet

    def is_contested(self, now: float) -> bool:
        """Whether somebody else wants the queue."""
        return now >= self.contested_at


class TakenTable:
    """The taken leases of one broker."""

    def __init__(self) -> None:
        self._taken: dict[TakenKey, TakenLease] = {}
        self._contested: dict[TakenKey, TakenLease] = {}

    def __len__(self) -> int:
        return len(self._taken)

    def get(self, key: TakenKey) -> TakenLease | None:
        """The record of a queue, or None."""
        return self._taken.get(key)

    def pulled(self, key: TakenKey, now: float) -> TakenLease:
        """Note a pull of the owner; the first one makes the record."""
        taken = self._taken.get(key)
        if taken is None:
            taken = self._taken[key] = TakenLease(now, now, now)
        taken.pulled_at = now
        return taken

    def committed(self, key: TakenKey, now: float) -> bool:
        """Note a commit of the owner; whether the lease is contested, so that it may be drained now."""
        taken = self._taken.get(key)
        if taken is None:
            return False
        taken.committed_at = now
        return taken.is_contested(now)

    def contest(self, key: TakenKey, now: float) -> float | None:
        """Note that somebody else wants the queue; from when on that counts if it is new, else None."""
        taken = self._taken.get(key)
        if taken is None or taken.contested_at != NEVER:
            return None
        taken.contested_at = max(now, taken.taken_at + TAKEN_TENURE_S)
        self._contested[key] = taken
        return taken.contested_at

    def forget(self, key: TakenKey) -> None:
        """The lease is free, or its owner has asked for it."""
        self._taken.pop(key, None)
        self._contested.pop(key, None)

    def forget_all(self, is_gone: Callable[[TakenKey], bool]) -> None:
        """The queues of a group or topic are gone: a contested one among them would be waited for, for ever."""
        for key in [key for key in self._taken if is_gone(key)]:
            self.forget(key)

    def contested(self) -> list[tuple[TakenKey, TakenLease]]:
        """The contested ones, oldest first."""
        return list(self._contested.items())


def given_up_at(taken: TakenLease, unprocessed: int) -> float:
    """When a contested lease ends if its owner shows nothing until then: at once if it is drained.

    `unprocessed` is the number of messages that the owner was sent and has not committed.
    """
    if unprocessed <= 0:
        return taken.contested_at
    silent_from = max(taken.pulled_at, taken.contested_at + TAKEN_DRAIN_S)
    may_be_flow_control = unprocessed >= MAX_PROCESS_QUEUE_COUNT or taken.sent_bytes >= MAX_PROCESS_QUEUE_BYTES
    if not may_be_flow_control:
        return silent_from + TAKEN_PULL_SILENCE_S
    return max(silent_from, taken.committed_at) + TAKEN_COMMIT_SILENCE_S
