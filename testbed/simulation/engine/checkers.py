"""The checkers of a run: one history check of its events and its ledger, and one more for groups that pop. Pure.

Every event of every node and every line of the ledger goes to `traces/check`. POP has promises that they do not show,
for instance that an acknowledged message is never redelivered: `testbed/simulation/checks/pop.py` checks these.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from model.events import Event, EventKind
from model.limits import MAX_SIM_FINDINGS
from model.message_queue import MessageQueue
from testbed.simulation.checks.pop import PopCheck
from testbed.simulation.engine.programme import Programme
from traces.check.check import HistoryCheck
from traces.check.ledger import NOWHERE, Ending, SentMessage, dispatched_line, ended_line, failed_line, sent_line
from traces.check.limits import HistoryLimits, OrderScope
from traces.check.verdict import Anomaly, Rule
from traces.figures.clocks.clocks import ClockReader

_WITNESS = 12
"""Events about a queue that are kept as witnesses."""
_OF_OWNERS = frozenset(
    {
        EventKind.LOCK_GRANTED,
        EventKind.LOCK_REFUSED,
        EventKind.LOCK_EXPIRED,
        EventKind.QUEUE_ACQUIRED,
        EventKind.QUEUE_DROPPED,
        EventKind.QUEUE_RELEASED,
    }
)
_POP_KINDS = {"again": "duplicate", "late": "orphan", "hidden": "orphan", "lost": "lost-write", "left": "lost-write"}
"""First word of a violation of a group that pops -> kind of the finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that was broken."""

    kind: str  # as `lost-write`
    text: str
    witness: tuple[Event, ...] = ()  # the events that show it

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a listener: its member, and the message with its place. `key` is "" for none."""

    group: str
    client: str
    message: SentMessage
    queue: MessageQueue
    offset: int
    key: str
    body: bytes


