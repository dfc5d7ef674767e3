"""A verdict in words, for people who read a trace for the first time. Pure."""

from __future__ import annotations

from model.counted import plural
from model.events import Event
from model.message_queue import MessageQueue
from traces.check.verdict import MEANING, Anomaly, Answer, Rule, RuleVerdict, Verdict
from traces.figures.clocks.clocks import ClockFault

_ASKED = {
    Rule.DOUBLE_OWNER: "each queue had one owner at a time",
    Rule.ORPHAN: "each wanted queue had an owner",
    Rule.STALE_VIEW: "members noticed every change",
    Rule.UNCAUSED_MOVE: "a change explains every move",
    Rule.FLAP: "queues stayed where they were",
    Rule.THUNDERING: "passes had a purpose",
    Rule.NONMONOTONIC_COMMIT: "commits only went forward",
    Rule.POLL_SKIP: "owners skipped no message",
    Rule.NONMONOTONIC_POLL: "owners only went forward",
    Rule.LOST_WRITE: "no acknowledged message was lost",
    Rule.DUPLICATE: "no committed message was redelivered",
    Rule.PHANTOM: "every delivered message was sent",
    Rule.OUT_OF_ORDER: "messages stayed in order",
}
"""Each rule -> its condition, as a statement that is true of a correct history."""


def rule_condition(rule: Rule) -> str:
    """Return the condition of a rule."""
    return _ASKED[rule]


def rule_text(verdict: RuleVerdict) -> str:
    """Return the verdict of one rule in a few words."""
    if verdict.answer is Answer.NO:
        more = f", {verdict.doubtful:,} more in doubt" if verdict.doubtful else ""
        times = "once" if verdict.found == 1 else f"{verdict.found:,} times"
        return f"{times}: {MEANING[verdict.rule]}{more}"
    if verdict.answer is Answer.UNKNOWN:
        return verdict.reason
    return "nothing in the history to judge" if verdict.answer is Answer.NOTHING else ""


def summary(verdict: Verdict) -> str:
    """Return the whole verdict in a sentence or two."""
    size = f"{plural(verdict.events, 'event')} of {plural(verdict.nodes, 'node')} in {verdict.span_ms / 1000:,.1f} s"
    if not verdict.events:
        return "There is nothing to judge: the history is empty." + (f" {verdict.missing}." if verdict.missing else "")
    if verdict.answer is Answer.YES:
        return f"Yes: {size} keep every rule."
    if verdict.answer is Answer.NO:
        broken = [each.rule.value for each in verdict.rules if each.answer is Answer.NO]
        return f"No: {size} break {', '.join(broken)}."
    if verdict.missing:
        return f"Unknown: {size}, and {verdict.missing}."
    missing = f" {plural(verdict.lost_events, 'event', 'is', 'are')} missing." if verdict.lost_events else ""
    wrong = "".join(f" {clock_text(each)}" for each in verdict.clocks if not each.is_corrected)
    return f"Unknown: {size}, and nothing that is certain.{missing}{wrong}"


def clock_text(fault: ClockFault) -> str:
    """Describe a clock that was wrong, and whether its times are corrected."""
    text = str(fault)
    after = "its times are corrected" if fault.is_corrected else "its times cannot be corrected"
    return f"{text[0].upper()}{text[1:]}: {after}."


def headline(anomaly: Anomaly) -> str:
    """Return the first line about an anomaly."""
    return f"{anomaly.rule.value}: {anomaly.text}" + (f" In doubt: {anomaly.doubt}." if anomaly.doubt else "")


def event_text(event: Event) -> str:
    """Return the non-empty columns of an event, without its time, node and kind."""
    queue = f"{event.topic}@{event.broker}:{event.queue_id}" if event.queue_id >= 0 else event.topic
    parts = [
        queue,
        event.client if event.client != event.node else "",
        f"version={event.version}" if event.version >= 0 else "",
        f"offset={event.offset:,}" if event.offset >= 0 else "",
        f"n={event.n:,}" if event.n >= 0 else "",
        event.detail,
    ]
    return " ".join(part for part in parts if part)


def witness_lines(anomaly: Anomaly) -> list[str]:
    """Return the witness of an anomaly, a line for each event, with the milliseconds since the first."""
    if not anomaly.witness:
        return []
    began = anomaly.witness[0].t_ms
    wide = max(len(event.node) for event in anomaly.witness)
    return [
        f"{event.t_ms - began:+10,.1f} ms  {event.node:{wide}}  {event.kind:19}  {event_text(event)}"
        for event in anomaly.witness
    ]


def queue_name(queue: MessageQueue | None) -> str:
    """Return the name of a queue for a table."""
    return "" if queue is None else str(queue)
