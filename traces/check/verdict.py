"""The answer of a history check: a verdict for each rule, and what speaks against it. Pure.

An `Anomaly` names what is wrong as Jepsen does where Jepsen has a name for it, says it in words, and has the events
that show it: its witness. A rule whose anomalies rest on events that may be missing answers `unknown`, and never `no`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from model.events import Event
from model.message_queue import MessageQueue
from traces.figures.clocks.clocks import ClockFault
from traces.figures.faults import FaultRow

MAX_WITNESS = 20
"""Most events of a witness: more than that nobody reads."""
MAX_ANOMALIES = 20
"""Most anomalies of one rule that are kept; further ones are counted. One broken thing breaks more."""


class Rule(StrEnum):
    """What a history is checked for; an anomaly has the name of the rule that it breaks."""

    DOUBLE_OWNER = "double-owner"
    ORPHAN = "orphan"
    STALE_VIEW = "stale-view"
    UNCAUSED_MOVE = "uncaused-move"
    FLAP = "flap"
    THUNDERING = "thundering"
    NONMONOTONIC_COMMIT = "nonmonotonic-commit"
    POLL_SKIP = "poll-skip"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    LOST_WRITE = "lost-write"
    DUPLICATE = "duplicate"
    PHANTOM = "phantom"
    OUT_OF_ORDER = "out-of-order"


MEANING = {
    Rule.DOUBLE_OWNER: "two members owned one queue at a time",
    Rule.ORPHAN: "a queue had no owner although a member wanted its topic",
    Rule.STALE_VIEW: "a member went on with an old member list",
    Rule.UNCAUSED_MOVE: "a queue moved, and no change of the world explains it",
    Rule.FLAP: "a queue went to and fro between members that stayed",
    Rule.THUNDERING: "members ran passes again and again that changed nothing",
    Rule.NONMONOTONIC_COMMIT: "a committed offset went back although nobody reset it",
    Rule.POLL_SKIP: "messages of a queue were left out",
    Rule.NONMONOTONIC_POLL: "an owner went back within a queue that it kept",
    Rule.LOST_WRITE: "an acknowledged message was never processed",
    Rule.DUPLICATE: "a message came again although its group had committed it",
    Rule.PHANTOM: "a message came that nobody had sent",
    Rule.OUT_OF_ORDER: "messages of one queue or key overtook each other",
}
"""Each rule -> what it says of a history that breaks it."""


class Answer(StrEnum):
    """Whether a history keeps a rule."""

    YES = "yes"
    UNKNOWN = "unknown"
    NO = "no"
    NOTHING = "-"
    """Of one rule: the history has nothing that the rule could judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One thing that must not have happened, or may not have.

    Attributes:
        t_ms: when it could first be seen.
        queue: None if it is about no single queue.
        text: what happened, with times and names.
        witness: the events that show it, in their order; `MAX_WITNESS` at the most.
        doubt: why it may be nothing; "" if it is certain.
    """

    rule: Rule
    t_ms: float
    group: str
    queue: MessageQueue | None
    text: str
    witness: tuple[Event, ...]
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVerdict:
    """The answer for one rule.

    Attributes:
        checked: how many things it was asked of, for instance commits; 0 if the history has none.
        found: anomalies that are certain, all counted.
        doubtful: those that are not.
        reason: why the answer is unknown; "" otherwise.
    """

    rule: Rule
    answer: Answer
    checked: int
    found: int = 0
    doubtful: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMessages:
    """The messages of a ledger in one group, each counted once unless it says otherwise."""

    group: str
    sent: int  # acknowledged to their producers
    failed_sends: int  # some of their messages may be stored
    received: int  # processed, or among the dead-letter messages
    lost: int  # acknowledged and not received: the lag, while a run goes on
    duplicates: int  # receipts beyond the first of each message


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer for a whole history.

    Attributes:
        answer: `no` if a rule says so, else `unknown` if one does.
        anomalies: in the order in which they were seen, `MAX_ANOMALIES` of each rule.
        lost_events: numbers of events that are missing between others of their node.
        messages: of each group, if the history has a ledger.
        began_ms: wall clock of the first event.
        faults: what was done on purpose, `MAX_ROWS` at the most.
        missing: the part of the trace that could not be read; "" if nothing is known to be missing.
        clocks: those that were wrong; the times of the verdict are the right ones, as far as they could be corrected.
    """

    answer: Answer
    events: int
    nodes: int
    lost_events: int
    span_ms: float
    rules: tuple[RuleVerdict, ...]
    anomalies: tuple[Anomaly, ...]
    messages: tuple[GroupMessages, ...] = ()
    began_ms: float = 0.0
    faults: tuple[FaultRow, ...] = ()
    missing: str = ""
    clocks: tuple[ClockFault, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against it."""
        return self.answer is Answer.YES

    def of(self, rule: Rule) -> RuleVerdict:
        """The answer for one rule."""
        return next(each for each in self.rules if each.rule is rule)