class Checkers:
    """The checkers of one run; `now_ms` is the true time, from which the clocks of hosts may differ.

    Those in `placed` are called with the place and body of each acknowledged message, and of each delivered one (True).
    """

    def __init__(self, programme: Programme, now_ms: Callable[[], float]) -> None:
        self.sent = self.failed_sends = self.deliveries = self.dead_letters = 0
        self.placed: list[Callable[[MessageQueue, int, bytes, bool], None]] = []
        self.pops = {group.name: PopCheck() for group in programme.group if group.mode == "pop"}
        self._wait_ms = programme.promise.wait_s * 1000
        self._waiting: dict[SentMessage, float] = {}  # when each was acknowledged, if waits are judged
        self._begun: dict[tuple[str, SentMessage], None] = {}  # group and message, of first calls
        self._recent: dict[MessageQueue, deque[Event]] = {}
        self._findings: list[Finding] = []
        self._now_ms = now_ms
        self._has_copies = programme.cluster.copies > 1
        self._groups = [group.name for group in programme.group if group.mode == "pull"]
        self._skewed = any(step.do == "clock_skew" for step in programme.step)
        keeps = {group.name: OrderScope(group.order) for group in programme.group if group.order != "none"}
        promise = programme.promise
        limits = HistoryLimits(
            complete=True,
            all_consumed=True,
            orphan_ms=promise.orphan_s * 1000,
            stale_ms=promise.stale_s * 1000,
            flap_moves=promise.flap_moves,
            needless_passes=promise.needless_passes,
            order=keeps,
        )
        self._limits = limits
        self._check = HistoryCheck(limits)
        # With wrong clocks, the trace that a tool would read: events with the times of their nodes, and lines of the
        # ledger.
        self._trace: list[Event] | None = [] if programme.clock else None

    # --- events ------------------------------------------------------------------------------------------------------

    def event(self, event: Event) -> None:
        """Record an event of a broker or client, or of the engine itself."""
        true = event._replace(t_ms=self._now_ms()) if self._skewed or self._trace is not None else event
        self._check.feed(true)
        if self._trace is not None:
            self._trace.append(event)
        if event.queue_id >= 0 and event.kind in _OF_OWNERS:
            queue = MessageQueue(event.topic, event.broker, event.queue_id)
            self._recent.setdefault(queue, deque(maxlen=_WITNESS)).append(true)

    def acknowledged(self, message: SentMessage, body: bytes, queue: MessageQueue, offset: int, key: str) -> None:
        """Record that a broker acknowledged a message; the offset of a delayed one is not known yet."""
        self.sent += 1
        if self._wait_ms:
            self._waiting[message] = self._now_ms()
        queue_and_offset = (queue, offset) if offset >= 0 else (NOWHERE, -1)
        self._line(sent_line(self._now_ms(), message, *queue_and_offset, key))
        for check in self.pops.values():
            check.sent(body)
        for note in self.placed if offset >= 0 else ():
            note(queue, offset, body, False)

    def failed(self, message: SentMessage) -> None:
        """Record that a send failed for good."""
        self.failed_sends += 1
        self._line(failed_line(self._now_ms(), message))

    def dispatched(self, call: Call) -> None:
        """Record that a listener is called with a message."""
        self.deliveries += 1
        now_ms = self._now_ms()
        for note in self.placed:
            note(call.queue, call.offset, call.body, True)
        if (pop := self.pops.get(call.group)) is not None:
            pop.delivered(call.client, call.queue, call.offset, call.body, now_ms / 1000)
        else:
            if self._wait_ms:
                self._check_wait(call, now_ms)
            line = dispatched_line(now_ms, call.group, call.client, call.message, call.queue, call.offset, call.key)
            self._line(line)

    def _check_wait(self, call: Call, now_ms: float) -> None:
        """A message that waited for too long was in a queue that was not read, with or without an owner."""
        since_ms = self._waiting.get(call.message, now_ms)
        if (call.group, call.message) not in self._begun:
            self._begun[call.group, call.message] = None
            if now_ms - since_ms > self._wait_ms:
                waited = f"offset {call.offset} waited {(now_ms - since_ms) / 1000:.1f} s for {call.client}"
                self.find("orphan", f"{call.queue} was not read: {waited}", call.queue)

    def ended(self, call: Call, how: Ending) -> None:
        """Record that a listener has finished a message."""
        if call.group not in self.pops:
            where = call.queue, call.offset, call.key
            self._line(ended_line(self._now_ms(), call.group, call.client, call.message, *where, how=how))

    def dead(self, group: str, message: SentMessage, body: bytes) -> None:
        """Record that a message is among the dead-letter messages of a group."""
        self.dead_letters += 1
        if (pop := self.pops.get(group)) is not None:
            pop.dead_letter(body)
        else:
            self._line(ended_line(self._now_ms(), group, "", message, how=Ending.DEAD))

    def _line(self, line: Event) -> None:
        self._check.feed(line)
        if self._trace is not None:
            self._trace.append(line)

    def find(self, kind: str, text: str, queue: MessageQueue | None = None) -> None:
        """Record a finding of the engine itself; the last events about the queue are its witness."""
        if len(self._findings) < MAX_SIM_FINDINGS:
            self._findings.append(Finding(kind, text, tuple(self._recent.get(queue, ())) if queue else ()))

    # --- checks ------------------------------------------------------------------------------------------------------

    @property
    def lag(self) -> int:
        """Acknowledged messages that a group has still to process, summed over the groups."""
        of_pulls = sum(self._check.messages(group).lost for group in self._groups)
        return of_pulls + sum(check.lag for check in self.pops.values())

    @property
    def redelivered(self) -> int:
        """Messages that were redelivered, summed over the groups."""
        of_pulls = sum(self._check.messages(group).duplicates for group in self._groups)
        return of_pulls + sum(check.again for check in self.pops.values())

    @property
    def is_broken(self) -> bool:
        """Whether something was found already."""
        return bool(self._findings or self._check.anomalies or any(check.violations for check in self.pops.values()))

    def finish(self, *, all_consumed: bool) -> tuple[Finding, ...]:
        """End the history, and return everything that was found.

        `all_consumed` is False for a run that ended before everything was processed: then nothing is lost yet.
        """
        check = self._check if self._trace is None else self._by_wrong_clocks(self._trace)
        of_pulls = list(check.anomalies)
        of_pops = [text for check in self.pops.values() for text in check.violations]
        if all_consumed:
            for group in self._groups:
                counted = self._check.messages(group)
                if counted.lost and not counted.received:
                    self.find("lost-write", f"{group} was given none of {counted.lost:,} messages")
            of_pulls = list(check.finish(self._now_ms()).anomalies)
            of_pops += [text for check in self.pops.values() for text in check.missing()]
        certain = [Finding(str(each.rule), self._named(each), each.witness) for each in of_pulls if not each.doubt]
        reported = [Finding(_POP_KINDS[text.partition(":")[0]], text) for text in of_pops]
        return (*certain, *reported, *self._findings)[:MAX_SIM_FINDINGS]

    def _named(self, anomaly: Anomaly) -> str:
        """The text of a finding; where brokers have copies, two owners of a queue are invariant I2 of their sets."""
        return f"I2: {anomaly.text}" if self._has_copies and anomaly.rule is Rule.DOUBLE_OWNER else anomaly.text

    def _by_wrong_clocks(self, trace: list[Event]) -> HistoryCheck:
        """The check of a trace with the times of its nodes, as tools do it: they do not know the true times."""
        reader = ClockReader()
        for event in trace:
            reader.read(event)
        clocks = reader.finish()
        check = HistoryCheck(self._limits)
        check.use(clocks)
        for event in sorted(map(clocks.correct, trace), key=lambda event: event.t_ms):
            check.feed(event)
        return check
