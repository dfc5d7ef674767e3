"""Was every acknowledged message received, and how often? The bookkeeping of swarms and of the demo. Pure.

Each message carries the number of its producer and its own number, counted from 0 without a gap. That keeps the books
small however long a run lasts: only a message that waits for something has an entry, and a number that was seen before
and has none is done.

    acknowledged(0, 0)    received(0, 0)    done: acknowledged and received, no entry any more
    received(0, 1)                          came before its acknowledgement: an entry until that comes
    failed(0, 2)                            its producer gave up: it may be stored all the same, and is never lost
    received(0, 0)                          seen before and without an entry: a duplicate
    acknowledged(0, 3)                      lost, if nobody receives it by the end

Invariant: `lost` counts exactly the messages that were acknowledged and not received; while a run goes on that is its
lag.
"""

from __future__ import annotations

from enum import Enum


class _Waiting(Enum):
    """What a message that is not done waits for."""

    ANYTHING = "only a later one was heard of yet"
    RECEIPT = "acknowledged, not received"
    ACKNOWLEDGEMENT = "received, not acknowledged"
    NOTHING = "given up by its producer, and never received so far"


class _Producer:
    """The books of one producer: `next_number` is above every number seen, `waiting` has the messages not done."""

    __slots__ = ("next_number", "waiting")

    def __init__(self) -> None:
        self.next_number = 0
        self.waiting: dict[int, _Waiting] = {}

    def take(self, number: int) -> _Waiting | None:
        """Take a message out of the books; None if it is done."""
        while self.next_number <= number:
            self.waiting[self.next_number] = _Waiting.ANYTHING
            self.next_number += 1
        return self.waiting.pop(number, None)


class DeliveryCheck:
    """Books of any number of producers. Calls for one message may come in any order.

    Attributes:
        sent: messages that were acknowledged to their producer.
        failed_sends: messages that their producer gave up; some of them may be stored.
        received_unique: messages received, each counted once; those of `failed_sends` that were stored count too.
        duplicates: receipts beyond the first of each message.
        lost: messages acknowledged and not received: the lag of a run, and its loss once nothing comes any more.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.failed_sends = 0
        self.received_unique = 0
        self.duplicates = 0
        self.lost = 0
        self._producers: dict[int, _Producer] = {}

    def acknowledged(self, producer: int, number: int) -> None:
        """Note that a broker has the message.

        Args:
            producer: its producer's number.
            number: its own, from 0 up without a gap; each is acknowledged or failed once.
        """
        books = self._books(producer)
        self.sent += 1
        if books.take(number) is not _Waiting.ACKNOWLEDGEMENT:
            books.waiting[number] = _Waiting.RECEIPT
            self.lost += 1

    def failed(self, producer: int, number: int) -> None:
        """Note that the producer gave the message up: nobody was told that it is stored, so it cannot be lost."""
        books = self._books(producer)
        self.failed_sends += 1
        if books.take(number) is not _Waiting.ACKNOWLEDGEMENT:
            books.waiting[number] = _Waiting.NOTHING

    def received(self, producer: int, number: int) -> bool:
        """Note that a consumer got the message.

        Returns:
            Whether it is the first time.
        """
        books = self._books(producer)
        state = books.take(number)
        if state is None or state is _Waiting.ACKNOWLEDGEMENT:
            if state is not None:
                books.waiting[number] = state
            self.duplicates += 1
            return False
        self.received_unique += 1
        if state is _Waiting.ANYTHING:
            books.waiting[number] = _Waiting.ACKNOWLEDGEMENT
        elif state is _Waiting.RECEIPT:
            self.lost -= 1
        return True

    def missing(self, limit: int) -> list[tuple[int, int]]:
        """The first messages that were acknowledged and not received, as (producer, number), `limit` at the most."""
        missing = [
            (producer, number)
            for producer, books in sorted(self._producers.items())
            for number, state in sorted(books.waiting.items())
            if state is _Waiting.RECEIPT
        ]
        return missing[:limit]

    def _books(self, producer: int) -> _Producer:
        books = self._producers.get(producer)
        if books is None:
            books = self._producers[producer] = _Producer()
        return books
