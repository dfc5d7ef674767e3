"""A programme: a cluster, its clients and their load, timed steps, and what must hold after the faults. Pure.

    seed = 7
    [[group]]                        three members, billing-1 to billing-3
    name = "billing"
    [[step]]                         after two seconds one of them is killed
    at_s = 2.0
    do = "crash"
    who = "billing-1"

Times are virtual seconds since the clients were started; this clock stops while the cluster is healed. Every programme
ends with a repair, whatever its last step is. Hosts are named by their kind: `billing-1` is the first member
of the group `billing`, `producer-1` the first producer, `namesrv-1` the first name server, `broker-a` the first broker,
and `broker-a-1` its first replica where brokers have copies.

Invariant: a programme that was made is valid; its steps are in the order of their times.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace

from model.errors import ConfigError
from model.limits import (
    MAX_SIM_BROKERS,
    MAX_SIM_CLIENTS,
    MAX_SIM_MESSAGES,
    MAX_SIM_QUEUES,
    MAX_SIM_S,
    MAX_SIM_STEPS,
)
from model.quirks import CLIENT_QUIRKS, Quirk
from model.replica_limits import MAX_REPLICAS
from model.replica_set import Acks, Elect
from remoting.request_code import RequestCode
from testbed.simulation.engine.verbs import BROKER, MEMBER, NAME_SERVER, PRODUCER, REPLICA, VERBS, Verb

MODES, ORDERS, FLUSHES = ("pull", "pop"), ("none", "queue", "key"), ("async", "sync")
_COLUMNS = ("to", "one_way", "for_s", "by_s", "n", "period_s", "topic", "code", "one_in")
"""Columns of a step that only some verbs read."""


def _in_range(where: str, name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{where}: {name} must be {low:g} to {high:g}, got {value:g}")


def _one_of(where: str, subject: str, value: str, known_names: Iterable[str]) -> None:
    names = list(known_names)
    if value not in names:
        near = difflib.get_close_matches(value, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise ConfigError(f"{where}: no {subject} {value!r}; {hint}")


def _differ(subject: str, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two {subject} have the name {twice[0]!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPart:
    """The servers.

    Attributes:
        sync_s: virtual seconds that a sync of a disk takes.
        check_s: time until the first check of an open transaction, and between two checks.
        quirks: defects of RocketMQ to reproduce; defects of clients go to the clients.
        access: whether servers have access control, and clients a key.
        copies: how many replicas each broker has, on the hosts `broker-a-1` and so on; 1 for a broker without copies.
        acks, min_in_sync, elect: options of the replica sets.
        rates_apart: by which share the clocks of leases of two replicas may differ in rate.
    """

    name_servers: int = 1
    brokers: int = 2
    flush: str = "async"
    sync_s: float = 0.0
    route_poll_s: float = 5.0  # how often clients ask for routes; 30 s is their default
    check_s: float = 2.0
    quirks: tuple[str, ...] = ()
    access: bool = False
    copies: int = 1
    acks: str = "all"
    min_in_sync: int = 1
    elect: str = "operator"
    rates_apart: float = 0.0

    def __post_init__(self) -> None:
        _in_range("cluster", "copies", self.copies, 1, MAX_REPLICAS)
        _in_range("cluster", "min_in_sync", self.min_in_sync, 1, self.copies)
        _one_of("cluster", "acks", self.acks, list(Acks))
        _one_of("cluster", "elect", self.elect, list(Elect))
        _in_range("cluster", "rates_apart", self.rates_apart, 0, 0.09)
        _in_range("cluster", "name_servers", self.name_servers, 1, MAX_SIM_BROKERS)
        _in_range("cluster", "brokers", self.brokers, 1, MAX_SIM_BROKERS)
        _in_range("cluster", "route_poll_s", self.route_poll_s, 0.5, 600)
        _in_range("cluster", "sync_s", self.sync_s, 0, 10)
        _in_range("cluster", "check_s", self.check_s, 0.1, 3_600)
        _one_of("cluster", "flush", self.flush, FLUSHES)
        for quirk in self.quirks:
            _one_of("cluster", "quirk", quirk, list(Quirk))

    @property
    def broker_quirks(self) -> frozenset[Quirk]:
        """The quirks of brokers."""
        return frozenset(Quirk(quirk) for quirk in self.quirks) - CLIENT_QUIRKS

    @property
    def client_quirks(self) -> frozenset[Quirk]:
        """The quirks of clients."""
        return frozenset(Quirk(quirk) for quirk in self.quirks) & CLIENT_QUIRKS


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPart:
    """A topic; `queues` on each broker."""

    name: str
    queues: int = 4

    def __post_init__(self) -> None:
        _in_range(f"topic {self.name!r}", "queues", self.queues, 1, MAX_SIM_QUEUES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPart:
    """A consumer group and its members, named `name-1` and so on.

    Attributes:
        topics: that every member subscribes to; all of the programme by default.
        waiting: how many of the members do not run at first; a step may start them.
        fails: share of the calls in which a listener fails.
        poisoned: with n, every n-th message fails always, and becomes a dead letter; 0 for none.
    """

    name: str
    topics: tuple[str, ...] = ()
    members: int = 3
    waiting: int = 0
    mode: str = "pull"
    order: str = "none"
    strategy: str = "AVG"
    session_s: float = 10.0
    grace_s: float = 3.0
    work_s: float = 0.02  # the longest time that a listener works on a message
    fails: float = 0.0
    poisoned: int = 0
    attempts: int = 3  # how often a message is tried
    invisible_s: float = 3.0  # for the mode pop
    receivers: int = 0  # in the mode pop, how many of the members call `receive` and have no listener
    stock: int = 0  # in the mode pop, how many are clients of RocketMQ 5, which speak gRPC; the first of them pushes

    def __post_init__(self) -> None:
        where = f"group {self.name!r}"
        _in_range(where, "members", self.members, 1, MAX_SIM_CLIENTS)
        _in_range(where, "waiting", self.waiting, 0, self.members)
        _one_of(where, "mode", self.mode, MODES)
        _one_of(where, "order", self.order, ORDERS)
        _in_range(where, "session_s", self.session_s, 0.4, 3_600)
        _in_range(where, "grace_s", self.grace_s, 0, 3_600)
        _in_range(where, "work_s", self.work_s, 0, 3_600)
        _in_range(where, "fails", self.fails, 0, 0.9)
        _in_range(where, "poisoned", self.poisoned, 0, MAX_SIM_MESSAGES)
        _in_range(where, "attempts", self.attempts, 1, 16)
        _in_range(where, "invisible_s", self.invisible_s, 0.5, 3_600)
        poppers = self.members if self.mode == "pop" else 0
        _in_range(where, "receivers", self.receivers, 0, poppers)
        _in_range(where, "stock", self.stock, 0, poppers - self.receivers)
        if self.mode == "pop" and self.order != "none":
            raise ConfigError(f"{where}: a group in mode pop has no order; set order to none")

    @property
    def slots(self) -> tuple[str, ...]:
        """The hosts of its members."""
        return tuple(f"{self.name}-{n + 1}" for n in range(self.members))

    @property
    def stock_slots(self) -> tuple[str, ...]:
        """The hosts of those that are clients of RocketMQ 5; those with `receive` are behind them."""
        end = self.members - self.receivers
        return self.slots[end - self.stock : end]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPart:
    """The producers and their messages.

    Attributes:
        messages: of each producer, spread over all topics.
        pause_s: the longest pause of a producer between two messages.
        keys: of each producer; its messages have them in turns, and a key has one queue. 0 for none.
        delayed: with n, every n-th message is delivered a second later; 0 for none.
        branch_s: messages are sent in transactions, whose local branches take up to twice as long; 0 for plain sends.
        fails: share of the local branches that fail.
        undecided: share of the transactions that a check has to end, and of the checks that return UNKNOWN.
    """

    producers: int = 1
    messages: int = 50
    pause_s: float = 0.2
    keys: int = 0
    delayed: int = 0
    branch_s: float = 0.0
    fails: float = 0.0
    undecided: float = 0.0

    def __post_init__(self) -> None:
        _in_range("load", "producers", self.producers, 0, MAX_SIM_CLIENTS)
        _in_range("load", "messages", self.messages, 0, MAX_SIM_MESSAGES)
        _in_range("load", "pause_s", self.pause_s, 0, 3_600)
        _in_range("load", "keys", self.keys, 0, MAX_SIM_MESSAGES)
        _in_range("load", "delayed", self.delayed, 0, MAX_SIM_MESSAGES)
        _in_range("load", "branch_s", self.branch_s, 0, 3_600)
        _in_range("load", "fails", self.fails, 0, 1)
        _in_range("load", "undecided", self.undecided, 0, 0.9)
        if self.branch_s and (self.keys or self.delayed):
            raise ConfigError(
                "load: a transaction is neither delayed nor in the order of a key; leave out branch_s, or the others"
            )
        if (self.fails or self.undecided) and not self.branch_s:
            raise ConfigError("load: fails and undecided are of transactions; set branch_s too")

    @property
    def slots(self) -> tuple[str, ...]:
        """The hosts of the producers."""
        return tuple(f"producer-{n + 1}" for n in range(self.producers))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisePart:
    """The bounds that a run has to keep, in seconds."""

    converge_s: float = 60.0  # from a repair until every group has converged
    settle_s: float = 120.0  # then, until every message is processed or a dead letter
    orphan_s: float = 60.0  # how long a queue may have no owner, also while there are faults
    wait_s: float = 0.0  # how long a message may wait for the first listener of a group; 0 for any time
    recover_s: float = 0.0  # from a repair until all replicas of all sets are in sync; 0 for any time
    stale_s: float = 60.0  # how long a member may go on with an old member list
    flap_moves: int = 12  # moves of a queue within a minute, between members that stayed, that are too many
    needless_passes: int = 40  # passes of a group within a minute that change nothing, beyond what its changes explain

    def __post_init__(self) -> None:
        _in_range("promise", "converge_s", self.converge_s, 0.1, MAX_SIM_S)
        _in_range("promise", "settle_s", self.settle_s, 0.1, MAX_SIM_S)
        _in_range("promise", "orphan_s", self.orphan_s, 0.1, MAX_SIM_S)
        _in_range("promise", "wait_s", self.wait_s, 0, MAX_SIM_S)
        _in_range("promise", "recover_s", self.recover_s, 0, MAX_SIM_S)
        _in_range("promise", "stale_s", self.stale_s, 0.1, MAX_SIM_S)
        _in_range("promise", "flap_moves", self.flap_moves, 2, MAX_SIM_STEPS)
        _in_range("promise", "needless_passes", self.needless_passes, 1, MAX_SIM_STEPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step; `verbs.py` says which columns a verb reads."""

    at_s: float
    do: str
    who: str = ""
    to: str = ""
    one_way: bool = False
    for_s: float = 0.0
    by_s: float = 0.0
    n: int = 0
    period_s: float = 0.0
    topic: str = ""
    code: str = ""
    one_in: int = 1

    def __str__(self) -> str:
        set_columns = [f"{name}={getattr(self, name)}" for name in _COLUMNS if getattr(self, name) != _DEFAULTS[name]]
        return " ".join([f"{self.at_s:.3f} s: {self.do}", *([self.who] if self.who else []), *set_columns])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPart:
    """The wrong clock of a host, for the whole programme: no repair sets it right.

    Attributes:
        ahead_s: by how much it is ahead at the begin; negative if it is behind.
        drift_ms: by how many milliseconds it gains in a second.
        set_at_s, set_by_s: when it is set, and by how much.
    """

    who: str
    ahead_s: float = 0.0
    drift_ms: float = 0.0
    set_at_s: float = 0.0
    set_by_s: float = 0.0

    def __post_init__(self) -> None:
        where = f"clock of {self.who!r}"
        _in_range(where, "ahead_s", self.ahead_s, -MAX_SIM_S, MAX_SIM_S)
        _in_range(where, "drift_ms", self.drift_ms, -100, 100)
        _in_range(where, "set_at_s", self.set_at_s, 0, MAX_SIM_S)
        _in_range(where, "set_by_s", self.set_by_s, -MAX_SIM_S, MAX_SIM_S)

    def ahead_ms(self, now_s: float) -> int:
        """By how much it is ahead at a virtual time."""
        was_set = self.set_by_s if now_s >= self.set_at_s else 0.0
        return round((self.ahead_s + was_set) * 1000 + self.drift_ms * now_s)


