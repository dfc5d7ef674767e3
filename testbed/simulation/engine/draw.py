"""Draws programmes from seeds: equal seeds and kinds give equal programmes. Pure; the generator comes from the seed.

    plain   two groups that pull two topics: every fault but power cuts
    order   a group in key order and one in queue order, with listeners that fail, and poisoned messages
    pop     a group that pops, some of whose listeners take longer than the invisible time
    grpc    the same with clients of RocketMQ 5 in the group; it needs an extra, so seeds without a kind do not draw it
    power   plain groups on brokers that sync before they answer, and lose power
    transactions  a group behind producers whose local branches fail, take long and are left to checks, and whose ends
            and checks are lost or late; in half of the seeds the brokers sync, and lose power
    replicas  brokers with two or three copies, which elect their masters or leave that to an operator: replicas are
            killed, also between two changes of a disk, stopped, hung, paused with their machines, cut off, out of disk,
            handed over to and elected, old copies of directories are put back, and the register is away or slow, or its
            answers are lost; in a quarter of the seeds nothing happens but handovers, which must cost nothing
    replicas-live  the same faults; then one replica in sync of each set is repaired, with the register and all clients,
            while the others stay lost: the set has to serve again soon, and to be whole soon after all is repaired
    calm    members come and go and change their topics, and nothing breaks but, in half of the seeds, one path between
            a member and a broker: with tight bounds for queues without an owner and messages that wait
    torture an hour of rounds of plain faults, each with a repair and a rest, after which nothing may have grown

A process that a step ends is started by a later one, so that leaving out either gives a programme as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from model.limits import PULL_SUSPEND_S, REBALANCE_INTERVAL_S
from testbed.simulation.engine.programme import (
    ClusterPart,
    GroupPart,
    LoadPart,
    Programme,
    PromisePart,
    Step,
    TopicPart,
)
from testbed.simulation.engine.sets.draw import LIVE_PROMISE, SET_DRAWS, hand_over, live_parts, replica_parts
from testbed.simulation.engine.verbs import BROKERS

KINDS = ("plain", "order", "pop", "power", "calm", "transactions")
"""The kinds that seeds without a kind draw in turns; but every seventh seed draws one of `SET_KINDS`."""
SET_KINDS = ("replicas", "replicas-live")
"""The kinds about replica sets: safety under all faults, and liveness once a part is repaired."""
ALL_KINDS = (*KINDS, *SET_KINDS, "grpc", "torture")
ROUNDS, ROUND_S, CALM_S = 12, 300.0, 100.0
"""Rounds of torture, and the last part of each, which has no faults."""
LASTS_S = 30.0
"""How long the faults of a drawn programme happen."""
_PROMISE = PromisePart(converge_s=40.0, settle_s=90.0, stale_s=120.0)
LOST_CODES = (
    "HEART_BEAT",
    "LOCK_BATCH_MQ",
    "PULL_MESSAGE",
    "SEND_MESSAGE",
    "UNLOCK_BATCH_MQ",
    "UPDATE_CONSUMER_OFFSET",
)
"""Requests to brokers of which every second one is lost for a while."""
_Draw = Callable[["_Drawing"], list[Step]]


def draw(seed: int, kind: str = "") -> Programme:
    """Draw the programme of a seed; without a kind the seed decides that too."""
    return _Drawing(seed, kind or _kind_of(seed)).programme()


def _kind_of(seed: int) -> str:
    # Not one list of seven kinds: then each further kind would change the programmes of nearly all seeds.
    return SET_KINDS[seed // 7 % 2] if seed % 7 == 6 else KINDS[seed % len(KINDS)]


class _Drawing:
    """One programme that is being drawn."""

    def __init__(self, seed: int, kind: str) -> None:
        self.chance = random.Random(f"programme {kind} {seed}")
        self.seed, self.kind = seed, kind
        self.cluster, self.topics, self.groups, self.load = _PARTS[kind](self.chance)
        hosts = Programme(cluster=self.cluster, load=self.load, topic=self.topics, group=self.groups).hosts()
        self.members = [slot for group in self.groups for slot in group.slots]
        self.producers = list(self.load.slots)
        self.brokers = [host for host, kind in hosts.items() if kind in BROKERS]
        self.name_servers = [host for host in hosts if host.startswith("namesrv-")]
        self.hosts = list(hosts)
        self.queues = {topic.name: topic.queues for topic in self.topics}
        self.at_s = 0.0

    def programme(self) -> Programme:
        weights = _WEIGHTS | _MORE.get(self.kind, {})
        draws, shares = list(weights), list(weights.values())
        steps: list[Step] = []
        if self.kind == "torture":
            for number in range(ROUNDS):
                self.at_s = number * ROUND_S
                self._fill(steps, draws, shares, self.at_s + ROUND_S - CALM_S, (0.0, 0.2, 3.0, 8.0))
                steps.append(Step(at_s=(number + 1) * ROUND_S - CALM_S + 20.0, do="heal"))
        elif self.kind == "calm":
            return self._calm()
        elif self.kind == "replicas" and self.chance.random() < 0.25:
            self.at_s = 3.0
            self.groups = tuple(replace(group, fails=0.0) for group in self.groups)
            self._fill(steps, [hand_over], [1], LASTS_S, (2.0, 8.0))
        else:
            self._fill(steps, draws, shares, LASTS_S, (0.0, 0.05, 0.5, 3.0, 5.0))
        if self.kind == "replicas-live":
            self.at_s = max(step.at_s for step in steps)
            steps.append(self.step("heal_core", after_s=1.0))
        return Programme(
            name=f"{self.kind}-{self.seed}",
            seed=self.seed,
            lasts_s=ROUNDS * ROUND_S if self.kind == "torture" else LASTS_S + 5.0,
            rest_s=PULL_SUSPEND_S + REBALANCE_INTERVAL_S if self.kind == "torture" else 0.0,
            cluster=self.cluster,
            promise=LIVE_PROMISE if self.kind == "replicas-live" else _PROMISE,
            load=self.load,
            topic=self.topics,
            group=self.groups,
            step=tuple(steps),
        )

    def _calm(self) -> Programme:
        """Changes of the group, or one path that is cut; their bounds differ, because members poll to go round it."""
        is_split = self.chance.random() < 0.5
        steps: list[Step] = []
        if is_split:
            member, to = self.chance.choice(self.members), self.chance.choice(self.brokers)
            steps = [Step(at_s=3.0, do="partition", who=member, to=to)]
        else:
            self.at_s = 3.0
            self._fill(steps, list(_CHANGES), list(_CHANGES.values()), LASTS_S, (4.0, 16.0))
        session_s = 4.0 if is_split else 60.0
        promise = PromisePart(orphan_s=30.0, stale_s=600.0) if is_split else PromisePart(orphan_s=8.0, wait_s=8.0)
        return Programme(
            name=f"{self.kind}-{self.seed}",
            seed=self.seed,
            lasts_s=(5 if is_split else 2) * LASTS_S,
            cluster=self.cluster,
            promise=promise,
            load=self.load,
            topic=self.topics,
            group=tuple(replace(group, session_s=session_s) for group in self.groups),
            step=tuple(steps),
        )

    def _fill(
        self, steps: list[Step], draws: list[_Draw], shares: list[int], until_s: float, pauses_s: tuple[float, ...]
    ) -> None:
        while self.at_s < until_s:
            steps += self.chance.choices(draws, shares)[0](self)
            self.at_s += self.chance.choice(pauses_s) * self.chance.random()

    def step(self, do: str, target: str = "", *, after_s: float = 0.0, **columns: Any) -> Step:
        return Step(at_s=round(self.at_s + after_s, 3), do=do, who=target, **columns)

    def seconds(self, max_s: float) -> float:
        """A time of at most `max_s` seconds, more often a short one."""
        return round(0.01 + max_s * self.chance.random() ** 2, 3)


def _ended(do: str, whom: str) -> _Draw:
    """A process ends, and is started again later."""

    def drawn(d: _Drawing) -> list[Step]:
        target = d.chance.choice(getattr(d, whom))
        return [d.step(do, target), d.step("start", target, after_s=d.seconds(12.0))]

    return drawn


def _for_a_while(do: str, whom: str, most_s: float, **columns: float) -> _Draw:
    """A fault of one host; a column has its longest time."""

    def drawn(d: _Drawing) -> list[Step]:
        drawn_columns = {name: d.seconds(max_s) for name, max_s in columns.items()}
        return [d.step(do, d.chance.choice(getattr(d, whom)), for_s=d.seconds(most_s), **drawn_columns)]

    return drawn


def _cut(d: _Drawing) -> list[Step]:
    return [d.step("cut", d.chance.choice(d.hosts))]


def _register_late(d: _Drawing) -> list[Step]:
    """A member loses its connections, and its new ones are late: others have got its queues in between."""
    member, to = d.chance.choice(d.members), d.chance.choice(d.brokers)
    return [
        d.step("delay_heartbeats", member, by_s=1.0 + d.seconds(4.0), for_s=0.5),
        d.step("cut", member, after_s=0.01),
        d.step("delay", member, to=to, by_s=d.seconds(0.5), for_s=8.0, after_s=0.02),
    ]


def _partition(d: _Drawing) -> list[Step]:
    host, to = d.chance.sample(d.hosts, 2)
    return [d.step("partition", host, to=to, one_way=d.chance.random() < 0.3, for_s=d.seconds(12.0))]


def _delay(d: _Drawing) -> list[Step]:
    host, to = d.chance.sample(d.hosts, 2)
    return [d.step("delay", host, to=to, by_s=d.seconds(1.0), for_s=d.seconds(12.0))]


def _lose_notifications(d: _Drawing) -> list[Step]:
    do, late = d.chance.choice((("drop_code", {}), ("delay_code", {"by_s": d.seconds(4.0)})))
    member = d.chance.choice(d.members)
    return [d.step(do, member, code="NOTIFY_CONSUMER_IDS_CHANGED", for_s=d.seconds(12.0), **late)]


def _lose_requests(d: _Drawing) -> list[Step]:
    code, broker = d.chance.choice(LOST_CODES), d.chance.choice(d.brokers)
    return [d.step("drop_code", broker, code=code, one_in=2, for_s=d.seconds(6.0))]


def _lose_ends(d: _Drawing) -> list[Step]:
    do, columns = d.chance.choice((("drop_code", {"one_in": 2}), ("delay_code", {"by_s": d.seconds(6.0)})))
    to, code = d.chance.choice(
        (
            (d.brokers, "END_TRANSACTION"),
            (d.brokers, "SEND_HALF_MESSAGE"),
            (d.producers, "CHECK_TRANSACTION_STATE"),
        )
    )
    return [d.step(do, d.chance.choice(to), code=code, for_s=d.seconds(12.0), **columns)]


def _cut_power(d: _Drawing) -> list[Step]:
    return (_power_cut if d.cluster.flush == "sync" else _crash_broker)(d)


def _flap(d: _Drawing) -> list[Step]:
    return [d.step("flap", d.chance.choice(d.members), n=d.chance.randint(2, 4), period_s=d.seconds(3.0))]


def _change_topics(d: _Drawing) -> list[Step]:
    if len(d.topics) < 2:
        return _cut(d)
    member, topic = d.chance.choice(d.members), d.chance.choice(d.topics).name
    away_s = d.seconds(15.0) + (12.0 if d.kind == "calm" else 0.0)  # longer than a message may wait there
    return [d.step("unsubscribe", member, topic=topic), d.step("subscribe", member, topic=topic, after_s=away_s)]


def _scale(d: _Drawing) -> list[Step]:
    # Only upwards: the messages of a queue that is taken away are never read, as in RocketMQ.
    topic = d.chance.choice(list(d.queues))
    d.queues[topic] += d.chance.randint(1, 3)
    return [d.step("scale", topic=topic, n=d.queues[topic])]


_crash_member, _stop_member = _ended("crash", "members"), _ended("stop", "members")
_crash_broker, _power_cut = _ended("crash", "brokers"), _for_a_while("power_cut", "brokers", 3.0)
_WEIGHTS: dict[_Draw, int] = {
    _crash_member: 4,
    _stop_member: 3,
    _for_a_while("restart", "members", 4.0): 2,
    _for_a_while("pause", "members", 12.0): 2,
    _cut: 4,
    _partition: 3,
    _delay: 1,
    _lose_notifications: 2,
    _lose_requests: 2,
    _for_a_while("delay_heartbeats", "members", 10.0, by_s=6.0): 1,
    _for_a_while("clock_skew", "members", 12.0, by_s=60.0): 1,
    _for_a_while("stale_route", "members", 15.0): 1,
    _for_a_while("half_open", "members", 10.0): 1,
    _for_a_while("slow", "members", 8.0, by_s=4.0): 1,
    _flap: 1,
    _change_topics: 2,
    _scale: 1,
    _for_a_while("full_disk", "brokers", 6.0): 1,
    _crash_broker: 2,
    _for_a_while("restart", "brokers", 4.0): 1,
    _ended("crash", "name_servers"): 1,
    _ended("crash", "producers"): 1,
}
"""The faults that may be drawn, with their weights."""
_CHANGES: dict[_Draw, int] = {
    _stop_member: 2,
    _change_topics: 3,
    _scale: 1,
    _for_a_while("duplicate_id", "members", 8.0): 1,
}
"""The changes of a calm programme. A second process with the id of one that hangs for longer than its session is
accepted, and then the two cannot be distinguished: that is why this is not among faults."""
_MORE_OF_SETS: dict[_Draw, int] = {
    _crash_broker: 8,
    _ended("stop", "brokers"): 4,
    _for_a_while("restart", "brokers", 4.0): 4,
    _for_a_while("pause", "brokers", 8.0): 3,
    _for_a_while("full_disk", "brokers", 8.0): 3,
    **SET_DRAWS,
}
_MORE: dict[str, dict[_Draw, int]] = {
    "power": {_power_cut: 12, _crash_broker: 0},
    "order": {_scale: 0, _register_late: 6},
    **{kind: {_scale: 0} for kind in ("torture", "grpc")},  # a client of RocketMQ 5 begins at the end of a new queue
    "replicas": _MORE_OF_SETS,
    "replicas-live": _MORE_OF_SETS,
    "transactions": {
        _ended("crash", "producers"): 6,
        _ended("stop", "producers"): 3,
        _for_a_while("pause", "producers", 12.0): 2,
        _for_a_while("half_open", "producers", 10.0): 1,
        _lose_ends: 6,
        _for_a_while("full_disk", "brokers", 8.0): 3,
        _cut_power: 3,
    },
}
"""The weights that differ in a kind."""

_Parts = tuple[ClusterPart, tuple[TopicPart, ...], tuple[GroupPart, ...], LoadPart]


def _plain(chance: random.Random) -> _Parts:
    groups = (
        GroupPart(name="billing", members=chance.randint(2, 4), session_s=4.0),
        GroupPart(name="audit", members=chance.randint(1, 2), session_s=4.0, fails=0.05, poisoned=23),
    )
    load = LoadPart(producers=2, messages=60, pause_s=1.0, delayed=chance.choice((0, 7)))
    topics = (TopicPart(name="orders", queues=chance.randint(1, 4)), TopicPart(name="payments", queues=1))
    return ClusterPart(name_servers=chance.randint(1, 2)), topics, groups, load


def _order(chance: random.Random) -> _Parts:
    common: dict[str, Any] = {"session_s": 4.0, "grace_s": 10.0, "fails": 0.1, "poisoned": 17, "work_s": 0.3}
    groups = (
        GroupPart(name="keys", order="key", members=chance.randint(2, 4), **common),
        GroupPart(name="queues", order="queue", members=chance.randint(2, 3), **common),
    )
    load = LoadPart(producers=2, messages=50, pause_s=1.2, keys=chance.choice((3, 10)))
    return ClusterPart(), (TopicPart(name="orders", queues=2),), groups, load


def _pop(chance: random.Random, most_stock: int = 0) -> _Parts:
    stock = chance.randint(1, most_stock) if most_stock else 0
    groups = (
        GroupPart(
            name="poppers",
            mode="pop",
            members=chance.randint(2, 5) + stock,
            receivers=chance.randint(0, 2),
            stock=stock,
            session_s=4.0,
            grace_s=2.0,
            fails=0.1,
            poisoned=29,
            attempts=6,
            work_s=chance.choice((0.1, 1.0, 5.0)),
        ),
    )
    return ClusterPart(), (TopicPart(name="orders", queues=2),), groups, LoadPart(producers=2, messages=60, pause_s=1.0)


def _power(chance: random.Random) -> _Parts:
    _, topics, groups, _ = _plain(chance)
    return ClusterPart(flush="sync", sync_s=0.004), topics, groups, LoadPart(producers=3, messages=120, pause_s=0.4)


def _transactions(chance: random.Random) -> _Parts:
    loses_power = chance.random() < 0.5
    load = LoadPart(
        producers=3, messages=60, pause_s=1.0, branch_s=chance.choice((0.05, 1.0, 6.0)), fails=0.2, undecided=0.15
    )
    cluster = ClusterPart(flush="sync", sync_s=0.004) if loses_power else ClusterPart()
    groups = (GroupPart(name="shipping", members=chance.randint(1, 3), session_s=4.0),)
    return cluster, (TopicPart(name="orders", queues=2),), groups, load


def _calm_parts(chance: random.Random) -> _Parts:
    topics = (TopicPart(name="orders", queues=chance.randint(2, 4)), TopicPart(name="payments", queues=2))
    return ClusterPart(), topics, (GroupPart(name="billing", members=4),), LoadPart(messages=100, pause_s=0.8)


def _torture(chance: random.Random) -> _Parts:
    groups = (
        GroupPart(name="works", members=10, session_s=10.0),
        GroupPart(name="fails", members=10, session_s=10.0, fails=0.02, poisoned=200),
    )
    load = LoadPart(producers=4, messages=20_000, pause_s=0.4)
    return ClusterPart(name_servers=2), (TopicPart(name="orders", queues=8),), groups, load


_PARTS: dict[str, Callable[[random.Random], _Parts]] = {
    "plain": _plain,
    "order": _order,
    "pop": _pop,
    "grpc": lambda chance: _pop(chance, most_stock=4),
    "power": _power,
    "calm": _calm_parts,
    "transactions": _transactions,
    "torture": _torture,
    "replicas": replica_parts,
    "replicas-live": live_parts,
}
