"""The problems that the doctor knows, by name, with the remedy of each. Pure.

The rule that finds a problem fills in the words in braces of its advice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Problem(StrEnum):
    """The known problems, by their names in docs/doctor.md."""

    NAME_SERVER_AWAY = "name-server-away"
    NAME_SERVERS_DIFFER = "name-servers-differ"
    BROKER_AWAY = "broker-away"
    WRONG_BROKER = "wrong-broker"
    MASTER_AWAY = "master-away"
    ONE_COPY = "one-copy"
    COPIES_MISSING = "copies-missing"
    COPIES_TOGETHER = "copies-together"
    REGISTER_AWAY = "register-away"
    REGISTER_TOGETHER = "register-together"
    LEASE_SHORT = "lease-short"
    CLOCKS_APART = "clocks-apart"
    DISK_FULL = "disk-full"
    DISK_FILLS = "disk-fills"
    DISK_HANGS = "disk-hangs"
    LOG_HELD = "log-held"
    MESSAGES_DAMAGED = "messages-damaged"
    MASTER_DAMAGED = "master-damaged"
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
    """A problem of the cluster.

    Attributes:
        subject: the server, group or queue that has the problem.
        evidence: the observation behind it.
        advice: what to do.
        docs: the page that explains it.
    """

    problem: Problem
    subject: str
    evidence: str
    remedy: str
    docs: str


def make_diagnosis(problem: Problem, subject: str, evidence: str, **details: str) -> Diagnosis:
    """Make a diagnosis with the remedy of its problem; `details` are the words in braces of the advice."""
    docs, remedy = _REMEDIES[problem]
    return Diagnosis(
        problem=problem, subject=subject, evidence=evidence, remedy=remedy.format(**details), docs=f"{docs}.md"
    )


_REMEDIES: dict[Problem, tuple[str, str]] = {
    Problem.NAME_SERVER_AWAY: ("failures", "start it, or take it out of --namesrv of every broker and client"),
    Problem.NAME_SERVERS_DIFFER: (
        "failures",
        "give the broker all name servers in --namesrv; after a cut it registers within 30 s by itself",
    ),
    Problem.BROKER_AWAY: (
        "failures",
        "start it; if it moved, see --advertise; if it will not return: rlab broker forget NAME",
    ),
    Problem.WRONG_BROKER: ("failures", "give each broker a port of its own, and restart both"),
    Problem.MASTER_AWAY: (
        "replication",
        "start it; if it will not return: rlab broker elect {broker} --replica {replica}",
    ),
    Problem.ONE_COPY: (
        "replication",
        "start the others, or rlab broker --replica-of {broker} on another machine: a loss of this disk loses messages",
    ),
    Problem.COPIES_MISSING: (
        "replication",
        "start the others, or rlab broker --replica-of {broker} on another machine; for a machine that is gone: "
        "rlab broker forget {broker} --replica ID",
    ),
    Problem.COPIES_TOGETHER: (
        "replication",
        "run one on another machine: rlab broker --replica-of {broker}; a loss of this machine loses all copies",
    ),
    Problem.REGISTER_TOGETHER: (
        "replication",
        "hand over to another replica (rlab broker handover {broker}), or put the register on another machine: a loss "
        "of this machine leaves the set without a master",
    ),
    Problem.LEASE_SHORT: (
        "replication",
        "find what stops these processes (memory, processor, disk), or start the master with a longer --replica-lease",
    ),
    Problem.REGISTER_AWAY: (
        "replication",
        "start the name server with --elections: until then no replica can take over, or come into sync again",
    ),
    Problem.CLOCKS_APART: (
        "failures",
        "run NTP on both; times in reports, delayed messages and retention follow the broker's clock",
    ),
    Problem.DISK_FULL: (
        "storage",
        "free space, or lower --retain-age or --retain-size-max; it accepts sends again by itself",
    ),
    Problem.DISK_FILLS: ("storage", "lower --retain-age or set --retain-size-max before sends are refused"),
    Problem.DISK_HANGS: (
        "failures",
        "check the disk and the log of the system; with copies and --flush sync the broker hands over by itself",
    ),
    Problem.LOG_HELD: ("storage", "follow that advice, or the log grows beyond its limits until the disk is full"),
    Problem.MESSAGES_DAMAGED: ("storage", "run rlab broker verify on its data directory, and replace the disk"),
    Problem.MASTER_DAMAGED: (
        "replication",
        "rlab broker handover {broker} --to {replica}: that one has a copy, and the damaged files are fetched from it; "
        "then replace the disk. If the same messages are damaged there too, they are lost",
    ),
    Problem.EVENTS_LOST: ("events", "reports of that time are incomplete; --trace FILE keeps all events of a broker"),
    Problem.QUIRKS_ON: ("quirks", "start it without --quirk unless you study them"),
    Problem.MEMBERS_DISAGREE: ("failures", "give all members the same setting: {consequence}"),
    Problem.MEMBER_UNKNOWN: (
        "failures",
        "the member cannot reach that broker: see its log, and the network between the two",
    ),
    Problem.QUEUES_WITHOUT_OWNER: (
        "one-rebalance",
        "rlab group show {group} compares owners and targets; that member's log has the reason why it waits",
    ),
    Problem.LAG_GROWS: (
        "operating-groups",
        "it consumes more slowly than producers send: add members, up to the number of queues, or faster listeners",
    ),
    Problem.QUEUE_STUCK: (
        "ordering",
        "a message fails again and again in order, or a listener hangs: see that member's log",
    ),
    Problem.LISTENER_HANGS: (
        "listeners",
        "find out why it waits; a listener counts as hanging after consume_timeout_s",
    ),
    Problem.GROUP_OFF: ("operating-groups", "rlab group set {group} --consume switches it on"),
    Problem.MEMBER_SUSPENDED: ("listeners", "its application called suspend(); it has to call resume(), or to stop"),
    Problem.DEAD_LETTERS: ("listeners", "rlab group dlq list {group} shows them, and sends them again"),
    Problem.MESSAGES_MISSED: (
        "storage",
        "the group is slower than retention: raise --retain-age or --retain-size-max, or add members",
    ),
    Problem.CLIENT_ID_TWICE: ("failures", "give each process a client_ip or an instance_name of its own"),
    Problem.GROUP_RESTLESS: (
        "operating-groups",
        "members that crash or miss heartbeats leave and join again: see their logs, or set rejoin_within_s",
    ),
}
