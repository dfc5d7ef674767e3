"""Kinds of findings of a run with copies, and the findings of a step. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from model.counted import plural
from testbed.crash.audit import KINDS
from testbed.crash.copies.schedule import HANDOVERS, Act
from testbed.crash.copies.watch import Effects

MOVED, OWNERS, TWICE, STALLED = "queue moved", "two owners", "consumed twice too often", "sends stalled"
BLIND, NO_RESTART = "no move seen", "no restart"
STALLED_S = 10.0
"""Time without an acknowledged send that counts as a hang: more than twice as long as an election may take."""
COPIES_KINDS = {
    **KINDS,
    MOVED: "a fault or a handover interrupted the owner of a queue",
    OWNERS: "a queue had two owners at one time",
    TWICE: "by a handover any, by a fault more than were under way: only those may be stored again",
    STALLED: f"no send was acknowledged for {STALLED_S:g} s",
    BLIND: "no moved queue was counted when a member joined, so the counts of moved queues mean nothing",
    NO_RESTART: "a replica did not start again, take over or come into sync, or a command of the operator failed",
}
"""Every kind of finding, with its meaning."""


def find_violations(act: Act, effects: Effects, under_way: int) -> Iterator[tuple[str, str]]:
    """The findings of a step, each with its kind and a text.

    `under_way` is the most messages that are being sent, or returned by a listener, at the same time. A fault may lose
    answers. Then they are sent again, and each copy is consumed.
    """
    if effects.moved:
        yield MOVED, plural(effects.moved, "queue")
    if effects.two_owners_ms:
        yield OWNERS, f"{effects.two_owners_ms:,.1f} ms"
    if effects.twice > (0 if act in HANDOVERS else under_way):
        yield TWICE, plural(effects.twice, "message")
    if effects.gap_s > STALLED_S:
        yield STALLED, f"{effects.gap_s:.1f} s"
