"""Does a group that pops lose messages, get one again that it ended, or wait for one longer than it has to? Pure.

What is checked, whatever consumers and brokers crash, hang or are cut off:

    again     nothing is handed to anybody once the acknowledgement of its message was answered
    lost      in the end, everything that was sent is acknowledged, or is a dead letter. An acknowledgement whose answer
              was lost counts: it may have been carried out, and then nothing comes again that would tell
    left      in the end, brokers have nothing of the group in flight and nothing to deliver
    late      a message whose invisible time is over is handed out within `SLACK_S` while a consumer waits for it
    hidden    no broker lets the end of an invisible time pass by more than `SLACK_S`

A message that comes twice before it is acknowledged is no violation: its consumer was too slow, or gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from model.message_queue import MessageQueue

SLACK_S = 0.1
"""How long after the end of its invisible time a message may stay invisible."""
MAX_VIOLATIONS = 20
"""One broken thing breaks more; the first are worth reading."""

Place = tuple[str, str]
"""Broker and queue, in words."""


class PopCheck:
    """Books of one group.

    Attributes:
        violations: what must not have happened and did, the first `MAX_VIOLATIONS`.
        deliveries: how often a message was handed to a consumer.
        again: how often it had been before.
    """

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.deliveries = 0
        self.again = 0
        self._sent: dict[bytes, None] = {}
        self._ended: dict[bytes, None] = {}
        self._bodies: dict[tuple[MessageQueue, int], bytes] = {}
        self._acknowledged: dict[tuple[MessageQueue, int], float] = {}
        self._waiting_since: dict[Place, float] = {}

    # --- what happens ------------------------------------------------------------------------------------------------

    def sent(self, body: bytes) -> None:
        """Note that a broker has a message; bodies differ."""
        self._sent[body] = None

    def delivered(self, client: str, queue: MessageQueue, offset: int, body: bytes, now: float) -> None:
        """Note that a consumer is handed a message."""
        self.deliveries += 1
        place = (queue, offset)
        self.again += place in self._bodies
        self._bodies[place] = body
        if place in self._acknowledged:
            self._violated(
                f"again: {client} is handed {queue} {offset} at {now:.3f} s; its acknowledgement was answered at "
                f"{self._acknowledged[place]:.3f} s"
            )

    def acknowledging(self, queue: MessageQueue, offset: int) -> None:
        """Note that a consumer sends an acknowledgement, of which it may never learn what came."""
        if (body := self._bodies.get((queue, offset))) is not None:
            self._ended[body] = None

    def acknowledged(self, queue: MessageQueue, offset: int, now: float) -> None:
        """Note that a broker answered that a message is done with."""
        self._acknowledged.setdefault((queue, offset), now)

    def dead_letter(self, body: bytes) -> None:
        """Note that a message is a dead letter."""
        self._ended[body] = None

    def looked(self, overdue_s: Mapping[Place, float], waited_for: Mapping[Place, int], now: float) -> None:
        """Note what was seen of the brokers; to be called much more often than every `SLACK_S`.

        Args:
            overdue_s: for queues with messages in flight: since when the first of them should be visible, in seconds;
                negative if that is to come.
            waited_for: for queues with messages to be delivered again and for which a consumer waits: how many.
            now: seconds.
        """
        for place, late_s in overdue_s.items():
            if late_s > SLACK_S:
                self._violated(
                    f"hidden: {place} has a message that should be visible since {late_s:.3f} s, at {now:.3f} s"
                )
        self._waiting_since = {place: self._waiting_since.get(place, now) for place in waited_for}
        for place, since in self._waiting_since.items():
            if now - since > SLACK_S:
                n = waited_for[place]
                self._violated(f"late: {place} has {n} messages to deliver again, waited for since {since:.3f} s")

    # --- what is to come ---------------------------------------------------------------------------------------------

    @property
    def lag(self) -> int:
        """Messages that were sent and are not ended yet."""
        return len(self._sent) - sum(body in self._ended for body in self._sent)

    @property
    def ended(self) -> int:
        """Messages that are acknowledged or dead letters."""
        return len(self._ended)

    def missing(self, left: Mapping[Place, int]) -> list[str]:
        """What is wrong if nothing comes any more, some lines.

        Args:
            left: for queues of which the group has not ended everything: how many messages are left.
        """
        lost = [f"lost: {body!r} is neither acknowledged nor dead" for body in self._sent if body not in self._ended]
        lost += [f"left: {place} has {n} messages that nobody has ended" for place, n in left.items()]
        return lost[:MAX_VIOLATIONS]

    def _violated(self, what: str) -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(what)
