"""Rules about single messages, from a ledger: lost, never sent, skipped, repeated, out of order. Pure.

Every group has to receive every message of the topics that it consumes. A duplicate message is not an anomaly, because
delivery is at least once; duplicates are counted. A redelivery below the committed offset is an anomaly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy

from model.events import Event
from model.message_queue import MessageQueue
from traces.check.delivery import DeliveryCheck
from traces.check.evidence import Evidence
from traces.check.lanes import Lanes
from traces.check.ledger import Ending, SentMessage, key_of, message_of, sent_line
from traces.check.limits import HistoryLimits, OrderScope
from traces.check.verdict import GroupMessages, Rule

MAX_UNREAD = 100_000
"""Maximum number of acknowledged messages of one queue that a group has not received, and of offsets that it passed."""


class _Reader:
    """The position of one group in one queue."""

    __slots__ = ("expected", "skipped")

    def __init__(self) -> None:
        self.expected = -1  # the next offset; -1 before the first
        self.skipped: dict[int, Event] = {}  # offset without an acknowledgement -> the dispatch that passed it


class _QueueReaders:
    """The groups that read one queue."""

    __slots__ = ("of", "unread")

    def __init__(self) -> None:
        self.of: defaultdict[str, _Reader] = defaultdict(_Reader)
        self.unread: dict[int, Event] = {}  # offset -> its send, until every reader has passed it

    def read(self, offset: int) -> None:
        """Remove a send once every reader has passed it."""
        if all(reader.expected > offset for reader in self.of.values()):
            self.unread.pop(offset, None)


class MessageRules:
    """The rules for the whole ledger; `committed` returns a committed offset of a group, and its last commit."""

    def __init__(
        self,
        limits: HistoryLimits,
        evidence: Evidence,
        committed: Callable[[str, MessageQueue], tuple[int, Event | None]],
    ) -> None:
        self._limits = limits
        self._evidence = evidence
        self._committed = committed
        self._everyone = DeliveryCheck()  # the sends, for groups that appear later
        self._groups: dict[str, DeliveryCheck] = {}
        self._lanes = {group: Lanes(group, keeps, evidence) for group, keeps in limits.order.items()}
        self._readers: defaultdict[MessageQueue, _QueueReaders] = defaultdict(_QueueReaders)
        self._stored: dict[tuple[int, MessageQueue], Event] = {}  # lane and queue -> its newest message there
        self._open: dict[SentMessage, Event] = {}  # acknowledged, and not processed by every group
        self._unsent: dict[SentMessage, Event] = {}  # processed by a group, and not acknowledged

    # --- sends -------------------------------------------------------------------------------------------------------

    def sent(self, line: Event) -> None:
        """Process an acknowledged send."""
        message = message_of(line)
        self._evidence.checked[Rule.LOST_WRITE] += 1
        for check in (self._everyone, *self._groups.values()):
            check.acknowledged(*message)
        self._unsent.pop(message, None)
        self._open[message] = line
        self._close(message)
        if line.queue_id < 0 or line.offset < 0:
            return
        queue = MessageQueue(line.topic, line.broker, line.queue_id)
        old_line = self._stored.get((message.lane, queue))
        self._evidence.checked[Rule.OUT_OF_ORDER] += 1
        if old_line is not None and old_line.offset >= line.offset and old_line.n < message.number:
            text = (
                f"Lane {message.lane} sent number {old_line.n} before number {message.number}, and {queue} has them at "
                f"offsets {old_line.offset:,} and {line.offset:,}."
            )
            self._evidence.add(Rule.OUT_OF_ORDER, line, text, [old_line, line])
        self._stored[message.lane, queue] = line
        for lanes in self._lanes.values():
            lanes.sent(line, queue, key_of(line))
        readers = self._readers[queue]
        for group, reader in readers.of.items():
            passed = reader.skipped.pop(line.offset, None)
            if passed is not None:
                self._skip(group, line, passed)
        if any(reader.expected <= line.offset for reader in readers.of.values()) or not readers.of:
            readers.unread[line.offset] = line
            if len(readers.unread) > MAX_UNREAD:
                del readers.unread[next(iter(readers.unread))]

    def failed(self, line: Event) -> None:
        """Process a send that failed for good."""
        self._unsent.pop(message_of(line), None)
        for check in (self._everyone, *self._groups.values()):
            check.failed(*message_of(line))

    # --- listeners ---------------------------------------------------------------------------------------------------

    def dispatched(self, line: Event) -> None:
        """Process the dispatch of a message to a listener."""
        self._of_group(line.group)
        if line.queue_id < 0 or line.offset < 0:
            return
        queue = MessageQueue(line.topic, line.broker, line.queue_id)
        self._evidence.checked[Rule.DUPLICATE] += 1
        committed, commit = self._committed(line.group, queue)
        if line.offset < committed:
            text = (
                f"{line.client} was given offset {line.offset:,} of {queue}, although the group had committed "
                f"{committed:,}."
            )
            apart_ms = 0.0 if commit is None else line.t_ms - commit.t_ms
            doubt = self._evidence.clocks.ledger_uncertainty(line.broker, apart_ms)
            self._evidence.add(Rule.DUPLICATE, line, text, [commit, line], order_uncertainty=doubt)
        if (
            self._limits.order.get(line.group) is not OrderScope.KEY
        ):  # with ordered keys, other keys may overtake a key that has to wait
            self._read(line, queue)
        lanes = self._lanes.get(line.group)
        if lanes is not None:
            lanes.started(line, queue, key_of(line))

    def _read(self, line: Event, queue: MessageQueue) -> None:
        self._evidence.checked[Rule.POLL_SKIP] += 1
        readers = self._readers[queue]
        reader = readers.of[line.group]
        reader.skipped.pop(line.offset, None)
        first, reader.expected = reader.expected, max(reader.expected, line.offset + 1)
        if first >= 0:
            for offset in range(max(first, line.offset - MAX_UNREAD), line.offset):
                unread = readers.unread.get(offset)
                if unread is not None:
                    self._skip(line.group, unread, line)
                    readers.read(offset)
                else:
                    reader.skipped[offset] = line
            while len(reader.skipped) > MAX_UNREAD:
                del reader.skipped[next(iter(reader.skipped))]
        readers.read(line.offset)

    def _skip(self, group: str, line: Event, passed: Event) -> None:
        queue = MessageQueue(line.topic, line.broker, line.queue_id)
        text = (
            f"{passed.client} of {group} was given offset {passed.offset:,} of {queue} before any member was given "
            f"offset {line.offset:,}, which is an acknowledged message: the group skipped it."
        )
        self._evidence.add(Rule.POLL_SKIP, passed, text, [line, passed])

    def ended(self, line: Event) -> None:
        """Process the end of a message at a listener."""
        how = line.detail.partition(" ")[0]
        queue = MessageQueue(line.topic, line.broker, line.queue_id)
        lanes = self._lanes.get(line.group)
        if lanes is not None and line.queue_id >= 0:
            lanes.ended(line, queue, key_of(line), settled=how != Ending.FAILED)
        if how != Ending.FAILED:
            self._evidence.checked[Rule.PHANTOM] += 1
            message = message_of(line)
            is_first = self._of_group(line.group).received(*message)
            if message in self._open:
                self._close(message)
            elif is_first:
                self._unsent[message] = line

    def _of_group(self, group: str) -> DeliveryCheck:
        check = self._groups.get(group)
        if check is None:
            check = self._groups[group] = deepcopy(self._everyone)
        return check

    def _close(self, message: SentMessage) -> None:
        if self._groups and not any(check.is_missing(*message) for check in self._groups.values()):
            self._open.pop(message, None)

    def watch(self, event: Event) -> None:
        """Process an event about the lease of a queue, in a group that keeps an order."""
        self._lanes[event.group].watch(event)

    # --- results -----------------------------------------------------------------------------------------------------

    def finish(self, now_ms: float) -> None:
        """Judge the messages that are still open at the end."""
        for group, check in self._groups.items():
            for lane, number in check.missing(MAX_UNREAD):
                open_line = self._open.get(
                    SentMessage(lane, number)
                )  # None if the group appeared after all other groups had processed it
                line = (open_line or sent_line(now_ms, SentMessage(lane, number)))._replace(group=group)
                queue = MessageQueue(line.topic, line.broker, line.queue_id)
                committed, commit = self._committed(group, queue)
                passed = 0 <= line.offset < committed
                if not passed and not self._limits.all_consumed:
                    continue  # it may still be processed
                text = f"{_message(line)} was acknowledged to its producer, and {group} never processed it" + (
                    f", although it has committed {committed:,}." if passed else "."
                )
                self._evidence.add(Rule.LOST_WRITE, line, text, [open_line, commit if passed else None], t_ms=now_ms)
            if not self._everyone.sent:
                continue  # the ledger has lines of consumers only
            for lane, number in check.unsent(MAX_UNREAD):
                got = self._unsent.get(SentMessage(lane, number))
                if got is not None:
                    text = f"{got.client} of {group} was given {_message(got)}, which no producer has sent."
                    self._evidence.add(Rule.PHANTOM, got, text, [got], t_ms=now_ms)

    def counts(self, group: str) -> GroupMessages:
        """Return the counts of one group."""
        check = self._groups.get(group, self._everyone)
        return GroupMessages(
            group=group,
            sent=check.sent,
            failed_sends=check.failed_sends,
            received=check.received_unique,
            lost=check.lost,
            duplicates=check.duplicates,
        )

    def groups(self) -> tuple[GroupMessages, ...]:
        """Return the counts of each group that received messages."""
        return tuple(self.counts(group) for group in self._groups)


def _message(line: Event) -> str:
    place_text = f" ({line.topic}@{line.broker}:{line.queue_id}, offset {line.offset:,})" if line.queue_id >= 0 else ""
    return f"message {line.n} of lane {line.version}{place_text}"
