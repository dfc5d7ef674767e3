"""Schedule of a run with copies: which steps in which order, and how long each fault lasts. Pure.

The seed fixes the steps and their order. The replica of a step is drawn from those that are in sync then.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random


class Act(StrEnum):
    """The kinds of steps."""

    KILLED = "killed"
    """A replica in sync that is not the master gets SIGKILL, and is started again."""
    STOPPED = "stopped"
    """A replica in sync that is not the master gets SIGTERM, and is started again."""
    PAUSED = "paused"
    """A replica in sync that is not the master gets SIGSTOP, and SIGCONT some time later."""
    HANDED_OVER = "handed over"
    """An operator lets the master hand over to another replica in sync."""
    MASTER_KILLED = "master killed"
    """The master gets SIGKILL, and is started again: some time after another replica was elected, or before."""
    MASTER_PAUSED = "master paused"
    """The master gets SIGSTOP, and SIGCONT some time later: it is replaced, or its lease has not ended yet."""
    MASTER_STOPPED = "master stopped"
    """The master gets SIGTERM, hands over, and is started again."""
    MASTER_LOST = "master lost"
    """The master gets SIGKILL, and its directory is deleted; another replica is elected, and an empty one joins."""


FAULTS = (Act.KILLED, Act.STOPPED, Act.PAUSED)
FAILOVERS = (Act.MASTER_KILLED, Act.MASTER_PAUSED)
HANDOVERS = (Act.HANDED_OVER, Act.MASTER_STOPPED)


class CopiesStep(NamedTuple):
    """One step."""

    act: Act
    seconds: float
    """How long a replica is paused, or is away before it is started again; 0 for a handover by an operator."""


AWAY_MAX_S = 1.0
PAUSE_S = (0.1, 3.5)
"""Range of pauses: a replica leaves the set after 1.2 s of silence, so some are shorter and some are longer."""
MASTER_AWAY_S = (0.0, 6.0)
"""Range of the times without a master: another replica is elected after some 2.7 s, so some are shorter."""


class Steps(NamedTuple):
    """How many steps of each group a run has."""

    faults: int = 80  # of replicas in sync that are not the master
    failovers: int = 80  # kills and pauses of the master
    handovers: int = 40
    losses: int = 3  # of the master with its disk


DEFAULT_STEPS = Steps()


def draw_steps(rng: Random, steps: Steps) -> list[CopiesStep]:
    """The steps of a run, in random order; the acts of a group take turns."""
    groups = ((FAULTS, steps.faults), (FAILOVERS, steps.failovers), (HANDOVERS, steps.handovers))
    acts = [group[n % len(group)] for group, number in groups for n in range(number)]
    acts += [Act.MASTER_LOST] * steps.losses
    rng.shuffle(acts)
    return [CopiesStep(act, _seconds(rng, act)) for act in acts]


def _seconds(rng: Random, act: Act) -> float:
    match act:
        case Act.HANDED_OVER:
            return 0.0
        case Act.PAUSED:
            return rng.uniform(*PAUSE_S)
        case Act.MASTER_KILLED | Act.MASTER_PAUSED:
            return rng.uniform(*MASTER_AWAY_S)
        case _:
            return rng.uniform(0.0, AWAY_MAX_S)
