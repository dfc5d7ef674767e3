"""Gives hosts of a programme wrong clocks: up to a day off, some drift, some are set. Pure; chance comes from the seed.

At least half of the brokers and half of the clients keep right clocks, because a trace shows only how far clocks are
apart. All replicas of a broker are one node of a trace: they have right clocks, or some of them wrong ones. The rest of
the programme stays as it is: the same faults, with right clocks and with wrong ones. Only its steps `clock_skew` are
left out: if a clock is set and soon set back, between two events that other nodes answer, no event shows it.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from model.limits import MAX_SIM_S
from testbed.simulation.engine.programme import ClockPart, Programme
from testbed.simulation.engine.verbs import BROKER, MEMBER, PRODUCER, REPLICA

LEAST_S, MOST_S = 0.01, MAX_SIM_S
MOST_DRIFT_MS = 1.0
"""Gained in a second by the worst clock: twenty times as much as a bad quartz."""


def with_wrong_clocks(programme: Programme) -> Programme:
    """The programme with wrong clocks on some hosts, at least on one."""
    chance = random.Random(f"clocks {programme.name} {programme.seed}")
    hosts = programme.hosts()
    brokers = [host for host, kind in hosts.items() if kind == BROKER]
    replicas = [host for host, kind in hosts.items() if kind == REPLICA]
    sets = sorted({host.rpartition("-")[0] for host in replicas})
    clients = [host for host, kind in hosts.items() if kind in (MEMBER, PRODUCER)]
    wrong = chance.sample(brokers, chance.randint(0, len(brokers) // 2))
    for name in chance.sample(sets, chance.randint(0, len(sets) // 2)) if sets else ():
        of_set = [host for host in replicas if host.rpartition("-")[0] == name]
        wrong += chance.sample(of_set, chance.randint(1, len(of_set)))
    wrong += chance.sample(clients, chance.randint(0 if wrong else 1, max(1, len(clients) // 2)))
    clocks = tuple(_drawn(chance, host, programme.lasts_s) for host in wrong)
    return replace(programme, clock=clocks, step=tuple(step for step in programme.step if step.do != "clock_skew"))


def _drawn(chance: random.Random, host: str, lasts_s: float) -> ClockPart:
    drifts, is_set = chance.random() < 0.5, chance.random() < 0.5
    return ClockPart(
        who=host,
        ahead_s=_seconds(chance),
        drift_ms=round(chance.uniform(-MOST_DRIFT_MS, MOST_DRIFT_MS), 3) if drifts else 0.0,
        set_at_s=round(lasts_s * chance.random(), 3) if is_set else 0.0,
        set_by_s=_seconds(chance) if is_set else 0.0,
    )


def _seconds(chance: random.Random) -> float:
    """As often a few milliseconds as a few hours, forward or back."""
    sign = chance.choice((-1, 1))
    return sign * round(math.exp(chance.uniform(math.log(LEAST_S), math.log(MOST_S))), 3)