_DEFAULTS = {field.name: field.default for field in fields(Step)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Programme:
    """A programme. Raises ConfigError if a value is out of its range, or a step names an unknown host."""

    name: str = ""
    about: str = ""
    seed: int = 0  # decides everything that is left to chance, as the latency of packets
    lasts_s: float = 0.0  # how long it runs at least before the last repair; its last step may be later
    rest_s: float = 0.0  # after each repair, before everything that could leak is counted; 0 for no count
    cluster: ClusterPart = ClusterPart()
    promise: PromisePart = PromisePart()
    load: LoadPart = LoadPart()
    topic: tuple[TopicPart, ...] = (TopicPart(name="orders"),)
    group: tuple[GroupPart, ...] = (GroupPart(name="billing"),)
    step: tuple[Step, ...] = ()
    clock: tuple[ClockPart, ...] = ()

    def __post_init__(self) -> None:
        _in_range("programme", "lasts_s", self.lasts_s, 0, MAX_SIM_S)
        _in_range("programme", "rest_s", self.rest_s, 0, MAX_SIM_S)
        _in_range("programme", "number of steps", len(self.step), 0, MAX_SIM_STEPS)
        topics = [topic.name for topic in self.topic]
        if not topics:
            raise ConfigError("the programme has no topic: add one as [[topic]]")
        hosts = self.hosts()
        _differ("topics", topics)
        _differ("groups", [group.name for group in self.group])
        _differ("clocks", [clock.who for clock in self.clock])
        for clock in self.clock:
            _one_of("clock", "host", clock.who, hosts)
        for group in self.group:
            if group.stock and self.cluster.access:
                raise ConfigError(f"group {group.name!r}: clients of RocketMQ 5 have no key; remove stock or access")
            for topic in group.topics:
                _one_of(f"group {group.name!r}", "topic", topic, topics)
        for number, step in enumerate(self.step, 1):
            _check_step(f"step {number}", step, hosts, topics)
        object.__setattr__(self, "step", tuple(sorted(self.step, key=lambda step: step.at_s)))

    def hosts(self) -> dict[str, str]:
        """Every host with its kind, as in `verbs.py`."""
        kinds = {f"namesrv-{n + 1}": NAME_SERVER for n in range(self.cluster.name_servers)}
        copies = range(1, self.cluster.copies + 1) if self.cluster.copies > 1 else ()
        for broker in (f"broker-{chr(97 + n)}" for n in range(self.cluster.brokers)):
            kinds |= {f"{broker}-{copy}": REPLICA for copy in copies} if copies else {broker: BROKER}
        kinds |= dict.fromkeys((slot for group in self.group for slot in group.slots), MEMBER)
        return kinds | dict.fromkeys(self.load.slots, PRODUCER)

    def topics_of(self, group: GroupPart) -> tuple[str, ...]:
        """The topics that the members of a group subscribe to."""
        return group.topics or tuple(topic.name for topic in self.topic)

    def with_quirks(self, quirks: Iterable[str]) -> Programme:
        """A copy of this programme on a cluster with these quirks."""
        return replace(self, cluster=replace(self.cluster, quirks=tuple(sorted(quirks))))


def _check_step(where: str, step: Step, hosts: dict[str, str], topics: list[str]) -> None:
    _one_of(where, "verb", step.do, VERBS)
    verb = VERBS[step.do]
    where = f"{where} ({step.do})"
    _in_range(where, "at_s", step.at_s, 0, MAX_SIM_S)
    if verb.who:
        _one_of(where, "host", step.who, hosts)
        if hosts[step.who] not in verb.who:
            raise ConfigError(f"{where}: {step.who} is {hosts[step.who]}; this verb is for {' or '.join(verb.who)}")
    elif step.who:
        raise ConfigError(f"{where}: this verb is done to no host; remove who = {step.who!r}")
    for name in _unread(verb):
        if getattr(step, name) != _DEFAULTS[name]:
            raise ConfigError(f"{where}: this verb does not read {name!r}; remove it")
    for name in verb.needs:
        if getattr(step, name) == _DEFAULTS[name]:
            raise ConfigError(f"{where}: {name!r} is missing")
    if step.to:
        _one_of(where, "host", step.to, hosts)
    if step.topic:
        _one_of(where, "topic", step.topic, topics)
    if step.code:
        _one_of(where, "request code", step.code, RequestCode.__members__)
    _in_range(where, "for_s", step.for_s, 0, MAX_SIM_S)
    _in_range(where, "by_s", step.by_s, -MAX_SIM_S if step.do == "clock_skew" else 0, MAX_SIM_S)
    _in_range(where, "period_s", step.period_s, 0, MAX_SIM_S)
    _in_range(where, "n", step.n, 0, MAX_SIM_QUEUES)
    _in_range(where, "one_in", step.one_in, 1, MAX_SIM_MESSAGES)


def _unread(verb: Verb) -> Iterator[str]:
    return (name for name in _COLUMNS if name not in verb.needs and name not in verb.may)
