"""Failed: the result of a listener that decides what happens to its failed messages. Pure.

A listener without a decision returns None or a `ConsumeResult`, or raises. The results for a batch of four
messages, 5 6 7 8:

    Failed()                     all four again, as RECONSUME_LATER: after the usual wait
    Failed(retry_after_s=60)     all four again in a minute; in order their queue, or key, is suspended for it
    Failed(dead_letter=True)     all four to the DLQ at once: another attempt would fail as this one did
    Failed(done=3)               5 6 7 are processed, 8 has failed

RocketMQ: ConsumeConcurrentlyContext (delayLevelWhenNextConsume, where -1 is the DLQ, and ackIndex) and
ConsumeOrderlyContext (suspendCurrentQueueTimeMillis). There a listener sets them in an argument, and in one of the two
kinds of consumers only; a result can be read in one place, and each of its fields holds in every kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.errors import InvalidParameter
from model.message import MAX_DELAY_MS, MessageExt

_MAX_RETRY_AFTER_S = MAX_DELAY_MS / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The decision about failed messages; `max_attempts` ends the retries in any case.

    Args:
        retry_after_s: wait before the next attempt, instead of the wait of the options; up to 40 days. In order the
            queue, or key, waits for it. RocketMQ has 18 levels, and in order cuts it to 30 s.
        dead_letter: whether they go to the DLQ at once. In BROADCASTING, which has none, they are logged and skipped.
        done: how many messages at the beginning of the batch were processed. The others have failed.

    Raises:
        InvalidParameter: a number is out of its range, or a time is given for dead-letter messages.
    """

    retry_after_s: float | None = None
    dead_letter: bool = False
    done: int = 0

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if self.retry_after_s is not None:
            if not 0 <= self.retry_after_s <= _MAX_RETRY_AFTER_S:
                raise InvalidParameter(
                    f"retry_after_s must be 0 to {_MAX_RETRY_AFTER_S:.0f}, got {self.retry_after_s!r}"
                )
            if self.dead_letter:
                raise InvalidParameter("a dead-letter message is not retried: give retry_after_s or dead_letter")
        if self.done < 0:
            raise InvalidParameter(f"done must be the number of processed messages, got {self.done!r}")

    def wait_s(self, usual_s: float) -> float:
        """Return the wait before the next attempt: `usual_s`, or the one that the listener has chosen."""
        return usual_s if self.retry_after_s is None else self.retry_after_s

    def split(self, messages: Sequence[MessageExt]) -> tuple[Sequence[MessageExt], Sequence[MessageExt]]:
        """Return the processed messages of a batch, and the failed ones."""
        return messages[: self.done], messages[self.done :]


FAILED = Failed()
"""The failure of a listener that returned no `Failed`."""
