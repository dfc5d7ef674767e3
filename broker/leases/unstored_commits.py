"""Commits that are not stored yet: members send them with their pulls, and they are stored once a second. Pure.

A group commits with every pull, thousands of times a second. Each commit counts at once: a new owner begins there. A
row and an event for each would cost more than the pulls, so only the newest commit of a queue is stored, together with
the commits of all other queues. A broker that crashes loses at most the commits of that second, and their messages come
twice. A broker that stops stores all of them, and the end of a lease stores the commit of its queue.

    add((g, t, 0), "A", now=10.0) -> 11.0     due for all that follow
    add((g, t, 0), "A", now=10.2) -> 11.0     one row for both
    add((g, t, 1), "B", now=10.9) -> 11.0
    remove_due(11.0) -> {(g, t, 0): "A", (g, t, 1): "B"}

RocketMQ stores the offsets of all groups every 5 s (flushConsumerOffsetInterval).
"""

from __future__ import annotations

from collections.abc import Callable

from model.limits import COMMIT_STORE_S

GroupQueueKey = tuple[str, str, int]
"""(group, topic, queue id)."""


class UnstoredCommits:
    """The queues whose committed offset is newer than the stored one, each with the client that committed it."""

    def __init__(self) -> None:
        # No more entries than there are committed offsets.
        self._by: dict[GroupQueueKey, str] = {}
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._by)

    def add(self, queue: GroupQueueKey, client_id: str, now: float) -> float:
        """Add a commit made at `now`, loop time in seconds; returns when it has to be stored."""
        if not self._by:
            self._due = now + COMMIT_STORE_S
        self._by[queue] = client_id
        return self._due

    def pop(self, queue: GroupQueueKey) -> str | None:
        """Remove and return the client of the commit of a queue, to store it now; None if nothing is pending."""
        return self._by.pop(queue, None)

    def next_deadline(self) -> float | None:
        """When to call `remove_due`, or None."""
        return self._due if self._by else None

    def remove_due(self, now: float) -> dict[GroupQueueKey, str]:
        """Remove and return all commits, if they are due."""
        if not self._by or now < self._due:
            return {}
        commits, self._by = self._by, {}
        return commits

    def forget(self, is_gone: Callable[[GroupQueueKey], bool]) -> None:
        """Drop the commits of a topic or group that is deleted."""
        for queue in [queue for queue in self._by if is_gone(queue)]:
            del self._by[queue]
