"""Kinds of findings of a run with copies, and the findings of a step. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.crash.audit import KINDS
from testbed.crash.copies.schedule import HANDOVERS, Act
from testbed.crash.copies.watch import Effects

MOVED, TWICE, BLIND, NO_RESTART = "moved by a handover", "twice by a handover", "no move seen", "no restart"
COPIES_KINDS = {
    **KINDS,
    MOVED: "a handover interrupted the owner of a queue",
    TWICE: "a message was processed again because of a handover",
    BLIND: "no moved queue was counted when a member joined, so the counts of moved queues mean nothing",
    NO_RESTART: "a replica did not start again, or not come into sync, or a command of the operator failed",
}
"""Every kind of finding, with its meaning."""


def findings_of(act: Act, effects: Effects) -> Iterator[tuple[str, str]]:
    """The findings of a step, each with its kind and a text: after a lost master, members may repeat messages."""
    if act in HANDOVERS and effects.moved:
        yield MOVED, f"{effects.moved} queues"
    if act in HANDOVERS and effects.twice:
        yield TWICE, f"{effects.twice} messages"
