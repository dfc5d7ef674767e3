"""Schedule of kills: a random generator draws the moment of a broker's life, and the delay into this moment. Pure.

The seed fixes the moments. The work that the machine does before them differs between runs, so a seed repeats the
schedule, and not the history.
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
    """The broker has just begun to listen: all clients reconnect, and it writes leases and offsets."""
    LOADED = "loaded"
    """In the middle of a burst of sends and commits."""
    ROLLING = "rolling"
    """The broker has just begun a segment, and syncs and indexes the segment before it."""
    LAST = "last"
    """Not drawn here: the run kills each broker once more after all messages were consumed. So messages that are read
    back later have gone through a recovery."""


class Kill(NamedTuple):
    """One kill."""

    moment: Moment
    delay: float  # from the beginning of the moment, in seconds; for `Moment.STARTING` a fraction of a typical start


LOADED_MEAN_S = 0.3
"""Mean time under load before the kill, from the first answer on."""
STARTED_MAX_S = 0.06
"""Longest delay after the process has begun to listen."""
ROLLING_MAX_S = 0.004
"""Longest delay after a segment has begun."""
STARTING_RANGE = (0.5, 1.05)
"""Range of the delay, in typical starts: a start begins with the import of modules; recovery is in its second half."""
_WEIGHTS = {Moment.LOADED: 9, Moment.ROLLING: 4, Moment.STARTING: 4, Moment.STARTED: 3}


def next_kill(rng: Random) -> Kill:
    """Choose the next kill of one broker.

    `rng` is used for this broker only, so that the schedules of brokers do not depend on each other.
    """
    moment = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    match moment:
        case Moment.STARTING:
            return Kill(moment, rng.uniform(*STARTING_RANGE))
        case Moment.STARTED:
            return Kill(moment, rng.uniform(0.0, STARTED_MAX_S))
        case Moment.ROLLING:
            return Kill(moment, rng.uniform(0.0, ROLLING_MAX_S))
        case Moment.LOADED | Moment.LAST:
            return Kill(moment, rng.expovariate(1 / LOADED_MEAN_S))
