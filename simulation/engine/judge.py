"""The judge of a run: passes what happens in it to the checkers, and collects their findings. Pure.

Each group is judged by the promises of its mode: `simulation/checks/invariants.py` for one that pulls,
`simulation/checks/order.py` for one in order as well, `simulation/checks/pop.py` for one that pops.
"""

from __future__ import annotations

from dataclasses import dataclass

from model.events import Event
from model.limits import MAX_SIM_FINDINGS
from model.message_queue import MessageQueue
from simulation.checks.invariants import TortureInvariants
from simulation.checks.order import OrderCheck
from simulation.checks.pop import PopCheck
from simulation.engine.programme import Programme


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that was broken."""

    kind: str  # as `lost-write`
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Judge:
    """The checkers of one run. A message is its lane, which is the index of its producer, and its number there."""

    def __init__(self, programme: Programme) -> None:
        self.findings: list[Finding] = []
        self.sent = self.failed_sends = self.deliveries = self.dead_letters = 0
        groups = programme.group
        self.plain = TortureInvariants([each.name for each in groups if each.mode == "pull" and each.order == "none"])
        self.ordered = OrderCheck({each.name: each.order == "key" for each in groups if each.order != "none"})
        self.pops = {each.name: PopCheck() for each in groups if each.mode == "pop"}

    # --- what happens ------------------------------------------------------------------------------------------------

    def event(self, event: Event) -> None:
        """Record an event of a broker or client."""
        if event.group in self.plain.checks:
            self.plain.watch(event)
        else:
            self.ordered.watch(event)

    def acknowledged(self, lane: int, number: int, body: bytes, queue: MessageQueue, offset: int, key: str) -> None:
        """Record that a broker acknowledged a message."""
        self.sent += 1
        if offset >= 0:
            self.plain.acknowledged(lane, number, queue, offset)
            self.ordered.acknowledged(queue, offset, key)
        else:  # delayed: it has no place yet
            for each in self.plain.checks.values():
                each.acknowledged(lane, number)
        for check in self.pops.values():
            check.sent(body)

    def failed(self, lane: int, number: int) -> None:
        """Record that a send failed for good."""
        self.failed_sends += 1
        self.plain.failed(lane, number)

    def dispatched(
        self, group: str, client: str, body: bytes, queue: MessageQueue, offset: int, key: str, now_s: float
    ) -> None:
        """Record that a listener is called with a message."""
        self.deliveries += 1
        if group in self.pops:
            self.pops[group].delivered(client, queue, offset, body, now_s)
        elif group in self.plain.checks:
            self.plain.delivered(group, queue, offset)
        else:
            self.ordered.started(group, client, queue, offset, key)

    def returned(self, group: str, client: str, queue: MessageQueue, offset: int, key: str, *, cancelled: bool) -> None:
        """Record that a listener returned, raised or was cancelled."""
        if group in self.plain.checks:
            if not cancelled:
                self.plain.ended(group, queue, offset)
        elif group not in self.pops:
            self.ordered.ended(group, client, queue, offset, key)

    def processed(
        self, group: str, lane: int, number: int, queue: MessageQueue, offset: int, key: str, number_in_key: int | None
    ) -> None:
        """Record that a group is done with a message; `number_in_key` is None if it failed for the last time."""
        if group in self.plain.checks:
            self.plain.consumed(group, lane, number)
        elif group not in self.pops:
            self.ordered.processed(group, queue, offset, key, number_in_key)

    def dead(self, group: str, lane: int, number: int, body: bytes) -> None:
        """Record that a message is among the dead-letter messages of a group."""
        self.dead_letters += 1
        if group in self.plain.checks:
            self.plain.consumed(group, lane, number)
        elif group in self.pops:
            self.pops[group].dead_letter(body)

    def find(self, kind: str, text: str) -> None:
        """Record what the engine itself saw."""
        if len(self.findings) < MAX_SIM_FINDINGS:
            self.findings.append(Finding(kind, text))

    # --- what is to come ---------------------------------------------------------------------------------------------

    @property
    def lag(self) -> int:
        """Acknowledged messages with which a group is not done, summed over the groups."""
        return self.plain.lag + self.ordered.lag + sum(check.lag for check in self.pops.values())

    @property
    def again(self) -> int:
        """Deliveries of a message that was delivered before."""
        return self.plain.deliveries_again + sum(check.again for check in self.pops.values())

    def violated(self) -> list[Finding]:
        """What was found so far."""
        found = [*self.plain.violations, *self.ordered.violations]
        for check in self.pops.values():
            found += check.violations
        return [*self.findings, *(Finding(_kind_of(text), text) for text in found)]

    def missing(self) -> list[Finding]:
        """A finding for each message that is lost if no more are delivered."""
        lost = [*self.plain.missing(), *self.ordered.missing()]
        for check in self.pops.values():
            lost += check.missing({})
        return [Finding("lost-write", text) for text in lost]


def _kind_of(text: str) -> str:
    return next((kind for word, kind in _KINDS if word in text), "violation")


_KINDS = (
    ("although it is held", "double-owner"),
    ("although", "double-owner"),
    ("owner:", "double-owner"),
    ("overlap:", "double-owner"),
    ("goes back", "nonmonotonic-commit"),
    ("and one before it was", "lost-write"),
    ("passes", "lost-write"),
    ("was never given", "poll-skip"),
    ("order:", "out-of-order"),
    ("numbers:", "out-of-order"),
    ("repeat:", "nonmonotonic-poll"),
    ("again:", "duplicate"),
    ("late:", "orphan"),
    ("hidden:", "orphan"),
)
