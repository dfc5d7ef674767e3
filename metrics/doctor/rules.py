"""Diagnoses a cluster: derives problems from a snapshot, one rule for each kind of subject. Pure.

A rule reports only problems with evidence, and names the evidence. A group that is just rebalancing is not ill: a
condition that disappears by itself within seconds counts only if both observations have it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator

from client.admin.records import GroupInfo, QueueProgress
from metrics.doctor.copies import another_copy, copies
from metrics.doctor.problems import Diagnosis, Problem, make_diagnosis
from metrics.doctor.snapshot import Snapshot
from model.absent_broker import format_duration
from model.counted import plural
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from model.names import is_system_topic
from model.replica_limits import STUCK_DISK_S

CLOCKS_APART_MS = 1_000.0
DISK_LOW_SHARE = 0.10
LAG_GROWS_BY = 100
"""A lag has to grow by this many messages between the two observations."""
RESTLESS_JOINS_PER_MINUTE = 6.0
RESTART_MS = 60_000.0
"""After a broker's start its members register again for this long: twice the heartbeat interval."""
_SHOWN = 5


def diagnose(snapshot: Snapshot) -> list[Diagnosis]:
    """Return all problems, first of servers, then of groups; the list is empty for a healthy cluster."""
    return [finding for rule in _RULES for finding in rule(snapshot)]


# --- servers ----------------------------------------------------------------------------------------------------------


def _name_servers(snapshot: Snapshot) -> Iterator[Diagnosis]:
    answering = [each for each in snapshot.name_servers if not each.error]
    for each in snapshot.name_servers:
        if each.error:
            yield make_diagnosis(Problem.NAME_SERVER_AWAY, f"name server {each.address}", each.error)
    for name in sorted({name for each in answering for name in each.brokers}):
        listed = {each.address: each.brokers.get(name, "not registered") for each in answering}
        if len(set(listed.values())) > 1:
            yield make_diagnosis(
                Problem.NAME_SERVERS_DIFFER,
                f"broker {name}",
                "; ".join(f"{address} says {value}" for address, value in listed.items()),
            )


def _absent_brokers(snapshot: Snapshot) -> Iterator[Diagnosis]:
    registered = {each.name for each in snapshot.brokers}
    for away in snapshot.absence.brokers:
        if away.broker_name in snapshot.sets or (away.is_master and away.broker_name in registered):
            continue  # a replica of a set, or it left while the doctor was reading: another rule reports it
        topics = [each for each in away.topics if not is_system_topic(each.topic) and not each.topic.startswith("%")]
        queues = sum(config.read_queue_nums for config in topics)
        with_it = f", and {plural(queues, 'queue', 'is', 'are')} away with it" if queues else ""
        if away.broker_name in snapshot.missing.parts:
            with_it += "; its part of the trace is missing"
        replica = "" if away.is_master else f" id {away.broker_id}"
        yield make_diagnosis(
            Problem.BROKER_AWAY,
            f"broker {away.broker_name}{replica}",
            f"at {away.address} it {away.reason} {format_duration(away.away_s)} ago without unregistering{with_it}",
        )


def _brokers(snapshot: Snapshot) -> Iterator[Diagnosis]:
    for each in snapshot.brokers:
        subject = f"broker {each.name}"
        if each.info is None:
            if each.name in snapshot.sets:
                continue  # another rule reports a set without a master
            yield make_diagnosis(
                Problem.BROKER_AWAY,
                subject,
                f"it is registered at {each.address}, but does not answer there: {each.error}",
            )
            continue
        if each.info.name != each.name:
            yield make_diagnosis(
                Problem.WRONG_BROKER,
                subject,
                f"it is registered at {each.address}, but broker {each.info.name} answers there",
            )
        if each.info.quirks:
            yield make_diagnosis(
                Problem.QUIRKS_ON, subject, f"it reproduces defects of RocketMQ: {', '.join(each.info.quirks)}"
            )
        if each.info.events_dropped:
            yield make_diagnosis(
                Problem.EVENTS_LOST,
                subject,
                f"{plural(each.info.events_dropped, 'event')} never reached SYS_TRACE since it started",
            )
        damaged = sum(queue.damaged for topic in each.info.topics for queue in topic.ranges)
        if damaged:
            evidence = f"{plural(damaged, 'message', 'is', 'are')} damaged or missing in its files"
            if copy := another_copy(snapshot, each.name):
                yield make_diagnosis(Problem.MASTER_DAMAGED, subject, evidence, broker=each.name, replica=str(copy))
            else:
                yield make_diagnosis(Problem.MESSAGES_DAMAGED, subject, evidence)


