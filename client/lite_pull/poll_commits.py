"""PollCommits: what polls handed out, and what of it counts as processed and may be committed.

A poll cannot know when its caller is done with what it returned; the next call can: whoever polls again, or commits, is
done with what came before. So a crash in between delivers the messages of the last poll again, and loses none. RocketMQ
commits at the hand-out: what was handed out and not processed when the process died is lost (AssignedMessageQueue,
updateConsumeOffset in DefaultLitePullConsumerImpl.poll).

    poll -> 5 6            commit offset 5
    poll -> 7              5 and 6 are processed: 7 with automatic commit; without it 5, until somebody commits
    commit                 7 is processed: 8
    queue lost; poll -> .. what was handed out of it is not committed by us any more

Nothing here waits or knows the time; it only changes the queues that it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from client.pull.owned_queue import OwnedQueue
from model.message import MessageExt


class PollCommits:
    """The books of one lite pull consumer.

    Args:
        auto_commit: whether what is processed may be committed without being asked.
    """

    def __init__(self, *, auto_commit: bool) -> None:
        self._auto_commit = auto_commit
        self._handed_out: list[tuple[OwnedQueue, list[MessageExt]]] = []
        # Without automatic commit: queues with more processed than may be committed; some are on their way out.
        self._processed: dict[OwnedQueue, None] = {}

    def begin(self, owned: OwnedQueue) -> None:
        """Take over a queue before its first message; nothing of it is done yet."""
        if not self._auto_commit:
            owned.commit_at = owned.process_queue.commit_offset

    def hand_out(self, owned: OwnedQueue, messages: list[MessageExt], now_ms: float) -> None:
        """Note what a poll is about to return, at a wall-clock time in milliseconds."""
        owned.dispatch_counts.add(messages, now_ms)
        self._handed_out.append((owned, messages))

    def processed(self) -> None:
        """Count everything that was handed out as processed, because its user has come back."""
        handed_out, self._handed_out = self._handed_out, []
        for owned, messages in handed_out:
            owned.process_queue.finish(messages)
            if not self._auto_commit and not owned.detached:
                self._processed[owned] = None
            owned.made_progress()

    def commit(self, owned_now: Iterable[OwnedQueue]) -> None:
        """Let everything that is processed be committed.

        Args:
            owned_now: every queue that the consumer has: what the filter passed over in them counts as well.
        """
        self.processed()
        if self._auto_commit:
            return
        for owned in {**self._processed, **dict.fromkeys(owned_now)}:
            self.commit_at(owned, owned.process_queue.commit_offset)
        self._processed.clear()

    def commit_at(self, owned: OwnedQueue, offset: int) -> None:
        """Let exactly this be committed of a queue; going back is what its user wants, too."""
        assert owned.commit_at is not None, "with automatic commit nobody says what to commit"
        if offset < owned.commit_at:
            owned.rewound = True
        owned.commit_at = offset

    def moved(self, old: OwnedQueue, new: OwnedQueue) -> None:
        """A queue goes on elsewhere, because its user said so: `new` was begun in the place of `old`."""
        new.rewound = old.rewound
        if not self._auto_commit:
            new.commit_at = old.commit_at
        elif new.commit_offset < old.commit_offset:
            new.rewound = True
        self._processed.pop(old, None)

    def give_up(self) -> None:
        """Nobody will come back for what the last poll returned: it is not processed, and nobody shall wait for it."""
        for owned, messages in self._handed_out:
            owned.process_queue.requeue(messages, math.inf)
            owned.made_progress()
        self._handed_out = []
