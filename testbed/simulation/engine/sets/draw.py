"""Draws the steps about replica sets, for programmes of the kind `replicas`; the generator comes from the seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Protocol

from model.replica_limits import REPLICA_REJOIN_MAX_S
from testbed.simulation.engine.programme import ClusterPart, GroupPart, LoadPart, PromisePart, Step, TopicPart

Parts = tuple[ClusterPart, tuple[TopicPart, ...], tuple[GroupPart, ...], LoadPart]


class Drawing(Protocol):
    """A programme that is being drawn; see `draw.py`."""

    chance: Random
    brokers: list[str]

    def step(self, do: str, target: str = "", *, after_s: float = 0.0, **columns: Any) -> Step:
        """Make a step now, or later."""

    def seconds(self, max_s: float) -> float:
        """A time of at most `max_s` seconds."""


def hand_over(d: Drawing) -> list[Step]:
    """An operator lets the master hand over to a replica."""
    return [d.step("hand_over", d.chance.choice(d.brokers))]


def elect(d: Drawing) -> list[Step]:
    """A replica is lost or hangs, and an operator elects another one; the first one returns later.

    Or the operator does not reach a master that serves; the register or the elected replica may fail, too.
    """
    host, other = d.chance.sample(d.brokers, 2)
    if d.chance.random() < 0.3:
        beside = [d.step("elect_beside", other)]
        if d.chance.random() < 0.7:
            beside.append(d.step("cut_register", host, for_s=1.0 + d.seconds(5.0)))
        if d.chance.random() < 0.5:
            beside += [d.step("crash", other), d.step("start", other, after_s=d.seconds(1.0))]
        return beside
    elected = d.step("elect", other, after_s=d.seconds(2.0))
    if d.chance.random() < 0.4:
        return [d.step("pause", host, for_s=4.0 + d.seconds(8.0)), elected]
    steps = [d.step("crash", host), elected, d.step("start", host, after_s=d.seconds(12.0))]
    if d.chance.random() < 0.4:  # it starts while another one is elected
        steps.append(d.step("delay_register", host, by_s=0.2 + d.seconds(1.0), for_s=12.0))
    return steps


def die_at_change(d: Drawing) -> list[Step]:
    """A replica is killed in the middle of its work, mostly while it starts: at a change of a file."""
    host, n = d.chance.choice(d.brokers), 1 + int(120 * d.chance.random() ** 2)
    dies, starts = d.step("crash_at_change", host, n=n), d.step("start", host, after_s=6.0 + d.seconds(6.0))
    if d.chance.random() < 0.3:
        return [dies, starts]
    return [d.step("crash", host), dies, d.step("start", host, after_s=d.seconds(3.0)), starts]


def put_back(d: Drawing) -> list[Step]:
    """An operator puts an old copy of a replica's directory back."""
    return [d.step("put_back", d.chance.choice(d.brokers), for_s=d.seconds(4.0))]


def lose_register(d: Drawing) -> list[Step]:
    """The path of a replica to the register is closed in both directions or in one, or slow, for a while."""
    host, for_s = d.chance.choice(d.brokers), d.seconds(8.0)
    how = d.chance.randrange(3)
    if how == 0:
        return [d.step("delay_register", host, by_s=d.seconds(1.5), for_s=for_s)]
    return [d.step("cut_register", host, one_way=how == 1, for_s=for_s)]


def cut_stream(d: Drawing) -> list[Step]:
    """The connections between two replicas break."""
    host, to = d.chance.sample(d.brokers, 2)
    return [d.step("cut", host, to=to)]


def slow_stream(d: Drawing) -> list[Step]:
    """The path between two replicas is slow or closed for a while, in one direction or both."""
    host, to = d.chance.sample(d.brokers, 2)
    one_way, for_s = d.chance.random() < 0.5, d.seconds(8.0)
    if d.chance.random() < 0.5:
        return [d.step("delay", host, to=to, by_s=d.seconds(3.0), one_way=one_way, for_s=for_s)]
    return [d.step("partition", host, to=to, one_way=one_way, for_s=for_s)]


def lose_answers(d: Drawing) -> list[Step]:
    """The answers to the next writes of a replica to the register are lost."""
    return [d.step("lose_register_answers", d.chance.choice(d.brokers), n=d.chance.randint(1, 3))]


def stop_master(d: Drawing) -> list[Step]:
    """The process of the master is stopped for a while, and goes on."""
    return [d.step("freeze_master", d.chance.choice(d.brokers), for_s=d.seconds(9.0))]


def pause_machine(d: Drawing) -> list[Step]:
    """The machine of a replica is paused for a while."""
    return [d.step("pause_vm", d.chance.choice(d.brokers), for_s=d.seconds(9.0))]


SET_DRAWS: dict[Callable[[Any], list[Step]], int] = {
    hand_over: 10,
    elect: 6,
    die_at_change: 5,
    put_back: 1,
    cut_stream: 4,
    slow_stream: 4,
    lose_register: 5,
    lose_answers: 4,
    stop_master: 3,
    pause_machine: 2,
}
"""The faults of replica sets, with their weights."""


LIVE_PROMISE = PromisePart(converge_s=40.0, settle_s=90.0, stale_s=120.0, recover_s=REPLICA_REJOIN_MAX_S + 15.0)
"""A replica that had to leave the in-sync set several times has to follow for that long before it is in sync again."""


def live_parts(chance: Random) -> Parts:
    """As `replica_parts`, with sets that elect their masters: no operator comes to help."""
    cluster, topics, groups, load = replica_parts(chance)
    elect = chance.choice(("auto", "fast")) if cluster.elect == "operator" else cluster.elect
    return replace(cluster, elect=elect), topics, groups, load


def replica_parts(chance: Random) -> Parts:
    """Brokers with copies, a group that pulls and one that pops, and their load."""
    cluster = ClusterPart(
        brokers=chance.choice((1, 1, 2)),
        copies=chance.choice((2, 2, 3)),
        elect=chance.choice(("auto", "auto", "fast", "operator")),
        rates_apart=chance.choice((0.0, 0.05)),
    )
    groups = (
        GroupPart(name="billing", members=chance.randint(1, 3), session_s=4.0),
        GroupPart(name="poppers", mode="pop", members=2, session_s=4.0, grace_s=2.0, attempts=6, fails=0.05),
    )
    load = LoadPart(producers=3, messages=80, pause_s=0.6, delayed=chance.choice((0, 7)))
    return cluster, (TopicPart(name="orders", queues=2),), groups, load
