"""Diagnoses a cluster: from what was seen of it to what is wrong with it, one rule for each kind of subject. Pure.

A rule says only what it has evidence for, and names that. A group that rebalances at the moment is not ill: whatever
heals by itself within seconds has to be there at both looks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from client.admin.records import GroupInfo, QueueProgress
from metrics.doctor.snapshot import Snapshot
from model.events import Event, EventKind
from model.message_queue import MessageQueue

CLOCKS_APART_MS = 1_000.0
DISK_LOW_SHARE = 0.10
LAG_GROWS_BY = 100
"""Messages by which a lag has to grow between the two looks."""
RESTLESS_REBALANCES_PER_MINUTE = 6.0
_SHOWN = 5


class Trouble(StrEnum):
    """The troubles that are known, by their names on docs/doctor.md."""

    NAME_SERVER_AWAY = "name-server-away"
    NAME_SERVERS_DIFFER = "name-servers-differ"
    BROKER_AWAY = "broker-away"
    WRONG_BROKER = "wrong-broker"
    CLOCKS_APART = "clocks-apart"
    DISK_FULL = "disk-full"
    DISK_FILLS = "disk-fills"
    MESSAGES_DAMAGED = "messages-damaged"
    EVENTS_LOST = "events-lost"
    QUIRKS_ON = "quirks-on"
    MEMBERS_DISAGREE = "members-disagree"
    MEMBER_UNKNOWN = "member-unknown"
    QUEUES_WITHOUT_OWNER = "queues-without-owner"
    LAG_GROWS = "lag-grows"
    QUEUE_STUCK = "queue-stuck"
    LISTENER_HANGS = "listener-hangs"
    GROUP_OFF = "group-off"
    MEMBER_SUSPENDED = "member-suspended"
    DEAD_LETTERS = "dead-letters"
    MESSAGES_MISSED = "messages-missed"
    CLIENT_ID_TWICE = "client-id-twice"
    GROUP_RESTLESS = "group-restless"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing that is wrong.

    Attributes:
        subject: what it is about: a server, a group, a queue.
        evidence: what was seen.
        advice: what to do.
        docs: the page that explains it.
    """

    trouble: Trouble
    subject: str
    evidence: str
    advice: str
    docs: str


def diagnose(seen: Snapshot) -> list[Diagnosis]:
    """Everything that is wrong, servers before groups; empty for a healthy cluster."""
    return [finding for rule in _RULES for finding in rule(seen)]


# --- servers ----------------------------------------------------------------------------------------------------------


def _name_servers(seen: Snapshot) -> Iterator[Diagnosis]:
    answering = [each for each in seen.name_servers if not each.error]
    for each in seen.name_servers:
        if each.error:
            yield Diagnosis(
                trouble=Trouble.NAME_SERVER_AWAY,
                subject=f"name server {each.address}",
                evidence=each.error,
                advice="start it, or take it out of --namesrv of every broker and client",
                docs="failures.md",
            )
    for name in sorted({name for each in answering for name in each.brokers}):
        listed = {each.address: each.brokers.get(name, "not registered") for each in answering}
        if len(set(listed.values())) > 1:
            yield Diagnosis(
                trouble=Trouble.NAME_SERVERS_DIFFER,
                subject=f"broker {name}",
                evidence="; ".join(f"{address} says {value}" for address, value in listed.items()),
                advice="give the broker all name servers in --namesrv; after a cut it registers within 30 s by itself",
                docs="failures.md",
            )


def _brokers(seen: Snapshot) -> Iterator[Diagnosis]:
    for each in seen.brokers:
        subject = f"broker {each.name}"
        if each.info is None:
            yield Diagnosis(
                trouble=Trouble.BROKER_AWAY,
                subject=subject,
                evidence=f"it is registered at {each.address}, where it does not answer: {each.error}",
                advice="start it; if it moved, see --advertise; a name server drops a silent broker after 120 s",
                docs="failures.md",
            )
            continue
        if each.info.name != each.name:
            yield Diagnosis(
                trouble=Trouble.WRONG_BROKER,
                subject=subject,
                evidence=f"{each.address}, where it is registered, is broker {each.info.name}",
                advice="give each broker a port of its own, and restart both",
                docs="failures.md",
            )
        if each.info.quirks:
            yield Diagnosis(
                trouble=Trouble.QUIRKS_ON,
                subject=subject,
                evidence=f"it reproduces defects of RocketMQ: {', '.join(each.info.quirks)}",
                advice="start it without --quirk unless you study them",
                docs="quirks.md",
            )
        if each.info.events_dropped:
            yield Diagnosis(
                trouble=Trouble.EVENTS_LOST,
                subject=subject,
                evidence=f"{each.info.events_dropped} events never reached SYS_TRACE since it started",
                advice="reports of that time are incomplete; --trace FILE keeps all events of a broker",
                docs="events.md",
            )
        damaged = sum(queue.damaged for topic in each.info.topics for queue in topic.ranges)
        if damaged:
            yield Diagnosis(
                trouble=Trouble.MESSAGES_DAMAGED,
                subject=subject,
                evidence=f"{damaged} messages are damaged or missing in its files",
                advice="run rlab broker verify on its data directory, and replace the disk",
                docs="storage.md",
            )


