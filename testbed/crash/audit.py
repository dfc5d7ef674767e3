"""Audit of a crash run: compares the messages stored at the end with the acknowledgements of producers. Pure.

The messages are checked queue by queue in the order of offsets, as plain pulls return them; see `Ledger` for lanes.

    ledger: 3:0 at q1+0, 3:1 at q1+1     log of q1: 0 = 3:0, 1 = 3:1         nothing is wrong
                                         log of q1: 0 = 3:0                  3:1 is lost
                                         log of q1: 0 = 3:1, 1 = 3:0         out of order, and both at a wrong offset
                                         log of q1: 0 = 3:0, 1 = 3:1 = 2     stored twice: a repeated send; allowed

A batch that was repeated is stored twice as a whole: 16:0 to 16:7, 16:0 to 16:7 keeps the order of its lane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from client.admin.records import QueueProgress
from model.message import MessageExt
from model.message_queue import MessageQueue
from testbed.crash.ledger import BATCH, Findings, LaneKind, Ledger, lane_kind, parse_crash_body
from traces.check.ledger import SentMessage
from traces.check.verdict import MEANING, Rule
from traces.check.words import headline

KINDS = {
    "lost": "acknowledged, and not in the log",
    "stored and denied": "in the log, although the error of the send excluded that",
    "not in its place": "another message, or none, is at the acknowledged offset",
    "one offset for two": "acknowledged at the same offset as another",
    "out of order": "stored after a later message of its lane in the same queue",
    "hole": "an offset of a queue without a message",
    "damaged": "a byte differs from the message that was sent",
    "commit beyond the log": "the committed offset is beyond the end of the queue",
    "commit lost": "after the last crash the committed offset is lower than before",
    "no restart": "a broker ended by itself, or did not start again",
    **{rule.value: MEANING[rule] for rule in (Rule.LOST_WRITE, Rule.POLL_SKIP, Rule.OUT_OF_ORDER, Rule.PHANTOM)},
}
"""Every kind of finding, with its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashVerdict:
    """Result of the audit."""

    ok: bool
    acknowledged: int
    given_up: int  # sends that failed for good
    in_doubt: int  # failed sends that may be stored, by their error
    stored: int  # each counted once
    stored_unacknowledged: int  # messages of failed sends
    stored_twice: int  # copies beyond the first, of sends that were retried because the answer was lost
    consumed: int  # each counted once
    consumed_twice: int  # deliveries of messages that had been processed before
    deliveries: int  # calls of listeners, counted by message, failures included
    findings: dict[str, int]  # number of each kind, 0 included
    examples: tuple[str, ...]  # some findings as text


