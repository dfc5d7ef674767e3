"""Invariants that a torture run must never violate, of leases, commits, deliveries and acknowledgements. Pure.

    lease       is not granted while another member holds it: there would be two live owners
    commit      does not pass a message that the group's listeners have not processed: a new owner would skip it
    delivery    the first deliveries of a queue's messages are in log order and leave none out
    send        sequential sends of one producer to one queue are stored in that order
    loss        every acknowledged message is consumed by each group or among its dead-letter messages

Only messages that are pending have an entry, so that the memory of an hour is that of a minute. Queues begin at
offset 0, and no message may be deleted before every group has read it.
"""

from __future__ import annotations

from collections.abc import Iterable

from figures.history.delivery import DeliveryCheck
from model.events import Event, EventKind
from model.message_queue import MessageQueue

MAX_VIOLATIONS = 20
"""One broken thing breaks more; the first are worth reading."""

_Place = tuple[str, MessageQueue]


class _Ended:
    """Processed offsets: all below `below`, and those in `beyond`."""

    __slots__ = ("below", "beyond")

    def __init__(self) -> None:
        self.below = 0
        self.beyond: dict[int, None] = {}

    def add(self, offset: int) -> None:
        if offset >= self.below:
            self.beyond[offset] = None
        while self.below in self.beyond:
            del self.beyond[self.below]
            self.below += 1


class TortureInvariants:
    """Checker of one run, in which each of `groups` must get every message.

    Attributes:
        checks: group -> the messages that it consumed or has as dead-letter messages.
    """

    def __init__(self, groups: Iterable[str]) -> None:
        self.checks = {group: DeliveryCheck() for group in groups}
        self.violations: list[str] = []  # the first `MAX_VIOLATIONS`
        self.deliveries = 0  # calls of listeners, of all groups
        self.deliveries_again = 0  # those of a message that was delivered before
        self._holders: dict[_Place, str] = {}
        self._commits: dict[_Place, int] = {}
        self._ended: dict[_Place, _Ended] = {}
        self._delivered: dict[_Place, int] = {}
        self._sent: dict[tuple[int, MessageQueue], int] = {}

    def _violated(self, what: str) -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(what)

    def watch(self, event: Event) -> None:
        """Record an event about leases or commits."""
        place = event.group, MessageQueue(event.topic, event.broker, event.queue_id)
        if event.kind == EventKind.LOCK_GRANTED:
            holder = self._holders.get(place, event.client)
            if holder != event.client:
                self._violated(f"{event} although it is held by {holder}")
            self._holders[place] = event.client
        elif event.kind in (EventKind.QUEUE_RELEASED, EventKind.LOCK_EXPIRED):
            holder = self._holders.pop(place, event.client)
            if holder != event.client:
                self._violated(f"{event} although it is held by {holder}")
        elif event.kind == EventKind.OFFSET_COMMITTED:
            if event.offset < self._commits.get(place, 0):
                self._violated(f"{event} goes back from {self._commits[place]}")
            self._commits[place] = event.offset
            ended = self._ended.get(place)
            if event.offset > (ended.below if ended is not None else 0):
                first = ended.below if ended is not None else 0
                self._violated(f"{event} passes {first}, which no listener has processed")

    def delivered(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Record that a listener of a group is called with a message."""
        self.deliveries += 1
        place = group, queue
        expected = self._delivered.get(place, 0)
        if offset > expected:
            self._violated(f"{group} gets {queue} {offset} and was never given {expected}")
        if offset >= expected:
            self._delivered[place] = offset + 1
        else:
            self.deliveries_again += 1

    def ended(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Record that a listener returned or failed on a message: its offset may be committed."""
        self._ended.setdefault((group, queue), _Ended()).add(offset)

    def consumed(self, group: str, producer: int, number: int) -> None:
        """Record that a group has consumed a message, or has it as a dead-letter message."""
        self.checks[group].received(producer, number)

    def acknowledged(self, producer: int, number: int, queue: MessageQueue, offset: int) -> None:
        """Record that a broker acknowledged a message; a producer sends sequentially, numbered from 0 without a gap."""
        last = self._sent.get((producer, queue), -1)
        if offset <= last:
            self._violated(f"message {number} of producer {producer} is {queue} {offset}, and one before it was {last}")
        self._sent[producer, queue] = offset
        for check in self.checks.values():
            check.acknowledged(producer, number)

    def failed(self, producer: int, number: int) -> None:
        """Record that a send failed."""
        for check in self.checks.values():
            check.failed(producer, number)

    @property
    def lag(self) -> int:
        """Acknowledged messages that a group has not consumed yet, summed over the groups."""
        return sum(check.lost for check in self.checks.values())

    def missing(self) -> list[str]:
        """A line for each message that is lost if no more are delivered, up to `MAX_VIOLATIONS` a group."""
        return [
            f"message {number} of producer {producer} is lost to {group}"
            for group, check in self.checks.items()
            for producer, number in check.missing(MAX_VIOLATIONS)
        ]
