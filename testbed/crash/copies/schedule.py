"""Schedule of a run with copies: which steps in which order, and how long each fault lasts. Pure.

The seed fixes the steps and their order. The replica of a step is drawn from those that are in sync then.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random


class Act(StrEnum):
    """What happens in a step."""

    KILLED = "killed"
    """A replica in sync that is not the master gets SIGKILL, and is started again."""
    STOPPED = "stopped"
    """The same with SIGTERM."""
    PAUSED = "paused"
    """The same with SIGSTOP, and SIGCONT some time later."""
    HANDED_OVER = "handed over"
    """An operator lets the master hand over to another replica in sync."""
    MASTER_STOPPED = "master stopped"
    """The master gets SIGTERM, hands over, and is started again."""
    MASTER_LOST = "master lost"
    """The master gets SIGKILL, and its directory is deleted; another replica is elected, and an empty one joins."""


FAULTS = (Act.KILLED, Act.STOPPED, Act.PAUSED)
HANDOVERS = (Act.HANDED_OVER, Act.MASTER_STOPPED)


class CopiesStep(NamedTuple):
    """One step."""

    act: Act
    seconds: float
    """How long a replica is paused, or is away before it is started again; 0 for a handover by an operator."""


AWAY_MAX_S = 1.0
PAUSE_S = (0.1, 3.5)
"""Range of pauses: a replica leaves the set after 1.2 s of silence, so some are shorter and some are longer."""


def steps_of(rng: Random, faults: int, handovers: int, losses: int) -> list[CopiesStep]:
    """The steps of a run, in random order.

    Every second handover is a stop of the master, and the three faults take turns.
    """
    acts = [FAULTS[n % len(FAULTS)] for n in range(faults)]
    acts += [HANDOVERS[n % len(HANDOVERS)] for n in range(handovers)]
    acts += [Act.MASTER_LOST] * losses
    rng.shuffle(acts)
    return [CopiesStep(act, _seconds(rng, act)) for act in acts]


def _seconds(rng: Random, act: Act) -> float:
    match act:
        case Act.HANDED_OVER:
            return 0.0
        case Act.PAUSED:
            return rng.uniform(*PAUSE_S)
        case _:
            return rng.uniform(0.0, AWAY_MAX_S)
