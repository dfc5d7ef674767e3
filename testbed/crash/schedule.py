"""Schedule of kills: the moment of a broker's life, and the delay into it, from a random generator. Pure.

The seed fixes the moments. The machine's work before them differs from run to run, so a seed repeats a schedule but not
a history.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random


class Moment(StrEnum):
    """Moments in the life of a broker process, by the work that a kill interrupts."""

    STARTING = "starting"
    """Before it listens: files are being recovered or created."""
    STARTED = "started"
    """It has just begun to listen: all clients reconnect, leases and offsets are being written."""
    LOADED = "loaded"
    """In the middle of a burst of sends and commits."""
    ROLLING = "rolling"
    """A segment was just begun, and the one before it is being synced and indexed."""
    LAST = "last"
    """After everything was consumed: messages read back afterwards have been through a recovery."""


class Kill(NamedTuple):
    """One kill."""

    moment: Moment
    delay: float  # into the moment: seconds, but for `Moment.STARTING` a fraction of a typical start


LOADED_MEAN_S = 0.3
"""Mean time under load, after the first answer."""
STARTED_MAX_S = 0.06
ROLLING_MAX_S = 0.004
STARTING_SHARE = (0.5, 1.05)
"""Range in a typical start: most of it is the import of modules, and recovery is in the second half."""
_WEIGHTS = {Moment.LOADED: 9, Moment.ROLLING: 4, Moment.STARTING: 4, Moment.STARTED: 3}


def next_kill(rng: Random) -> Kill:
    """Choose the next kill of one broker.

    `rng` belongs to this broker alone, so that the schedules of brokers do not depend on each other.
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
