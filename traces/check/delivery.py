"""Counts lost and duplicate messages by comparing acknowledged with received messages. Pure.

Each message has the number of its producer and its own number, counted from 0 without a gap. So memory stays small in
long runs: only a message that still waits for an event has an entry; a number below the highest one that has no entry
is complete.

    acknowledged(0, 0)    received(0, 0)    complete: acknowledged and received, the entry is removed
    received(0, 1)                          received before its acknowledgement: an entry until it is acknowledged
    failed(0, 2)                            the send failed: the message may be stored or not, so it cannot be lost
    received(0, 0)                          seen before and without an entry: a duplicate
    acknowledged(0, 3)                      lost, if it is not received by the end

Invariant: `lost` is exactly the number of messages that were acknowledged and not received; during a run this is the
lag.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum


class _Waiting(Enum):
    """The event that an incomplete message waits for."""

    ANYTHING = "only a later message was seen so far"
    RECEIPT = "acknowledged, not received"
    ACKNOWLEDGEMENT = "received, not acknowledged"
    NOTHING = "its send failed, and it was not received so far"


class _Producer:
    """Messages of one producer: `next_number` is above every number seen, `waiting` has the incomplete messages."""

    __slots__ = ("next_number", "waiting")

    def __init__(self) -> None:
        self.next_number = 0
        self.waiting: dict[int, _Waiting] = {}

    def take(self, number: int) -> _Waiting | None:
        """Remove and return the state of a message; None if it is complete."""
        while self.next_number <= number:
            self.waiting[self.next_number] = _Waiting.ANYTHING
            self.next_number += 1
        return self.waiting.pop(number, None)


class DeliveryCheck:
    """Counts the messages of any number of producers. Calls for one message may come in any order.

    Attributes:
        received_unique: messages received, each counted once, including stored messages of failed sends.
    """

    def __init__(self) -> None:
        self.sent = 0  # messages that were acknowledged to their producer
        self.failed_sends = 0  # sends that failed; some of their messages may be stored
        self.received_unique = 0
        self.duplicates = 0  # receipts beyond the first of each message
        self.lost = 0  # messages acknowledged and not received: the lag during a run, and the loss at its end
        self._producers: defaultdict[int, _Producer] = defaultdict(_Producer)

    def acknowledged(self, producer: int, number: int) -> None:
        """Record that a broker acknowledged a message; every number from 0 on is acknowledged or fails exactly once."""
        of_producer = self._producers[producer]
        self.sent += 1
        if of_producer.take(number) is not _Waiting.ACKNOWLEDGEMENT:
            of_producer.waiting[number] = _Waiting.RECEIPT
            self.lost += 1

    def failed(self, producer: int, number: int) -> None:
        """Record that a send failed: its message was not acknowledged, so it cannot be lost."""
        of_producer = self._producers[producer]
        self.failed_sends += 1
        if of_producer.take(number) is not _Waiting.ACKNOWLEDGEMENT:
            of_producer.waiting[number] = _Waiting.NOTHING

    def received(self, producer: int, number: int) -> bool:
        """Record that a consumer received the message; returns whether this is the first time."""
        of_producer = self._producers[producer]
        state = of_producer.take(number)
        if state is None or state is _Waiting.ACKNOWLEDGEMENT:
            if state is not None:
                of_producer.waiting[number] = state
            self.duplicates += 1
            return False
        self.received_unique += 1
        if state is _Waiting.ANYTHING:
            of_producer.waiting[number] = _Waiting.ACKNOWLEDGEMENT
        elif state is _Waiting.RECEIPT:
            self.lost -= 1
        return True

    def is_missing(self, producer: int, number: int) -> bool:
        """Whether a message is acknowledged and not received."""
        of_producer = self._producers.get(producer)
        return of_producer is not None and of_producer.waiting.get(number) is _Waiting.RECEIPT

    def unsent(self, limit: int) -> list[tuple[int, int]]:
        """Return the first messages that were received and never acknowledged or failed, as (producer, number)."""
        return self._waiting_for(_Waiting.ACKNOWLEDGEMENT, limit)

    def missing(self, limit: int) -> list[tuple[int, int]]:
        """Return the first messages that were acknowledged and not received, as (producer, number), at most `limit`."""
        return self._waiting_for(_Waiting.RECEIPT, limit)

    def _waiting_for(self, waiting_state: _Waiting, limit: int) -> list[tuple[int, int]]:
        ranges = [
            (producer, number)
            for producer, of_producer in sorted(self._producers.items())
            for number, state in sorted(of_producer.waiting.items())
            if state is waiting_state
        ]
        return ranges[:limit]
