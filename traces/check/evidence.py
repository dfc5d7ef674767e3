"""Collects what the rules of a history check find, and what is missing from the history. Pure.

Each node numbers its events, so a hole in the numbers of one node is a lost event, and a new run of a broker means that
its last events may never have been sent. An anomaly that rests on a node with such a hole shortly before is in doubt.
So is one that rests on an event whose right time is unknown.

    broker-a 1 2 3 7      three events are lost: what is found of broker-a there is in doubt
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from model.events import Event, EventKind
from model.limits import RUN_SEQS
from model.message_queue import MessageQueue
from traces.check.verdict import MAX_ANOMALIES, MAX_WITNESS, Anomaly, Answer, Rule, RuleVerdict
from traces.figures.clocks.clocks import RIGHT_CLOCKS
from traces.figures.records import order_of

MAX_HOLES = 100
"""Holes that are remembered; they only cast doubt on what is found near them."""
HOLE_REACH_MS = 60_000.0
"""For how long after a hole what is missing may matter: two intervals in which clients poll routes and beat hearts."""


class _Hole(NamedTuple):
    node: str
    t_ms: float
    lost: int  # 0 if nobody knows whether there were any


class Evidence:
    """Anomalies and holes of one history."""

    def __init__(self, *, complete: bool) -> None:
        self.checked: Counter[Rule] = Counter()
        self.anomalies: list[Anomaly] = []
        self.lost_events = 0
        self._doubt = ""  # of everything
        self._complete = complete
        self.clocks = RIGHT_CLOCKS
        self._found: Counter[tuple[Rule, bool]] = Counter()
        self._numbers: dict[tuple[str, int], int] = {}  # node and run -> number of its newest event
        self._runs: dict[str, int] = {}  # node -> its newest run
        self._stopped: dict[str, None] = {}  # brokers that said that they stop
        self._holes: deque[_Hole] = deque(maxlen=MAX_HOLES)

    @property
    def nodes(self) -> int:
        """Nodes that told something."""
        return len(self._runs)

    def number(self, event: Event) -> bool:
        """Take the number of an event; whether it is new, and not one that was sent twice."""
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
        before = self._runs.get(event.node)
        if before is not None and event.node not in self._stopped:
            self._holes.append(_Hole(event.node, event.t_ms, 0))
        self._runs[event.node] = run
        self._stopped.pop(event.node, None)

    def stopped(self, event: Event) -> None:
        """Take a BROKER_DOWN or CLIENT_STOP: the last event of its node is not lost."""
        self._stopped[event.node] = None

    def doubt_at(self, t_ms: float, nodes: Iterable[str]) -> str:
        """Why what rests on these nodes may be nothing; "" if nothing is missing of them shortly before."""
        if self._complete:
            return ""
        involved = dict.fromkeys(nodes)
        for hole in reversed(self._holes):
            if hole.node in involved and hole.t_ms - HOLE_REACH_MS <= t_ms <= hole.t_ms + HOLE_REACH_MS:
                if hole.lost:
                    return f"{hole.lost:,} events of {hole.node} are missing"
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
        order_doubt: str = "",
        t_ms: float | None = None,
    ) -> None:
        """Add an anomaly about the group and queue of an event, seen at its time.

        `doubt` counts unless the history is complete, `order_doubt` always: it is a `ledger_doubt` of the clocks.
        """
        seen_ms = event.t_ms if t_ms is None else t_ms
        # What two rules remember may be one event, and each is shown once.
        shown = sorted({id(each): each for each in witness if each is not None}.values(), key=order_of)[-MAX_WITNESS:]
        involved = [each.node for each in shown] + [each.broker for each in shown]
        doubt = doubt if not self._complete else ""
        doubt = doubt or self.doubt_at(seen_ms, involved)
        doubt = doubt or next((why for each in shown if (why := self.clocks.doubt(each.node, each.t_ms))), "")
        doubt = doubt or order_doubt
        self._found[rule, bool(doubt)] += 1
        if self._found[rule, bool(doubt)] > MAX_ANOMALIES:
            return
        queue = MessageQueue(event.topic, event.broker, event.queue_id) if event.queue_id >= 0 else None
        self.anomalies.append(
            Anomaly(
                rule=rule, t_ms=seen_ms, group=event.group, queue=queue, text=text, witness=tuple(shown), doubt=doubt
            )
        )

    def doubt_all(self, doubt: str) -> None:
        """Cast doubt on the whole history, whose missing part may hold anything, also what would explain an anomaly."""
        self._doubt = doubt
        self.anomalies = [each if each.doubt else replace(each, doubt=doubt) for each in self.anomalies]
        for rule in Rule:
            self._found[rule, True] += self._found.pop((rule, False), 0)

    def was_reset(self, event: Event) -> None:
        """Take a reset of an offset: a line of a ledger that seems to be shortly before it may be behind it."""
        queue = MessageQueue(event.topic, event.broker, event.queue_id)
        for place, each in enumerate(self.anomalies):
            if each.rule is Rule.DUPLICATE and not each.doubt and (each.group, each.queue) == (event.group, queue):
                doubt = self.clocks.ledger_doubt(event.node, event.t_ms - each.t_ms)
                if doubt:
                    self.anomalies[place] = replace(each, doubt=doubt)
                    self._found[each.rule, False] -= 1
                    self._found[each.rule, True] += 1

    def verdicts(self) -> tuple[RuleVerdict, ...]:
        """The answer of every rule."""
        return tuple(self._verdict(rule) for rule in Rule)

    def _verdict(self, rule: Rule) -> RuleVerdict:
        found, doubtful = self._found[rule, False], self._found[rule, True]
        answer, reason = Answer.YES, ""
        if found:
            answer = Answer.NO
        elif doubtful:
            answer = Answer.UNKNOWN
            reason = next(each.doubt for each in self.anomalies if each.rule is rule)
        elif self.lost_events and not self._complete:
            answer, reason = Answer.UNKNOWN, f"{self.lost_events:,} events are missing"
        elif self._doubt:
            answer, reason = Answer.UNKNOWN, self._doubt
        elif not self.checked[rule]:
            answer = Answer.NOTHING
        elif self.clocks.unknown:
            answer, reason = Answer.UNKNOWN, self.clocks.unknown
        return RuleVerdict(
            rule=rule, answer=answer, checked=self.checked[rule], found=found, doubtful=doubtful, reason=reason
        )


def is_end_of_node(event: Event) -> bool:
    """Whether a node says that it stops."""
    if event.kind == EventKind.BROKER_DOWN:
        return event.detail == "stop"
    return event.kind == EventKind.CLIENT_STOP