def _disks(seen: Snapshot) -> Iterator[Diagnosis]:
    for each in seen.brokers:
        if each.info is None or each.info.disk_total_bytes <= 0:
            continue
        free, total = each.info.disk_free_bytes, each.info.disk_total_bytes
        evidence = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB are free"
        if each.info.disk_full:
            yield Diagnosis(
                trouble=Trouble.DISK_FULL,
                subject=f"broker {each.name}",
                evidence=f"it refuses sends; {evidence}",
                advice="free space, or lower --retain-age or --retain-size-max; it accepts sends again by itself",
                docs="storage.md",
            )
        elif free < total * DISK_LOW_SHARE:
            yield Diagnosis(
                trouble=Trouble.DISK_FILLS,
                subject=f"broker {each.name}",
                evidence=evidence,
                advice="lower --retain-age or set --retain-size-max before sends are refused",
                docs="storage.md",
            )


def _clocks(seen: Snapshot) -> Iterator[Diagnosis]:
    for each in seen.brokers:
        ahead = each.clock_ahead_ms
        if ahead is not None and abs(ahead) > CLOCKS_APART_MS + each.round_trip_ms:
            yield Diagnosis(
                trouble=Trouble.CLOCKS_APART,
                subject=f"broker {each.name}",
                evidence=f"its clock is {abs(ahead) / 1000:.1f} s {'ahead of' if ahead > 0 else 'behind'} the one here",
                advice="run NTP on both; times in reports, delayed messages and retention follow the broker's clock",
                docs="failures.md",
            )


# --- groups -----------------------------------------------------------------------------------------------------------


def _agreement(seen: Snapshot) -> Iterator[Diagnosis]:
    for name, (_, now) in seen.groups.items():
        for each in now.disagreements:
            yield Diagnosis(
                trouble=Trouble.MEMBERS_DISAGREE,
                subject=f"group {name}",
                evidence=str(each),
                advice=f"give all members the same setting: {each.consequence}",
                docs="failures.md",
            )


def _views(seen: Snapshot) -> Iterator[Diagnosis]:
    for name, looks in seen.groups.items():
        missing: list[set[tuple[str, str]]] = []
        for info in looks:
            brokers = {broker for member in info.members for broker in member.brokers}
            missing.append(
                {(member.client_id, broker) for member in info.members for broker in brokers - set(member.brokers)}
            )
        for client_id, broker in sorted(missing[0] & missing[1])[:_SHOWN]:
            yield Diagnosis(
                trouble=Trouble.MEMBER_UNKNOWN,
                subject=f"group {name}",
                evidence=f"broker {broker} does not know member {client_id}, which other brokers list",
                advice="the member cannot reach that broker: see its log, and the network between the two",
                docs="failures.md",
            )


def _owners(seen: Snapshot) -> Iterator[Diagnosis]:
    for name, (before, now) in seen.groups.items():
        if now.broadcasting or not now.members or now.switched_off:
            continue
        orphans = _orphans(before) & _orphans(now)
        if orphans:
            who = sorted({client_id for each in now.queues if each.queue in orphans for client_id in each.targets})
            reason = f"{', '.join(who)} should own them" if who else "no member's strategy takes them"
            yield Diagnosis(
                trouble=Trouble.QUEUES_WITHOUT_OWNER,
                subject=f"group {name}",
                evidence=f"{_some(sorted(orphans))} have had no owner for {seen.between_s:.0f} s; {reason}",
                advice=f"rlab group show {name} compares owners and targets; the log of that member says why it waits",
                docs="one-rebalance.md",
            )


def _orphans(info: GroupInfo) -> set[MessageQueue]:
    stranded = set(info.stranded)
    return {each.queue for each in info.queues if each.owner is None and (each.targets or each.queue in stranded)}


def _progress(seen: Snapshot) -> Iterator[Diagnosis]:
    for name, (before, now) in seen.groups.items():
        if now.broadcasting or not now.members or now.switched_off or any(member.suspended for member in now.members):
            continue
        was = {each.queue: each for each in before.queues}
        stuck = [each for each in now.queues if each.queue in was and _is_stuck(was[each.queue], each)]
        for owner in dict.fromkeys(each.owner for each in stuck):
            queues = [each.queue for each in stuck if each.owner == owner]
            yield Diagnosis(
                trouble=Trouble.QUEUE_STUCK,
                subject=f"group {name}",
                evidence=f"{owner} owns {_some(queues)} with messages, and committed none in {seen.between_s:.0f} s",
                advice="a message fails again and again in order, or a listener hangs: see that member's log",
                docs="ordering.md",
            )
        grown = now.lag - before.lag
        if grown >= LAG_GROWS_BY and not stuck:
            yield Diagnosis(
                trouble=Trouble.LAG_GROWS,
                subject=f"group {name}",
                evidence=f"its lag grew from {before.lag} to {now.lag} in {seen.between_s:.0f} s",
                advice="it consumes less than is sent: add members, up to the number of queues, or faster listeners",
                docs="operating-groups.md",
            )


