"""PolledMessages: the messages that polls returned, and which of them count as processed and may be committed.

A poll cannot know when its caller has processed the messages that it returned, but the next call can: calling `poll` or
`commit` means that all earlier messages are processed. So after a crash the messages of the last poll are redelivered,
and none is lost. RocketMQ commits when a poll returns: messages that are not processed when the process dies are lost
(AssignedMessageQueue, updateConsumeOffset in DefaultLitePullConsumerImpl.poll).

    poll -> 5 6            commit offset 5
    poll -> 7              5 and 6 are processed: 7 with automatic commit; without it 5, until the user commits
    commit                 7 is processed: 8
    queue lost; poll -> .. messages of that queue are no longer committed by this consumer

Nothing here waits or reads a clock; the methods only change the queues that they are given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from client.pull.owned_queue import OwnedQueue
from model.message import MessageExt


class PolledMessages:
    """The polled messages of one lite pull consumer. With `auto_commit`, processed ones may be committed at once."""

    def __init__(self, *, auto_commit: bool) -> None:
        self._auto_commit = auto_commit
        self._polled: list[tuple[OwnedQueue, list[MessageExt]]] = []
        # Without automatic commit: queues with processed messages since the last commit of the user. Some of these
        # queues are being released, so they are not among the queues of the consumer.
        self._processed: dict[OwnedQueue, None] = {}

    def begin(self, owned: OwnedQueue) -> None:
        """Take over a queue before its first message."""
        if not self._auto_commit:
            owned.commit_at = owned.process_queue.commit_offset

    def add_polled(self, owned: OwnedQueue, messages: list[MessageExt], now_ms: float) -> None:
        """Add the messages that a poll is about to return; the wall-clock time is in milliseconds."""
        owned.dispatch_counts.add(messages, now_ms)
        self._polled.append((owned, messages))

    def finish_polled(self) -> None:
        """Count all polled messages as processed, because the user has made the next call."""
        add_polled, self._polled = self._polled, []
        for owned, messages in add_polled:
            owned.process_queue.finish(messages)
            if not self._auto_commit and not owned.detached:
                self._processed[owned] = None
            owned.notify_progress()

    def commit(self, owned_now: Iterable[OwnedQueue]) -> None:
        """Mark all processed messages for the next commit.

        `owned_now` are all queues of the consumer: messages that the filter skipped in them count as processed too.
        """
        self.finish_polled()
        if self._auto_commit:
            return
        for owned in {**self._processed, **dict.fromkeys(owned_now)}:
            self.commit_at(owned, owned.process_queue.commit_offset)
        self._processed.clear()

    def commit_at(self, owned: OwnedQueue, offset: int) -> None:
        """Mark exactly this offset for the next commit; it may be lower than the committed one."""
        assert owned.commit_at is not None, "no offsets are chosen with automatic commit"
        # Such an offset may be lower than the committed one, so it is sent as a reset: other commits never go back.
        if offset < owned.commit_at or owned.sought:
            owned.rewound = True
        owned.commit_at = offset

    def replace_queue(self, old: OwnedQueue, new: OwnedQueue) -> None:
        """Continue with `new` in the place of `old`, after a seek."""
        new.sought = True
        new.rewound = old.rewound
        if not self._auto_commit:
            new.commit_at = old.commit_at
        else:
            new.rewound = True
        self._processed.pop(old, None)

    def abandon(self) -> None:
        """Requeue the messages of the last poll as not processed, so that a shutdown does not wait for them."""
        for owned, messages in self._polled:
            owned.process_queue.requeue(messages, math.inf)
            owned.notify_progress()
        self._polled = []