def _disks(snapshot: Snapshot) -> Iterator[Diagnosis]:
    for each in snapshot.brokers:
        if each.info is not None and each.info.sync_running_s >= STUCK_DISK_S:
            evidence = f"a sync of its disk has taken {each.info.sync_running_s:.1f} s and has not ended"
            yield make_diagnosis(Problem.DISK_HANGS, f"broker {each.name}", evidence)
        if each.info is None or each.info.disk_total_bytes <= 0:
            continue
        free, total = each.info.disk_free_bytes, each.info.disk_total_bytes
        evidence = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB are free"
        if each.info.disk_full:
            yield make_diagnosis(Problem.DISK_FULL, f"broker {each.name}", f"it refuses sends; {evidence}")
        elif free < total * DISK_LOW_SHARE:
            yield make_diagnosis(Problem.DISK_FILLS, f"broker {each.name}", evidence)


def _held_logs(snapshot: Snapshot) -> Iterator[Diagnosis]:
    for each in snapshot.brokers:
        # While the log exceeds a limit because of a holder, the broker reports the holder and the remedy.
        if each.info is not None and each.info.log_held_by:
            yield make_diagnosis(Problem.LOG_HELD, f"broker {each.name}", each.info.log_held_by)


def _clocks(snapshot: Snapshot) -> Iterator[Diagnosis]:
    for each in snapshot.brokers:
        ahead = each.clock_ahead_ms
        if ahead is not None and abs(ahead) > CLOCKS_APART_MS + each.round_trip_ms:
            yield make_diagnosis(
                Problem.CLOCKS_APART,
                f"broker {each.name}",
                f"its clock is {abs(ahead) / 1000:.1f} s {'ahead of' if ahead > 0 else 'behind'} the one here",
            )
    brokers = {each.name for each in snapshot.brokers}
    for fault in snapshot.clocks:
        if fault.node not in brokers and abs(fault.ahead_ms) > CLOCKS_APART_MS:
            yield make_diagnosis(
                Problem.CLOCKS_APART,
                f"client {fault.node}",
                f"{fault} by its events of the last {snapshot.minutes:g} minutes, compared with events of other nodes",
            )


# --- groups -----------------------------------------------------------------------------------------------------------


def _agreement(snapshot: Snapshot) -> Iterator[Diagnosis]:
    for name, (_, now) in snapshot.groups.items():
        for each in now.disagreements:
            yield make_diagnosis(Problem.MEMBERS_DISAGREE, f"group {name}", str(each), consequence=each.consequence)


def _views(snapshot: Snapshot) -> Iterator[Diagnosis]:
    for name, looks in snapshot.groups.items():
        missing: list[set[tuple[str, str]]] = []
        for info in looks:
            brokers = {broker for member in info.members for broker in member.brokers}
            missing.append(
                {(member.client_id, broker) for member in info.members for broker in brokers - set(member.brokers)}
            )
        for client_id, broker in sorted(missing[0] & missing[1])[:_SHOWN]:
            yield make_diagnosis(
                Problem.MEMBER_UNKNOWN,
                f"group {name}",
                f"broker {broker} does not know member {client_id}, which other brokers list",
            )


def _owners(snapshot: Snapshot) -> Iterator[Diagnosis]:
    for name, (first, second) in snapshot.groups.items():
        if second.broadcasting or not second.members or second.switched_off:
            continue
        orphans = _orphans(first) & _orphans(second)
        if orphans:
            targets = sorted(
                {client_id for each in second.queues if each.queue in orphans for client_id in each.targets}
            )
            reason = f"{', '.join(targets)} should own them" if targets else "no member's strategy takes them"
            yield make_diagnosis(
                Problem.QUEUES_WITHOUT_OWNER,
                f"group {name}",
                f"{_some(sorted(orphans))} have had no owner for {snapshot.interval_s:.0f} s; {reason}",
                group=name,
            )


def _orphans(info: GroupInfo) -> set[MessageQueue]:
    stranded = set(info.stranded)
    return {each.queue for each in info.queues if each.owner is None and (each.targets or each.queue in stranded)}


def _progress(snapshot: Snapshot) -> Iterator[Diagnosis]:
    for name, (first, second) in snapshot.groups.items():
        if (
            second.broadcasting
            or not second.members
            or second.switched_off
            or any(member.suspended for member in second.members)
        ):
            continue
        was = {each.queue: each for each in first.queues}
        stuck = [each for each in second.queues if each.queue in was and _is_stuck(was[each.queue], each)]
        for owner in dict.fromkeys(each.owner for each in stuck):
            queues = [each.queue for each in stuck if each.owner == owner]
            yield make_diagnosis(
                Problem.QUEUE_STUCK,
                f"group {name}",
                f"{owner} owns {_some(queues)} with messages, and committed none in {snapshot.interval_s:.0f} s",
            )
        grown = second.lag - first.lag
        if grown >= LAG_GROWS_BY and not stuck:
            yield make_diagnosis(
                Problem.LAG_GROWS,
                f"group {name}",
                f"its lag grew from {first.lag} to {second.lag} in {snapshot.interval_s:.0f} s",
            )


def _is_stuck(first: QueueProgress, second: QueueProgress) -> bool:
    same_owner = second.owner is not None and second.owner == first.owner
    return same_owner and bool(first.lag) and bool(second.lag) and first.committed == second.committed


