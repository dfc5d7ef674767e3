"""Draws the steps about replica sets, for programmes of the kind `replicas`; the generator comes from the seed."""

from __future__ import annotations

from random import Random
from typing import Any, Protocol

from testbed.simulation.engine.programme import ClusterPart, GroupPart, LoadPart, Step, TopicPart

Parts = tuple[ClusterPart, tuple[TopicPart, ...], tuple[GroupPart, ...], LoadPart]


class Drawing(Protocol):
    """A programme under way; see `draw.py`."""

    chance: Random
    brokers: list[str]

    def step(self, do: str, who: str = "", *, after_s: float = 0.0, **columns: Any) -> Step:
        """Make a step now, or later."""

    def seconds(self, most: float) -> float:
        """A time of at most `most` seconds."""


def hand_over(d: Drawing) -> list[Step]:
    """An operator lets the master hand over to a replica."""
    return [d.step("hand_over", d.chance.choice(d.brokers))]


def elect(d: Drawing) -> list[Step]:
    """A replica is lost, and an operator elects another one; the lost one returns later."""
    who, other = d.chance.sample(d.brokers, 2)
    return [
        d.step("crash", who),
        d.step("elect", other, after_s=d.seconds(2.0)),
        d.step("start", who, after_s=2.0 + d.seconds(10.0)),
    ]


def cut_stream(d: Drawing) -> list[Step]:
    """The connections between two replicas break."""
    who, to = d.chance.sample(d.brokers, 2)
    return [d.step("cut", who, to=to)]


def slow_stream(d: Drawing) -> list[Step]:
    """The way between two replicas is slow or closed for a while, in one direction or both."""
    who, to = d.chance.sample(d.brokers, 2)
    one_way, for_s = d.chance.random() < 0.5, d.seconds(8.0)
    if d.chance.random() < 0.5:
        return [d.step("delay", who, to=to, by_s=d.seconds(3.0), one_way=one_way, for_s=for_s)]
    return [d.step("partition", who, to=to, one_way=one_way, for_s=for_s)]


def lose_answers(d: Drawing) -> list[Step]:
    """The answers to the next writes of a replica to the register are lost."""
    return [d.step("lose_register_answers", d.chance.choice(d.brokers), n=d.chance.randint(1, 3))]


def replica_parts(chance: Random) -> Parts:
    """Brokers with copies, a group that pulls and one that pops, and their load."""
    cluster = ClusterPart(brokers=chance.choice((1, 1, 2)), copies=chance.choice((2, 2, 3)))
    groups = (
        GroupPart(name="billing", members=chance.randint(1, 3), session_s=4.0),
        GroupPart(name="poppers", mode="pop", members=2, session_s=4.0, grace_s=2.0, attempts=6, fails=0.05),
    )
    load = LoadPart(producers=3, messages=80, pause_s=0.6, delayed=chance.choice((0, 7)))
    return cluster, (TopicPart(name="orders", queues=2),), groups, load
