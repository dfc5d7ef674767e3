"""Gives hosts of a programme wrong clocks: up to a day off, some drift, some are set. Pure; chance comes from the seed.

At least half of the brokers and half of the clients keep right clocks, because a trace shows only how far clocks are
apart. All replicas of a broker are one node of a trace: they have right clocks, or some of them wrong ones. The rest of
the programme stays as it is: the same faults, with right clocks and with wrong ones. Only the steps `clock_skew` are
left out. Such a step sets a clock and soon sets it back; if no event of another node falls between, nothing in the
trace can show the error.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from model.limits import MAX_SIM_S
from testbed.simulation.engine.programme import ClockPart, Programme
from testbed.simulation.engine.verbs import BROKER, MEMBER, PRODUCER, REPLICA

MIN_ERROR_S, MAX_ERROR_S = 0.01, MAX_SIM_S
MAX_DRIFT_MS = 1.0
"""Milliseconds that the worst clock gains in a second: twenty times as much as a bad quartz."""


def with_wrong_clocks(programme: Programme) -> Programme:
    """The programme with wrong clocks on some hosts, at least on one."""
    rng = random.Random(f"clocks {programme.name} {programme.seed}")
    hosts = programme.hosts()
    brokers = [host for host, kind in hosts.items() if kind == BROKER]
    replicas = [host for host, kind in hosts.items() if kind == REPLICA]
    sets = sorted({host.rpartition("-")[0] for host in replicas})
    clients = [host for host, kind in hosts.items() if kind in (MEMBER, PRODUCER)]
    wrong = rng.sample(brokers, rng.randint(0, len(brokers) // 2))
    for name in rng.sample(sets, rng.randint(0, len(sets) // 2)) if sets else ():
        of_set = [host for host in replicas if host.rpartition("-")[0] == name]
        wrong += rng.sample(of_set, rng.randint(1, len(of_set)))
    wrong += rng.sample(clients, rng.randint(0 if wrong else 1, max(1, len(clients) // 2)))
    clocks = tuple(_draw_clock(rng, host, programme.lasts_s) for host in wrong)
    return replace(programme, clock=clocks, step=tuple(step for step in programme.step if step.do != "clock_skew"))


def _draw_clock(rng: random.Random, host: str, lasts_s: float) -> ClockPart:
    drifts, is_set = rng.random() < 0.5, rng.random() < 0.5
    return ClockPart(
        who=host,
        ahead_s=_clock_error_s(rng),
        drift_ms=round(rng.uniform(-MAX_DRIFT_MS, MAX_DRIFT_MS), 3) if drifts else 0.0,
        set_at_s=round(lasts_s * rng.random(), 3) if is_set else 0.0,
        set_by_s=_clock_error_s(rng) if is_set else 0.0,
    )


def _clock_error_s(rng: random.Random) -> float:
    """An error from 10 ms to a day, ahead or behind; each order of magnitude is equally likely."""
    sign = rng.choice((-1, 1))
    return sign * round(math.exp(rng.uniform(math.log(MIN_ERROR_S), math.log(MAX_ERROR_S))), 3)
