"""The answer of a history check: a verdict for each rule, and the anomalies. Pure.

An `Anomaly` has the name of Jepsen for the fault where Jepsen has one, a description, and the events that show it: its
witness. If all anomalies of a rule depend on events that may be missing, the rule answers `unknown`, not `no`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from model.events import Event
from model.message_queue import MessageQueue
from traces.figures.clocks.clocks import ClockFault
from traces.figures.faults import InjectedFault

MAX_WITNESS = 20
"""Maximum number of events of a witness: people do not read more."""
MAX_ANOMALIES = 20
"""Maximum number of kept anomalies of one rule; further ones are only counted, because one fault often causes many."""


class Rule(StrEnum):
    """The rules of a history check; an anomaly has the name of the rule that it breaks."""

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
    Rule.STALE_VIEW: "a member kept using an old member list",
    Rule.UNCAUSED_MOVE: "a queue moved, and no change of the world explains it",
    Rule.FLAP: "a queue moved back and forth between members that stayed",
    Rule.THUNDERING: "members ran many passes that changed nothing",
    Rule.NONMONOTONIC_COMMIT: "a committed offset went back without a reset",
    Rule.POLL_SKIP: "messages of a queue were left out",
    Rule.NONMONOTONIC_POLL: "an owner went back within a queue that it kept",
    Rule.LOST_WRITE: "an acknowledged message was never processed",
    Rule.DUPLICATE: "a message was redelivered although its group had committed it",
    Rule.PHANTOM: "a message was delivered that no producer had sent",
    Rule.OUT_OF_ORDER: "messages of one queue or key overtook each other",
}
"""Each rule -> the fault of a history that breaks it."""


class Answer(StrEnum):
    """Whether a history keeps a rule."""

    YES = "yes"
    UNKNOWN = "unknown"
    NO = "no"
    NOTHING = "-"
    """The answer of a rule if the history has no event that the rule could judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """A fault that happened, or possibly happened.

    Attributes:
        t_ms: the first time at which it could be detected.
        queue: None if it does not concern a single queue.
        text: a description, with times and names.
        witness: the events that show it, in order; at most `MAX_WITNESS`.
        doubt: why it may be a false alarm; "" if it is certain.
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
        checked: the number of checked items, for instance commits; 0 if the history has none.
        found: the number of certain anomalies.
        doubtful: the number of anomalies in doubt.
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
    """The messages of a ledger in one group; each message counts once, except in `duplicates`."""

    group: str
    sent: int  # acknowledged to their producers
    failed_sends: int  # some of their messages may be stored
    received: int  # processed, or in the dead-letter queue
    lost: int  # acknowledged and not received; during a run, this is the lag
    duplicates: int  # receipts beyond the first of each message


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer for a whole history.

    Attributes:
        answer: `no` if the answer of a rule is no, else `unknown` if the answer of a rule is unknown.
        anomalies: in the order of their times, at most `MAX_ANOMALIES` of each rule.
        lost_events: the number of events that are missing between other events of their node.
        messages: the counts of each group, if the history has a ledger.
        began_ms: wall clock of the first event.
        faults: the injected faults, at most `MAX_ROWS`.
        missing: the part of the trace that could not be read; "" if nothing is known to be missing.
        clocks: the clocks that were wrong; times in the verdict are corrected where that was possible.
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
    faults: tuple[InjectedFault, ...] = ()
    missing: str = ""
    clocks: tuple[ClockFault, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the answer is yes."""
        return self.answer is Answer.YES

    def of(self, rule: Rule) -> RuleVerdict:
        """Return the verdict of one rule."""
        return next(each for each in self.rules if each.rule is rule)
