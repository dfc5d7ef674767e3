"""Searches queues for messages that a swarm did not receive: messages that a queue still has for its group are unread.

A queue has a message for the group if the group has not committed it. So a skipped message is lost, even while the
queue has it. The retry topic of the group is searched, too, because the group's progress includes its queues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

import anyio

from client.admin.admin import Admin
from client.admin.records import BrokerInfo, QueueProgress
from model.errors import RlabError
from model.limits import MAX_PULL_BATCH
from model.message_queue import MessageQueue
from testbed.swarm.members import parse_member_number

logger = logging.getLogger(__name__)

SEARCH_S = 10.0
"""Time for the search: enough for some hundred thousand messages. Messages that it has not found are unknown."""


def read_ends(info: BrokerInfo, topic: str) -> dict[MessageQueue, int]:
    """The end of each queue of a topic on a broker."""
    topic_info = info.topic(topic)
    ranges = () if topic_info is None else topic_info.ranges
    return {MessageQueue(topic, info.name, number): each.max_offset for number, each in enumerate(ranges)}


def unread_ranges(
    begins: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], progress: Iterable[QueueProgress]
) -> dict[MessageQueue, tuple[int, int]]:
    """The offsets of each queue that the group has not committed, from the begin of the run on. Pure.

    `begins` has the ends of the queues at the begin of the run. A queue without an offset of the group is all unread.
    """
    committed: dict[MessageQueue, int] = {}
    until = dict(ends)
    for row in progress:
        committed[row.queue] = row.committed or 0
        until[row.queue] = max(until.get(row.queue, 0), row.max_offset)
    ranges = {queue: (max(committed.get(queue, 0), begins.get(queue, 0)), end) for queue, end in sorted(until.items())}
    return {queue: (begin, end) for queue, (begin, end) in ranges.items() if begin < end}


class UnreadSearch:
    """Counts the messages of a run that queues still have; `is_missing` is true for a message that was not received.

    Attributes:
        found: number of messages found.
        complete: whether every queue was read to its end, so that the other messages are in no queue.
    """

    def __init__(self, topic: str, group: str, run: int, is_missing: Callable[[int, int], bool]) -> None:
        self.complete = False
        self._topic = topic
        self._group = group
        self._run = run
        self._is_missing = is_missing
        self._begins: dict[MessageQueue, int] = {}
        self._brokers: dict[str, None] = {}
        self._seen: set[tuple[int, int]] = set()

    @property
    def found(self) -> int:
        """See above."""
        return len(self._seen)

    def add_brokers(self, brokers: Iterable[str]) -> None:
        """Record brokers that have the topic: the search asks them, even if they do not answer at the end."""
        self._brokers.update(dict.fromkeys(brokers))

    async def begin(self, admin: Admin) -> None:
        """Record the ends of the queues; without an answer of a broker its queues are searched from their begin.

        Cancellation: harmless.
        """
        for broker in self._brokers:
            try:
                self._begins.update(read_ends(await admin.broker_info(broker), self._topic))
            except RlabError:
                continue  # its clients report it

    async def search(self, admin: Admin, missing: int) -> None:
        """Read the messages that the group has not committed, until `missing` are found, for at most `SEARCH_S`.

        An error of a broker makes the search incomplete, and is logged. Cancellation: harmless.
        """
        with anyio.move_on_after(SEARCH_S) as scope:
            failures: list[RlabError] = []
            ends: dict[MessageQueue, int] = {}
            for broker in self._brokers:
                try:
                    ends.update(read_ends(await admin.broker_info(broker), self._topic))
                except RlabError as error:
                    failures.append(error)  # the queues of the other brokers are read nevertheless
            try:
                progress = await admin.progress(self._group)
                for queue, (begin, end) in unread_ranges(self._begins, ends, progress).items():
                    await self._read(admin, queue, begin, end, missing)
            except RlabError as error:
                failures.append(error)
            if failures:
                logger.warning("not all queues could be read for messages that were not received: %s", failures[0])
            self.complete = not failures
        if scope.cancelled_caught:
            logger.warning("the search for messages that were not received found %d in %g s", self.found, SEARCH_S)

    async def _read(self, admin: Admin, queue: MessageQueue, offset: int, end: int, missing: int) -> None:
        while offset < end and self.found < missing:
            messages, next_offset = await admin.read_queue(queue, offset=offset, max_n=MAX_PULL_BATCH)
            for message, problem in messages:
                number = None if problem else parse_member_number(message.body, self._run)
                if number is not None and self._is_missing(*number):
                    self._seen.add(number)
            # Skip messages that were deleted or damaged.
            offset = max(offset + 1, next_offset)