class Audit:
    """One comparison of a ledger with the log. It adds findings to the ledger, and changes nothing else of it.

    `kinds` has every kind of finding that the run may add, with its meaning.
    """

    def __init__(self, ledger: Ledger, kinds: Mapping[str, str] = KINDS) -> None:
        self.findings: Findings = ledger.findings
        self._kinds = kinds
        self._ledger = ledger
        self._seen: set[SentMessage] = set()
        self._copies = 0
        self._unplaced = {
            (result.queue, result.offset): (sent, result.message_id)
            for sent, result in ledger.acknowledged.items()
            if result.offset >= 0
        }
        if len(self._unplaced) < sum(result.offset >= 0 for result in ledger.acknowledged.values()):
            self._name_shared_offsets()
        self._numbers: dict[tuple[MessageQueue, int], int] = {}  # queue, lane -> the highest number so far
        self._newest: dict[tuple[MessageQueue, int], int] = {}  # the same -> that of the last message

    def _name_shared_offsets(self) -> None:
        first: dict[tuple[MessageQueue, int], SentMessage] = {}
        for sent, result in self._ledger.acknowledged.items():
            other = first.setdefault((result.queue, result.offset), sent)
            if result.offset >= 0 and other != sent:
                self.findings.add("one offset for two", f"{result.queue}+{result.offset} for {other} and {sent}")

    def queue(self, queue: MessageQueue, offsets: range, rows: list[MessageExt]) -> None:
        """Check the next part of a queue.

        `offsets` is the range that was pulled, from the end of the part before; `rows` are its messages in order.
        """
        row_offsets = {row.offset for row in rows}
        for offset in offsets:
            if offset not in row_offsets:
                self.findings.add("hole", f"{queue}+{offset}")
        for row in rows:
            self._row(queue, row)

    def _row(self, queue: MessageQueue, row: MessageExt) -> None:
        sent = parse_crash_body(row.body)
        if sent is None:
            self.findings.add("damaged", f"{queue}+{row.offset} id {row.message_id}")
            return
        is_copy = sent in self._seen
        self._copies += is_copy
        self._seen.add(sent)
        if sent in self._ledger.refused:
            self.findings.add("stored and denied", f"{queue}+{row.offset} is {sent} ({lane_kind(sent.lane).name})")
        if self._unplaced.get((queue, row.offset)) == (sent, row.message_id):
            del self._unplaced[queue, row.offset]
        if lane_kind(sent.lane) is LaneKind.DELAYED:
            return
        queue_and_lane = queue, sent.lane
        last_number = self._numbers.get(queue_and_lane, -1)
        if sent.number < last_number and not (
            is_copy and self._repeats_batch(sent, last_number, self._newest[queue_and_lane])
        ):
            self.findings.add("out of order", f"{queue}+{row.offset} is {sent}, behind number {last_number}")
        self._numbers[queue_and_lane] = max(last_number, sent.number)
        self._newest[queue_and_lane] = sent.number

    def _repeats_batch(self, sent: SentMessage, highest: int, last: int) -> bool:
        """Whether a copy belongs to the repetition of the newest batch of its lane, which is stored whole, in order."""
        is_next = sent.number % BATCH == 0 or sent.number == last + 1
        return lane_kind(sent.lane) is LaneKind.BATCH and sent.number // BATCH == highest // BATCH and is_next

    def progress(self, old_offsets: dict[MessageQueue, int], queues: tuple[QueueProgress, ...]) -> None:
        """Check the group's committed offsets after the last restart.

        `old_offsets` has the committed offsets from before the restart.
        """
        committed = {now.queue: now.committed or 0 for now in queues}
        for now in queues:
            if committed[now.queue] > now.max_offset:
                self.findings.add("commit beyond the log", f"{now.queue}: {now.committed} of {now.max_offset}")
        for queue, offset in old_offsets.items():
            if committed.get(queue, 0) < offset:
                self.findings.add("commit lost", f"{queue}: {committed.get(queue, 0)} after {offset}")

    def verdict(self) -> CrashVerdict:
        """Return the result, once all queues are checked; if a broker did not restart, without the missing messages."""
        ledger, findings, counted = self._ledger, self.findings, self._ledger.messages
        if "no restart" not in findings.counts:
            self.find_missing()
            self._judge_deliveries()
        return CrashVerdict(
            ok=not findings.counts,
            acknowledged=len(ledger.acknowledged),
            given_up=counted.failed_sends,
            in_doubt=counted.failed_sends - len(ledger.refused),
            stored=len(self._seen),
            stored_unacknowledged=len(self._seen - ledger.acknowledged.keys()),
            stored_twice=self._copies,
            consumed=counted.received,
            consumed_twice=counted.duplicates,
            deliveries=ledger.deliveries,
            findings={kind: findings.counts.get(kind, 0) for kind in self._kinds},
            examples=tuple(findings.examples),
        )

    def find_missing(self) -> None:
        """Find acknowledged messages that are in no queue, or in another place, once all queues are checked."""
        findings = self.findings
        for sent, result in self._ledger.acknowledged.items():
            if sent not in self._seen:
                findings.add("lost", f"{sent} ({lane_kind(sent.lane).name}), acknowledged at {result}")
        for (queue, offset), (sent, _) in self._unplaced.items():
            findings.add("not in its place", f"{sent} should be at {queue}+{offset}")

    def _judge_deliveries(self) -> None:
        findings, n_lost = self.findings, self._ledger.messages.lost
        verdict = self._ledger.verdict()
        findings.counts |= {each.rule.value: each.found for each in verdict.rules if each.found}
        if n_lost:  # also if the group received nothing at all
            findings.counts[Rule.LOST_WRITE.value] = n_lost
        findings.examples += map(headline, verdict.anomalies)
