"""Collects the anomalies of a history check, and the gaps of the history. Pure.

Each node numbers its events. So a gap in the numbers of a node means lost events, and a new run of a broker means that
the last events of the run before may never have been sent. An anomaly is in doubt if a node of its witness has such a
gap shortly before or after it, or if the right time of one of its events is unknown.

    broker-a 1 2 3 7      three events are lost: anomalies of broker-a near that time are in doubt
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from model.counted import plural
from model.events import Event, EventKind
from model.limits import RUN_SEQS
from model.message_queue import MessageQueue
from traces.check.verdict import MAX_ANOMALIES, MAX_WITNESS, Anomaly, Answer, Rule, RuleVerdict
from traces.figures.clocks.clocks import RIGHT_CLOCKS
from traces.figures.records import order_of

MAX_HOLES = 100
"""Maximum number of remembered gaps; a gap concerns only the anomalies near it."""
HOLE_REACH_MS = 60_000.0
"""How long missing events can matter: two intervals of route polls and heartbeats."""


class _Hole(NamedTuple):
    node: str
    t_ms: float
    lost: int  # 0 if it is unknown whether events were lost


class Evidence:
    """Anomalies and gaps of one history."""

    def __init__(self, *, complete: bool) -> None:
        self.checked: Counter[Rule] = Counter()
        self.anomalies: list[Anomaly] = []
        self.lost_events = 0
        self._doubt = ""  # a doubt that concerns all results
        self._complete = complete
        self.clocks = RIGHT_CLOCKS
        self._found: Counter[tuple[Rule, bool]] = Counter()
        self._numbers: dict[tuple[str, int], int] = {}  # node and run -> number of its newest event
        self._runs: dict[str, int] = {}  # node -> its newest run
        self._stopped: dict[str, None] = {}  # nodes that reported their stop
        self._holes: deque[_Hole] = deque(maxlen=MAX_HOLES)

    @property
    def nodes(self) -> int:
        """The number of nodes with events."""
        return len(self._runs)

    def number(self, event: Event) -> bool:
        """Record the number of an event; returns whether the event is new, and not a repeated send."""
        node, seq = event.node, event.seq
        run = seq // RUN_SEQS
        newest = self._numbers.get((node, run))
        if newest is None:
            self._begin_run(event, run)
        elif seq <= newest:
            return False
        elif seq > newest + 1:
            self.lost_events += seq - newest - 1
            self._holes.append(_Hole(node, event.t_ms, seq - newest - 1))
        self._numbers[node, run] = seq
        return True

    def _begin_run(self, event: Event, run: int) -> None:
        old_run = self._runs.get(event.node)
        if old_run is not None and event.node not in self._stopped:
            self._holes.append(_Hole(event.node, event.t_ms, 0))
        self._runs[event.node] = run
        self._stopped.pop(event.node, None)

    def stopped(self, event: Event) -> None:
        """Record a BROKER_DOWN or CLIENT_STOP: the last event of its node is not lost."""
        self._stopped[event.node] = None

    def uncertainty_at(self, t_ms: float, nodes: Iterable[str]) -> str:
        """Return why an anomaly of these nodes is in doubt; "" if none of their events is missing near that time."""
        if self._complete:
            return ""
        involved = dict.fromkeys(nodes)
        for hole in reversed(self._holes):
            if hole.node in involved and hole.t_ms - HOLE_REACH_MS <= t_ms <= hole.t_ms + HOLE_REACH_MS:
                if hole.lost:
                    return f"{plural(hole.lost, 'event')} of {hole.node} {'is' if hole.lost == 1 else 'are'} missing"
                return f"{hole.node} was started again, and its last events before that may be missing"
        return ""

    def add(
        self,
        rule: Rule,
        event: Event,
        text: str,
        witness: Iterable[Event | None],
        *,
        doubt: str = "",
        order_uncertainty: str = "",
        t_ms: float | None = None,
    ) -> None:
        """Add an anomaly about the group and queue of an event, observed at the time of the event.

        `doubt` applies only to an incomplete history; `order_uncertainty`, a `ledger_uncertainty` of the clocks, always
        applies.
        """
        seen_ms = event.t_ms if t_ms is None else t_ms
        # Two rules may have kept the same event; each is shown once.
        shown_events = sorted({id(each): each for each in witness if each is not None}.values(), key=order_of)[
            -MAX_WITNESS:
        ]
        involved = [each.node for each in shown_events] + [each.broker for each in shown_events]
        doubt = doubt if not self._complete else ""
        doubt = doubt or self.uncertainty_at(seen_ms, involved)
        doubt = doubt or next(
            (why for each in shown_events if (why := self.clocks.uncertainty(each.node, each.t_ms))), ""
        )
        doubt = doubt or order_uncertainty
        self._found[rule, bool(doubt)] += 1
        if self._found[rule, bool(doubt)] > MAX_ANOMALIES:
            return
        queue = MessageQueue(event.topic, event.broker, event.queue_id) if event.queue_id >= 0 else None
        self.anomalies.append(
            Anomaly(
                rule=rule,
                t_ms=seen_ms,
                group=event.group,
                queue=queue,
                text=text,
                witness=tuple(shown_events),
                doubt=doubt,
            )
        )

    def mark_all_uncertain(self, doubt: str) -> None:
        """Mark all anomalies as in doubt, because the missing part of the trace may contain their explanation."""
        self._doubt = doubt
        self.anomalies = [each if each.doubt else replace(each, doubt=doubt) for each in self.anomalies]
        for rule in Rule:
            self._found[rule, True] += self._found.pop((rule, False), 0)

    def was_reset(self, event: Event) -> None:
        """Record a reset of an offset: a line of a ledger that seems to be shortly before it may be after it."""
        queue = MessageQueue(event.topic, event.broker, event.queue_id)
        for index, each in enumerate(self.anomalies):
            if each.rule is Rule.DUPLICATE and not each.doubt and (each.group, each.queue) == (event.group, queue):
                doubt = self.clocks.ledger_uncertainty(event.node, event.t_ms - each.t_ms)
                if doubt:
                    self.anomalies[index] = replace(each, doubt=doubt)
                    self._found[each.rule, False] -= 1
                    self._found[each.rule, True] += 1

    def verdicts(self) -> tuple[RuleVerdict, ...]:
        """Return the verdict of every rule."""
        return tuple(self._verdict(rule) for rule in Rule)

    def _verdict(self, rule: Rule) -> RuleVerdict:
        anomalies, doubtful = self._found[rule, False], self._found[rule, True]
        answer, reason = Answer.YES, ""
        if anomalies:
            answer = Answer.NO
        elif doubtful:
            answer = Answer.UNKNOWN
            reason = next(each.doubt for each in self.anomalies if each.rule is rule)
        elif self.lost_events and not self._complete:
            answer, reason = Answer.UNKNOWN, f"{plural(self.lost_events, 'event', 'is', 'are')} missing"
        elif self._doubt:
            answer, reason = Answer.UNKNOWN, self._doubt
        elif not self.checked[rule]:
            answer = Answer.NOTHING
        elif self.clocks.unknown:
            answer, reason = Answer.UNKNOWN, self.clocks.unknown
        return RuleVerdict(
            rule=rule, answer=answer, checked=self.checked[rule], found=anomalies, doubtful=doubtful, reason=reason
        )


def is_end_of_node(event: Event) -> bool:
    """Whether an event reports the stop of its node."""
    if event.kind == EventKind.BROKER_DOWN:
        return event.detail == "stop"
    return event.kind == EventKind.CLIENT_STOP
