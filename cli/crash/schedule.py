"""When a broker is killed next: a moment of its life, and how far into it. Pure: randomness comes in.

The seed fixes the moments. What the machine does up to them differs from run to run, so a seed repeats a schedule and
not a history.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random


class Moment(StrEnum):
    """Moments in the life of a broker process that differ in what a kill tears apart."""

    STARTING = "starting"
    """Before it listens: files are being recovered, or were just begun."""
    STARTED = "started"
    """It listens; clients come back all at once, leases and offsets are being written."""
    LOADED = "loaded"
    """In the middle of a burst of sends and commits."""
    ROLLING = "rolling"
    """A segment was just begun, and the one before it is being synced and indexed."""
    LAST = "last"
    """After everything was consumed: what is read back afterwards has been through a recovery."""


class Kill(NamedTuple):
    """One kill.

    Attributes:
        moment: when.
        delay: how far into it; seconds, but for `Moment.STARTING` in terms of how long a start takes.
    """

    moment: Moment
    delay: float


LOADED_MEAN_S = 0.3
"""Mean time under load, after the first answer. Starts take longer than that, and clients come back only after them."""
STARTED_MAX_S = 0.06
ROLLING_MAX_S = 0.004
STARTING_SHARE = (0.5, 1.05)
"""Of a typical start. Most of one is Python importing modules; recovery comes in the second half."""
_WEIGHTS = {Moment.LOADED: 9, Moment.ROLLING: 4, Moment.STARTING: 4, Moment.STARTED: 3}


def next_kill(rng: Random) -> Kill:
    """Choose the next kill of one broker.

    Args:
        rng: of this broker alone, so that the brokers' schedules do not depend on each other.
    """
    moment = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    match moment:
        case Moment.STARTING:
            return Kill(moment, rng.uniform(*STARTING_SHARE))
        case Moment.STARTED:
            return Kill(moment, rng.uniform(0.0, STARTED_MAX_S))
        case Moment.ROLLING:
            return Kill(moment, rng.uniform(0.0, ROLLING_MAX_S))
        case _:
            return Kill(moment, rng.expovariate(1 / LOADED_MEAN_S))