def _is_stuck(before: QueueProgress, now: QueueProgress) -> bool:
    same_owner = now.owner is not None and now.owner == before.owner
    return same_owner and bool(before.lag) and bool(now.lag) and before.committed == now.committed


def _settings(seen: Snapshot) -> Iterator[Diagnosis]:
    for name, (_, now) in seen.groups.items():
        if now.switched_off:
            yield Diagnosis(
                trouble=Trouble.GROUP_OFF,
                subject=f"group {name}",
                evidence=f"it is switched off on {', '.join(now.switched_off)}, and its lag is {now.lag}",
                advice=f"rlab group set {name} --consume switches it on",
                docs="operating-groups.md",
            )
        for member in now.members:
            if member.suspended:
                yield Diagnosis(
                    trouble=Trouble.MEMBER_SUSPENDED,
                    subject=f"group {name}",
                    evidence=f"{member.client_id} is suspended, and owns {len(member.queues)} queues",
                    advice="its application called suspend(); it has to call resume(), or to stop",
                    docs="listeners.md",
                )


# --- the last minutes -------------------------------------------------------------------------------------------------


def _events(seen: Snapshot) -> Iterator[Diagnosis]:
    by_subject: dict[tuple[Trouble, str], list[Event]] = defaultdict(list)
    for event in seen.events:
        rule = _OF_EVENTS.get(event.kind)
        if rule is not None and event.group:
            by_subject[rule, event.group].append(event)
    for (trouble, group), events in sorted(by_subject.items()):
        last = events[-1]
        n = sum(max(1, event.n) for event in events)
        evidence, advice, docs = _OF_TROUBLES[trouble](group, last, n)
        yield Diagnosis(
            trouble=trouble,
            subject=f"group {group}",
            evidence=f"{evidence} in the last {seen.minutes:g} minutes",
            advice=advice,
            docs=docs,
        )


_OF_EVENTS: dict[str, Trouble] = {
    EventKind.LISTENER_TIMED_OUT: Trouble.LISTENER_HANGS,
    EventKind.DEAD_LETTER: Trouble.DEAD_LETTERS,
    EventKind.OFFSET_MOVED: Trouble.MESSAGES_MISSED,
    EventKind.CLIENT_ID_CONFLICT: Trouble.CLIENT_ID_TWICE,
}
_OF_TROUBLES: dict[Trouble, Callable[[str, Event, int], tuple[str, str, str]]] = {
    Trouble.LISTENER_HANGS: lambda group, event, n: (
        f"listener {event.detail} of {event.client} did not return for {n} messages",
        "find what it waits for; consume_timeout_s says when a listener counts as hanging",
        "listeners.md",
    ),
    Trouble.DEAD_LETTERS: lambda group, event, n: (
        f"{n} messages became dead letters, the last on {event.topic}",
        f"rlab group dlq list {group} shows them, and sends them again",
        "listeners.md",
    ),
    Trouble.MESSAGES_MISSED: lambda group, event, n: (
        f"{event.client} had to skip messages of {event.topic} that are not there any more",
        "the group is slower than retention: raise --retain-age or --retain-size-max, or add members",
        "storage.md",
    ),
    Trouble.CLIENT_ID_TWICE: lambda group, event, n: (
        f"a second process at {event.detail} used the client id {event.client}",
        "give each process a client_ip or an instance_name of its own",
        "failures.md",
    ),
}


def _restless(seen: Snapshot) -> Iterator[Diagnosis]:
    causes: Counter[str] = Counter()
    counted: set[tuple[str, str]] = set()
    first: dict[str, Event] = {}
    for event in seen.events:
        if event.kind in (EventKind.MEMBER_JOIN, EventKind.MEMBER_LEAVE) and (event.group, event.cause) not in counted:
            counted.add((event.group, event.cause))
            causes[event.group] += 1
            first.setdefault(event.group, event)
    for group, n in sorted(causes.items()):
        minutes = max(1.0, (seen.events[-1].t_ms - first[group].t_ms) / 60_000)
        if n / minutes > RESTLESS_REBALANCES_PER_MINUTE and n > 2 * RESTLESS_REBALANCES_PER_MINUTE:
            yield Diagnosis(
                trouble=Trouble.GROUP_RESTLESS,
                subject=f"group {group}",
                evidence=f"{n} members joined or left in {minutes:.0f} minutes",
                advice="members that crash or miss heartbeats come and go: see their logs, or set rejoin_within_s",
                docs="operating-groups.md",
            )


def _some(queues: list[MessageQueue]) -> str:
    shown = ", ".join(map(str, queues[:_SHOWN]))
    return shown if len(queues) <= _SHOWN else f"{shown} and {len(queues) - _SHOWN} more"


_RULES: tuple[Callable[[Snapshot], Iterator[Diagnosis]], ...] = (
    *(_name_servers, _brokers, _disks, _clocks, _agreement, _views, _owners, _progress, _settings, _events, _restless),
)