def _settings(snapshot: Snapshot) -> Iterator[Diagnosis]:
    for name, (_, now) in snapshot.groups.items():
        if now.switched_off:
            yield make_diagnosis(
                Problem.GROUP_OFF,
                f"group {name}",
                f"it is switched off on {', '.join(now.switched_off)}, and its lag is {now.lag}",
                group=name,
            )
        for member in now.members:
            if member.suspended:
                yield make_diagnosis(
                    Problem.MEMBER_SUSPENDED,
                    f"group {name}",
                    f"{member.client_id} is suspended, and owns {plural(len(member.queues), 'queue')}",
                )


# --- the last minutes -------------------------------------------------------------------------------------------------


def _events(snapshot: Snapshot) -> Iterator[Diagnosis]:
    by_subject: dict[tuple[Problem, str], list[Event]] = defaultdict(list)
    for event in snapshot.events:
        rule = _OF_EVENTS.get(event.kind)
        if rule is not None and event.group:
            by_subject[rule, event.group].append(event)
    for (problem, group), events in sorted(by_subject.items()):
        last = events[-1]
        n = sum(max(1, event.n) for event in events)
        evidence = f"{_EVIDENCE[problem](last, n)} in the last {snapshot.minutes:g} minutes"
        yield make_diagnosis(problem, f"group {group}", evidence, group=group)


_OF_EVENTS: dict[str, Problem] = {
    EventKind.LISTENER_TIMED_OUT: Problem.LISTENER_HANGS,
    EventKind.DEAD_LETTER: Problem.DEAD_LETTERS,
    EventKind.OFFSET_MOVED: Problem.MESSAGES_MISSED,
    EventKind.CLIENT_ID_CONFLICT: Problem.CLIENT_ID_TWICE,
}
_EVIDENCE: dict[Problem, Callable[[Event, int], str]] = {
    Problem.LISTENER_HANGS: lambda event, n: (
        f"listener {event.detail} of {event.client} did not return for {plural(n, 'message')}"
    ),
    Problem.DEAD_LETTERS: lambda event, n: (
        f"{plural(n, 'message', 'became a dead letter', 'became dead letters')}, the last on {event.topic}"
    ),
    Problem.MESSAGES_MISSED: lambda event, n: (
        f"{event.client} had to skip messages of {event.topic} that are no longer there"
    ),
    Problem.CLIENT_ID_TWICE: lambda event, n: f"a second process at {event.detail} used the client id {event.client}",
}


class _Joins:
    """The joins of the members of one group, as brokers report them."""

    def __init__(self, first: Event) -> None:
        self.began_ms = first.t_ms
        self.n = self.peak = 0
        self._at: dict[str, set[str]] = {}  # member -> the brokers that know it

    def add(self, event: Event) -> None:
        if event.kind == EventKind.MEMBER_JOIN:
            self.n += event.client not in self._at
            self._at.setdefault(event.client, set()).add(event.broker)
            self.peak = max(self.peak, len(self._at))
        elif event.client in self._at:
            self._at[event.client].discard(event.broker)
            if not self._at[event.client]:
                del self._at[event.client]

    @property
    def replacements(self) -> int:
        """Joins in place of a member that had left: all but one join for each of the members of the peak."""
        return self.n - self.peak


def _restless(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Find groups whose members keep leaving and joining.

    A first start, one restart of each member, and registrations at a restarted broker do not count.
    """
    restarted_ms: dict[str, float] = {}
    groups: dict[str, _Joins] = {}
    for event in snapshot.events:
        if event.kind == EventKind.BROKER_UP and event.node == event.broker:
            restarted_ms[event.broker] = event.t_ms
        is_new = event.t_ms - restarted_ms.get(event.broker, -math.inf) > RESTART_MS
        if is_new and event.kind in (EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE):
            groups.setdefault(event.group, _Joins(event)).add(event)
    for group, joins in sorted(groups.items()):
        minutes = max(1.0, (snapshot.events[-1].t_ms - joins.began_ms) / 60_000)
        n = joins.replacements
        if n / minutes > RESTLESS_JOINS_PER_MINUTE and n > max(2 * RESTLESS_JOINS_PER_MINUTE, joins.peak):
            yield make_diagnosis(
                Problem.GROUP_RESTLESS,
                f"group {group}",
                f"{plural(n, 'time')} a member joined in place of one that had left, in {minutes:.0f} minutes; the "
                f"group had at most {joins.peak} members at a time",
            )


def _some(queues: list[MessageQueue]) -> str:
    shown_queues = ", ".join(map(str, queues[:_SHOWN]))
    return shown_queues if len(queues) <= _SHOWN else f"{shown_queues} and {len(queues) - _SHOWN} more"


_RULES: tuple[Callable[[Snapshot], Iterator[Diagnosis]], ...] = (
    *(_name_servers, _absent_brokers, _brokers, copies, _disks, _held_logs, _clocks),
    *(_agreement, _views, _owners, _progress, _settings, _events, _restless),
)
