"""Checks POP runs: no loss, no redelivery after an acknowledgement, no late redelivery. Pure.

Whatever consumers and brokers crash, hang or are cut off:

    again     no message is delivered once its acknowledgement was answered
    lost      in the end, every sent message is acknowledged or a dead-letter message. An acknowledgement without an
              answer counts: the broker may have carried it out, and then the message is not delivered again
    left      some time after the last message, no message is invisible or waits for a redelivery
    late      a message whose invisible time has expired is delivered within `SLACK_S` if a consumer waits for it
    hidden    no broker ends an invisible time more than `SLACK_S` late

A duplicate before the acknowledgement is not a violation: the consumer was too slow, or gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from model.counted import plural
from model.message_queue import MessageQueue

SLACK_S = 0.1
"""How long after the end of its invisible time a message may stay invisible."""
MAX_VIOLATIONS = 20
"""The most violations that are kept: later ones are mostly consequences of the first."""

Place = tuple[str, str]
"""Broker and queue, as text."""


class PopCheck:
    """Checker of one group."""

    def __init__(self) -> None:
        self.violations: list[str] = []  # the first `MAX_VIOLATIONS`
        self.again = 0  # deliveries of a message that had been delivered before
        self._sent: dict[bytes, None] = {}
        self._ended: dict[bytes, None] = {}
        self._bodies: dict[tuple[MessageQueue, int], bytes] = {}
        self._acknowledged: dict[tuple[MessageQueue, int], float] = {}
        self._waiting_since: dict[Place, float] = {}

    # --- events ------------------------------------------------------------------------------------------------------

    def sent(self, body: bytes) -> None:
        """Record that a broker acknowledged a message; bodies differ."""
        self._sent[body] = None

    def delivered(self, client: str, queue: MessageQueue, offset: int, body: bytes, now: float) -> None:
        """Record that a message is delivered to a consumer."""
        queue_and_offset = (queue, offset)
        self.again += queue_and_offset in self._bodies
        self._bodies[queue_and_offset] = body
        if queue_and_offset in self._acknowledged:
            self._violated(
                f"again: {client} gets {queue} {offset} at {now:.3f} s; its acknowledgement was answered at "
                f"{self._acknowledged[queue_and_offset]:.3f} s"
            )

    def acknowledging(self, queue: MessageQueue, offset: int) -> None:
        """Record that a consumer sends an acknowledgement, of which it may never get the answer."""
        if (body := self._bodies.get((queue, offset))) is not None:
            self._ended[body] = None

    def acknowledged(self, queue: MessageQueue, offset: int, now: float) -> None:
        """Record that a broker confirmed the acknowledgement of a message."""
        self._acknowledged.setdefault((queue, offset), now)

    def dead_letter(self, body: bytes) -> None:
        """Record that a message is a dead-letter message."""
        self._ended[body] = None

    def check(self, overdue_s: Mapping[Place, float], waited_for: Mapping[Place, int], now: float) -> None:
        """Check the state of the brokers; to be called much more often than every `SLACK_S`.

        Args:
            overdue_s: queue with invisible messages -> seconds since the first should be visible, negative if that is
                to come.
            waited_for: queue with messages to redeliver and a waiting consumer -> how many messages.
            now: seconds.
        """
        for queue, late_s in overdue_s.items():
            if late_s > SLACK_S:
                self._violated(
                    f"hidden: {queue} has a message that should be visible since {late_s:.3f} s, at {now:.3f} s"
                )
        self._waiting_since = {queue: self._waiting_since.get(queue, now) for queue in waited_for}
        for queue, since in self._waiting_since.items():
            if now - since > SLACK_S:
                n = waited_for[queue]
                self._violated(f"late: {queue} has {plural(n, 'message')} to redeliver, waited for since {since:.3f} s")

    # --- deadlines ---------------------------------------------------------------------------------------------------

    @property
    def lag(self) -> int:
        """Messages that were sent and are neither acknowledged nor dead-letter messages."""
        return len(self._sent) - sum(body in self._ended for body in self._sent)

    def rested(self, left: Mapping[Place, int]) -> None:
        """Check a group that had time to finish: `left` has its unacknowledged messages in each queue that has any."""
        for queue, n in left.items():
            self._violated(
                f"left: {queue} has {plural(n, 'message', 'that is', 'that are')} neither acknowledged nor dead"
            )

    def missing(self) -> list[str]:
        """A line for each message that is lost at the end of a run."""
        violations = [
            f"lost: {body!r} is neither acknowledged nor dead" for body in self._sent if body not in self._ended
        ]
        return violations[:MAX_VIOLATIONS]

    def _violated(self, violation: str) -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(violation)
