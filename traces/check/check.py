"""Checks a history: reads events and lines of a ledger in order, and answers yes, unknown or no. Pure.

    check = HistoryCheck(HistoryLimits(complete=True, all_consumed=True))
    for event in in_order(events):         # events of nodes, and lines of `ledger.py`
        check.feed(event)
    verdict = check.finish()
    verdict.answer, verdict.anomalies

Memory grows with the open entries (owned queues, running passes, unprocessed messages), not with the history. `finish`
is called once, at the end; `anomalies` returns the findings so far at any time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from model.missing_trace import NOTHING_MISSING, MissingTrace
from model.names import is_retry_topic
from traces.check.evidence import Evidence, is_end_of_node
from traces.check.lanes import LANE_KINDS
from traces.check.ledger import LEDGER_KINDS, LedgerKind
from traces.check.limits import HistoryLimits
from traces.check.messages import MessageRules
from traces.check.offsets import OFFSET_KINDS, OffsetRules
from traces.check.owners import CHANGE_KINDS, OWNER_KINDS, OwnerRules
from traces.check.passes import PASS_KINDS, PassRules
from traces.check.verdict import Anomaly, Answer, GroupMessages, Rule, Verdict
from traces.figures.changes import Changes
from traces.figures.clocks.clocks import Clocks
from traces.figures.faults import KINDS as FAULT_KINDS
from traces.figures.faults import FaultHistory
from traces.figures.group import GroupFigures
from traces.figures.uses import OWNER_KINDS as MEASURED

_Take = Callable[[Event], object]
_NO_LEASE = -1
_SQL = re.compile(r'=SQL"(?:[^"\\]|\\.)*"')
"""A filter in the detail of an event; it may have spaces and `=`."""
_DELETED = "deleted"
"""Detail of the event that a broker emits when it has deleted a topic."""
_ENDS = frozenset({EventKind.BROKER_DOWN, EventKind.CLIENT_STOP})
_OF_TOPICS = frozenset({EventKind.MEMBER_JOIN, EventKind.SUBSCRIPTION_CHANGE})


class _Group:
    """The rules of one group; the steps for a kind of event are looked up once, because a trace has millions."""

    def __init__(
        self, name: str, changes: Changes, limits: HistoryLimits, evidence: Evidence, faults: FaultHistory
    ) -> None:
        self.figures = GroupFigures(name, changes)
        self.owners = OwnerRules(self.figures, limits, evidence, faults)
        self.offsets = OffsetRules(evidence)
        self.passes = PassRules(limits, evidence)
        self.leased = True  # False if members read without leases: broadcasting, or queues chosen by assign()
        self._steps: dict[str, tuple[_Take, ...]] = {}

    def process(self, event: Event) -> None:
        steps = self._steps.get(event.kind)
        if steps is None:
            steps = self._steps[event.kind] = tuple(self._steps_of(event.kind))
        for step in steps:
            step(event)
        if event.version == _NO_LEASE and event.kind == EventKind.QUEUE_ACQUIRED and self.leased:
            self.leased = False
            self._steps.clear()

    def _steps_of(self, kind: str) -> Iterator[_Take]:
        if kind in MEASURED:
            yield self.figures.feed  # the owners of queues; the offset rules follow the progress of owners themselves
        if kind in CHANGE_KINDS:
            yield self.owners.changed
        elif kind == EventKind.REBALANCE_BEGIN:
            yield self.owners.passed
        if kind in PASS_KINDS:
            yield self.passes.process
        if kind in _OF_TOPICS:
            yield self._subscribed
        if not self.leased:
            return
        if kind in OFFSET_KINDS:
            yield self.offsets.step_of(kind)
        if kind in OWNER_KINDS:
            yield self.owners.process
        elif kind == EventKind.MESSAGES_HANDED_OUT:
            yield self.owners.dispatched
            yield self.passes.dispatched

    def _subscribed(self, event: Event) -> None:
        for part in _SQL.sub("=SQL", event.detail).split(" "):
            topic, separator, expression = part.partition("=")
            if separator and expression != "*":
                self.offsets.filtered[topic] = None

    def world_changed(self, event: Event) -> None:
        """Process an event without a group: routes, brokers, damaged messages."""
        if event.kind in MEASURED:
            self.figures.feed(event)
        if event.kind in CHANGE_KINDS:
            self.owners.changed(event)
        if event.kind in (EventKind.BROKER_UP, EventKind.BROKER_DOWN):
            self.passes.broker_gone(event.broker or event.node)
        elif event.kind == EventKind.MESSAGES_DAMAGED:
            self.offsets.damaged(event)
        elif event.kind == EventKind.MASTER_ELECTED:
            self.offsets.master_changed(event.broker)
        elif event.kind == EventKind.ROUTE_CHANGED and event.detail == _DELETED and event.broker == event.node:
            self.offsets.deleted(event)


class HistoryCheck:
    """Checks one history; see the module header.

    `only` is the group to check; None checks all groups.
    """

    def __init__(self, limits: HistoryLimits | None = None, only: str | None = None) -> None:
        self.events = 0
        self._limits = HistoryLimits() if limits is None else limits
        self._only = only
        self._evidence = Evidence(complete=self._limits.complete)
        self._changes = Changes()
        self._groups: dict[str, _Group] = {}
        self._messages = MessageRules(self._limits, self._evidence, self._committed)
        self._faults = FaultHistory()
        self._first_ms = 0.0
        self._now_ms = 0.0
        self._routes: dict[
            tuple[str, str], Event
        ] = {}  # topic and broker -> its route, with the number of readable queues
        self._world: deque[Event] = deque(
            maxlen=100
        )  # events without a group, for groups whose first event comes later

    def use(self, clocks: Clocks) -> None:
        """Set the clocks that have corrected the events; call it before the first event."""
        self._evidence.clocks = clocks

    def feed(self, event: Event) -> None:
        """Process an event or a line of a ledger, in the order of `in_order`."""
        if not self.events:
            self._first_ms = event.t_ms
        self.events += 1
        self._now_ms = max(self._now_ms, event.t_ms)
        if event.kind in LEDGER_KINDS:
            self._feed_ledger(event)
            return
        if not self._evidence.number(event):
            return  # sent twice, by a node that received no answer
        if event.kind in _ENDS and is_end_of_node(event):
            self._evidence.stopped(event)
        elif event.kind in FAULT_KINDS:
            if not event.group or self._only in (None, event.group):
                self._faults.feed(event)
            return
        if event.group:
            if self._only in (None, event.group):
                group = self._groups.get(event.group)
                (self._begin(event.group) if group is None else group).process(event)
                if (
                    self._limits.order
                    and event.kind in LANE_KINDS
                    and event.group in self._limits.order
                    and not is_retry_topic(event.topic)
                ):
                    self._messages.watch(event)
            return
        self._world.append(event)
        if event.kind == EventKind.ROUTE_CHANGED and event.broker == event.node:
            self._routes[event.topic, event.broker] = event
        for group_state in self._groups.values():
            group_state.world_changed(event)

    def _begin(self, name: str) -> _Group:
        group = self._groups[name] = _Group(name, self._changes, self._limits, self._evidence, self._faults)
        for event in self._world:
            group.world_changed(event)
        return group

    def _feed_ledger(self, line: Event) -> None:
        if line.group and self._only not in (None, line.group):
            return
        match line.kind:
            case LedgerKind.SEND_ACKNOWLEDGED:
                self._messages.sent(line)
            case LedgerKind.SEND_FAILED:
                self._messages.failed(line)
            case LedgerKind.MESSAGE_DISPATCHED:
                self._messages.dispatched(line)
            case LedgerKind.MESSAGE_ENDED:
                self._messages.ended(line)

    def _committed(self, group: str, queue: MessageQueue) -> tuple[int, Event | None]:
        group_state = self._groups.get(group)
        return (
            (-1, None)
            if group_state is None
            else (group_state.offsets.committed(queue), group_state.offsets.last_commit(queue))
        )

    # --- results -----------------------------------------------------------------------------------------------------

    @property
    def anomalies(self) -> list[Anomaly]:
        """The anomalies found so far."""
        return self._evidence.anomalies

    @property
    def groups(self) -> list[str]:
        """The groups that were checked so far."""
        return list(self._groups)

    def messages(self, group: str) -> GroupMessages:
        """Return the counts of a ledger's messages in one group so far."""
        return self._messages.counts(group)

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self, end_ms: float | None = None, missing: MissingTrace = NOTHING_MISSING) -> Verdict:
        """End the history at a time, by default at its last event, and return the verdict.

        If a part of the trace is missing, no result is certain: every rule answers unknown, and all anomalies are in
        doubt.
        """
        now_ms = max(self._now_ms, end_ms or 0.0)
        for name, group in self._groups.items():
            group.figures.advance(now_ms)
            group.owners.finish(now_ms)
            self._find_unread(name, group, now_ms)
        self._messages.finish(now_ms)
        if missing:
            self._evidence.mark_all_uncertain(str(missing))
        rules = self._evidence.verdicts()
        answers = {each.answer for each in rules if each.checked or each.found or each.doubtful}
        answer = next((each for each in (Answer.NO, Answer.UNKNOWN) if each in answers), Answer.YES)
        return Verdict(
            answer=answer if answers else Answer.UNKNOWN,
            events=self.events,
            nodes=self._evidence.nodes,
            lost_events=self._evidence.lost_events,
            span_ms=now_ms - self._first_ms,
            rules=rules,
            anomalies=tuple(sorted(self._evidence.anomalies, key=lambda anomaly: anomaly.t_ms)),
            messages=self._messages.groups(),
            began_ms=self._first_ms,
            faults=tuple(self._faults.rows),
            missing=str(missing),
            clocks=self._evidence.clocks.faults,
        )

    def _find_unread(self, name: str, group: _Group, now_ms: float) -> None:
        """Find queues that never had an owner, in topics of which the group owns other queues."""
        if not group.leased:
            return
        for topic, since_ms in group.figures.wanted_topics().items():
            for (of_topic, broker), route in self._routes.items():
                if of_topic != topic:
                    continue
                orphan_ms = now_ms - max(since_ms, route.t_ms)
                for queue_id in range(route.n):
                    queue = MessageQueue(topic, broker, queue_id)
                    if group.figures.queue(queue) is None and orphan_ms > self._limits.orphan_ms:
                        text = (
                            f"{queue} never had an owner, for {orphan_ms / 1000:,.1f} s until the end of the history."
                        )
                        about = route._replace(group=name, queue_id=queue_id)
                        self._evidence.add(Rule.ORPHAN, about, text, [route], t_ms=now_ms)
