"""Rules about member lists and passes: old member lists, changes without notifications, needless passes. Pure.

Each broker counts its own group versions, so a version belongs to the broker that reported it. A member may plan with
the list of any broker; the list is old if that broker had a newer one long before the pass began.

    MEMBER_LEAVE version 7 at t, NOTIFY_SENT version 7 at t + 0.1 s      correct
                               , no NOTIFY_SENT by t + 15 s              stale-view: the members were not notified
    a pass that begins at t + 50 s and plans with version 6              stale-view
    c1 runs no pass by t + 50 s, and dispatches messages                 stale-view
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

from model.counted import plural
from model.events import Event, EventKind
from model.limits import MAX_KNOWN_CHANGES
from traces.check.evidence import Evidence
from traces.check.limits import HistoryLimits
from traces.check.verdict import Rule

WINDOW_MS = 60_000.0
"""Needless passes are counted over this time: three intervals of the timer."""
MAX_PASSES = 10_000
"""Maximum number of remembered passes of a window; a thousand members with ten needless passes each are thundering."""
_CHANGES = frozenset({EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE, EventKind.SUBSCRIPTION_CHANGE})
PASS_KINDS = _CHANGES | {
    EventKind.NOTIFY_SENT,
    EventKind.NOTIFY_RECEIVED,
    EventKind.REBALANCE_BEGIN,
    EventKind.REBALANCE_END,
}


@dataclass(slots=True)
class _Member:
    """The last passes of a member."""

    begun: Event | None = None  # its last pass
    planned: Event | None = None  # the end of its last pass that planned with a member list
    reported: bool = False  # an anomaly about its present list was added


class PassRules:
    """The rules for one group."""

    def __init__(self, limits: HistoryLimits, evidence: Evidence) -> None:
        self._limits = limits
        self._evidence = evidence
        self._newest: dict[str, Event] = {}  # broker -> its last change of the group
        self._replaced: dict[int, Event] = {}  # version -> the change of the same broker that made it old
        self._unnotified: dict[str, Event] = {}  # broker -> the first change that it has not notified yet
        self._members: dict[str, _Member] = {}
        self._last_change: Event | None = None
        self._needless: deque[Event] = deque(maxlen=MAX_PASSES)
        self._causes: deque[tuple[float, str]] = deque()
        self._recent: Counter[str] = Counter()  # number of entries in `_causes` for each change
        self._notified: dict[str, Event] = {}  # client -> the last notification that it received

    def process(self, event: Event) -> None:
        """Process an event about members or passes."""
        self._check_unnotified(event)
        kind = event.kind
        if kind in _CHANGES:
            self._changed(event)
        elif kind == EventKind.NOTIFY_SENT:
            self._unnotified.pop(event.broker or event.node, None)
        elif kind == EventKind.NOTIFY_RECEIVED:
            self._notified[event.client] = event
        elif kind == EventKind.REBALANCE_BEGIN:
            self._member(event.client).begun = event
        else:
            self._planned(event)

    def _member(self, client: str) -> _Member:
        member = self._members.get(client)
        if member is None:
            member = self._members[client] = _Member()
        return member

    def _changed(self, event: Event) -> None:
        broker = event.broker
        old_change = self._newest.get(broker)
        if old_change is not None and old_change.version != event.version:
            self._replaced[old_change.version] = event
            if len(self._replaced) > MAX_KNOWN_CHANGES:
                del self._replaced[next(iter(self._replaced))]
        self._newest[broker] = self._last_change = event
        cause = f"{broker} {event.version}"
        self._causes.append((event.t_ms, cause))
        self._recent[cause] += 1
        if len(self._causes) > MAX_PASSES:
            self._forget_cause()
        if event.kind == EventKind.MEMBER_LEAVE:
            if all(each.n == 0 for each in self._newest.values()) or event.n == 0:
                self._unnotified.pop(broker, None)
            self._members.pop(event.client, None)
            self._notified.pop(event.client, None)
        if event.n != 0:
            self._unnotified.setdefault(broker, event)

    def _forget_cause(self) -> None:
        _, cause = self._causes.popleft()
        self._recent[cause] -= 1
        if not self._recent[cause]:
            del self._recent[cause]

    def broker_gone(self, broker: str) -> None:
        """Drop the pending notification of a broker that starts or stops, which members see by their connections."""
        self._unnotified.pop(broker, None)

    def _check_unnotified(self, event: Event) -> None:
        for broker, change in list(self._unnotified.items()):
            if event.t_ms - change.t_ms <= self._limits.notification_ms:
                continue
            del self._unnotified[broker]
            text = (
                f"The group changed at broker {broker} ({_change(change)}), and its members were not notified within "
                f"{self._limits.notification_ms / 1000:g} s: only their timers find out."
            )
            self._evidence.add(Rule.STALE_VIEW, change, text, [change, event], t_ms=event.t_ms)

    def _planned(self, event: Event) -> None:
        member = self._member(event.client)
        pass_begin, old_plan = member.begun, member.planned
        if event.version < 0:
            return
        self._evidence.checked[Rule.STALE_VIEW] += 1
        self._evidence.checked[Rule.THUNDERING] += 1
        replaced = self._replaced.get(event.version)
        if any(each.version == event.version for each in self._newest.values()):
            replaced = None  # brokers that started together count alike: this is the present version of another broker
        if replaced is not None and pass_begin is not None:
            late_ms = pass_begin.t_ms - replaced.t_ms
            if late_ms > self._limits.stale_ms and not member.reported:
                member.reported = True
                text = (
                    f"{event.client} planned with group version {event.version}, which broker {replaced.broker} had "
                    f"replaced {late_ms / 1000:,.1f} s before ({_change(replaced)})."
                )
                self._evidence.add(Rule.STALE_VIEW, event, text, [replaced, pass_begin, event])
        else:
            member.reported = False
        member.planned = event
        needless = event.n == 0 and old_plan is not None and old_plan.version == event.version
        if needless and event.detail.partition(" ")[0] == "NOTIFY":
            self._needless_pass(event)

    def _needless_pass(self, event: Event) -> None:
        """Record a pass that a notification triggered, although the member list had not changed."""
        since_ms = event.t_ms - WINDOW_MS
        self._needless.append(event)
        while self._needless[0].t_ms < since_ms:
            self._needless.popleft()
        # A pass at the beginning of the window may follow an older change, whose notification may be late.
        while self._causes and self._causes[0][0] < since_ms - self._limits.notification_ms:
            self._forget_cause()
        # A member asks one broker for its list, so the notification of each other broker may trigger a needless pass.
        changes = len(self._recent)
        notified = self._notified.get(event.client)
        unversioned = notified is not None and notified.version < 0
        allowed = self._limits.needless_passes + (0 if unversioned else changes * max(1, len(self._members)))
        if len(self._needless) > allowed:
            n = len(self._needless)
            why = "Its notifications have no group version." if unversioned else ""
            passes = "1 pass" if n == 1 else f"{n:,} passes"
            text = (
                f"Members ran {passes} within a minute that notifications triggered and that changed nothing; the "
                f"group changed {plural(changes, 'time')} in that minute. {why}"
            ).rstrip()
            witness = [notified, *list(self._needless)[-8:]]
            self._needless.clear()
            self._evidence.add(Rule.THUNDERING, event, text, witness)

    def dispatched(self, event: Event) -> None:
        """Process MESSAGES_HANDED_OUT: a member that consumes must also run its passes."""
        change = self._last_change
        if change is None or event.t_ms - change.t_ms <= self._limits.stale_ms:
            return
        member = self._members.get(event.client)
        if member is None or member.reported or member.begun is None or member.begun.t_ms >= change.t_ms:
            return
        member.reported = True
        text = (
            f"{event.client} still used its old member list {(event.t_ms - change.t_ms) / 1000:,.1f} s after the group "
            f"changed ({_change(change)}): it had run no pass since."
        )
        self._evidence.add(Rule.STALE_VIEW, event, text, [member.begun, change, event])


def _change(event: Event) -> str:
    verb_phrase = {
        EventKind.MEMBER_JOIN: "joined",
        EventKind.MEMBER_LEAVE: "left",
        EventKind.SUBSCRIPTION_CHANGE: "changed its topics",
    }[EventKind(event.kind)]
    return f"{event.client} {verb_phrase}"
