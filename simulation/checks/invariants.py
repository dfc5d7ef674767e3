"""What a torture run must never show: the books over leases, commits, deliveries and acknowledgements. Pure.

    lease       granted while another member holds it: two live owners
    commit      passes a message that no listener of the group has ended with: it would be lost with the next owner
    delivery    the first of each message of a queue comes in the order of the log, and leaves none out
    send        what one producer sends one after another to a queue lies there in that order
    loss        acknowledged, and neither consumed by a group nor among its dead letters

Only what is not done has an entry, so that the books of an hour are as small as those of a minute. All times are the
events' own; queues count from offset 0, and nothing may be deleted that a group has not read.
"""

from __future__ import annotations

from collections.abc import Iterable

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from simulation.checks.delivery import DeliveryCheck

MAX_VIOLATIONS = 20
"""One broken thing breaks more; the first are worth reading."""

_Place = tuple[str, MessageQueue]


class _Ended:
    """Offsets that listeners have ended with: all below `below`, and those in `beyond`."""

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
    """Books of one run.

    Args:
        groups: groups that must get every message.

    Attributes:
        checks: group -> which messages it has consumed, or has as dead letters.
        violations: what must not have happened and did, the first `MAX_VIOLATIONS`.
        deliveries: calls of listeners, of all groups.
        deliveries_again: those of a message that was delivered before.
    """

    def __init__(self, groups: Iterable[str]) -> None:
        self.checks = {group: DeliveryCheck() for group in groups}
        self.violations: list[str] = []
        self.deliveries = 0
        self.deliveries_again = 0
        self._holders: dict[_Place, str] = {}
        self._commits: dict[_Place, int] = {}
        self._ended: dict[_Place, _Ended] = {}
        self._delivered: dict[_Place, int] = {}
        self._sent: dict[tuple[int, MessageQueue], int] = {}

    def _violated(self, what: str) -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(what)

    def watch(self, event: Event) -> None:
        """Note what a node says about leases and commits."""
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
                self._violated(f"{event} passes {ended.below if ended is not None else 0}, which nobody ended with")

    def delivered(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Note that a listener of a group is called with a message."""
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
        """Note that a listener of a group ends with a message, in whatever way: its offset may be committed."""
        self._ended.setdefault((group, queue), _Ended()).add(offset)

    def consumed(self, group: str, producer: int, number: int) -> None:
        """Note that a group has consumed a message, or that it lies among the group's dead letters."""
        self.checks[group].received(producer, number)

    def acknowledged(self, producer: int, number: int, queue: MessageQueue, offset: int) -> None:
        """Note that a broker has a message; a producer sends one after another, numbered from 0 without a gap."""
        last = self._sent.get((producer, queue), -1)
        if offset <= last:
            self._violated(f"message {number} of producer {producer} is {queue} {offset}, and one before it was {last}")
        self._sent[producer, queue] = offset
        for check in self.checks.values():
            check.acknowledged(producer, number)

    def failed(self, producer: int, number: int) -> None:
        """Note that a producer gave a message up."""
        for check in self.checks.values():
            check.failed(producer, number)

    @property
    def lag(self) -> int:
        """Messages that are acknowledged and that some group has not consumed so far."""
        return sum(check.lost for check in self.checks.values())

    def missing(self) -> list[str]:
        """Messages that are lost if nothing comes any more, some lines."""
        return [
            f"message {number} of producer {producer} is lost to {group}"
            for group, check in self.checks.items()
            for producer, number in check.missing(MAX_VIOLATIONS)
        ]
