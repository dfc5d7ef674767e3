"""The calls of a consumer's listeners that have not returned, and when each of them has taken too long. Pure.

    timeout 900 s; begun at 10: a, at 400: b        next_deadline 910
    expire(910) -> a                                next_deadline 1300, of b
    a has not returned                              expire(1810) -> a, once more

`running` is filled and emptied by the caller itself, because that is done for every batch. No task has to be woken for
it: while nothing runs, `next_deadline` is one timeout after the last look, and a call that begins after that look is
due no sooner.

RocketMQ: ConsumeMessageConcurrentlyService.cleanExpireMsg, which checks once per timeout, so that a message is returned
one to two timeouts after its dispatch; and which leaves orderly consumers out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from model.message import MessageExt

Key = TypeVar("Key", bound=Hashable)
Call = tuple[float, str, Sequence[MessageExt]]
"""A call: the time of its begin, the name of the listener, and the messages."""


class RunningCalls(Generic[Key]):
    """See the module header; `timeout_s` and all times are seconds of one monotonic clock."""

    def __init__(self, timeout_s: float) -> None:
        self.running: dict[Key, Call] = {}
        self._timeout_s = timeout_s
        self._checked_at = 0.0

    def next_deadline(self) -> float:
        """The time at which to call `expire` next; it has to be called once at the beginning."""
        return min((call[0] for call in self.running.values()), default=self._checked_at) + self._timeout_s

    def expire(self, now: float) -> dict[Key, Call]:
        """The calls that have taken too long, the longest first; each again after another timeout."""
        self._checked_at = now
        late = {key: call for key, call in self.running.items() if call[0] + self._timeout_s <= now}
        for key, (_, name, messages) in late.items():
            self.running[key] = now, name, messages
        return dict(sorted(late.items(), key=lambda item: item[1][0]))
