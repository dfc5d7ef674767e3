"""Sweeps: runs of many programmes, each on a separate simulated cluster, in one process or in several.

A `Case` describes a programme in a few bytes, so that it can be sent to another process or machine. Its outcome is the
same everywhere.
"""

from __future__ import annotations

import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context

from testbed.simulation.engine.clocks import with_wrong_clocks
from testbed.simulation.engine.draw import draw
from testbed.simulation.engine.programme import Programme
from testbed.simulation.engine.run import Outcome, run_programme
from testbed.simulation.engine.text import parse_programme

_MAX_CHUNK = 4
"""Cases that a process gets at once: one or two seconds of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One programme of a sweep: drawn from its seed, or from a text with that seed."""

    seed: int
    kind: str = ""  # of a drawn programme, see `draw.py`
    quirks: tuple[str, ...] = ()  # added to the quirks of the text
    text: str = ""  # TOML
    sound: bool = False  # run without the quirks that the text sets
    wrong_clocks: bool = False  # added to the clock faults of the text

    def programme(self) -> Programme:
        """Make the programme. Raises ConfigError if the text is not one."""
        drawn = replace(parse_programme(self.text), seed=self.seed) if self.text else draw(self.seed, self.kind)
        of_text = () if self.sound else drawn.cluster.quirks
        drawn = drawn.with_quirks({*of_text, *self.quirks})
        return with_wrong_clocks(drawn) if self.wrong_clocks else drawn


def run_case(case: Case) -> Outcome:
    """Run a case in this process."""
    return run_programme(case.programme())


def sweep(cases: Sequence[Case], processes: int = 1, run: Callable[[Case], Outcome] = run_case) -> Iterator[Outcome]:
    """Run cases, and yield their outcomes in the order of the cases; other processes get `run` as a pickle.

    Raises:
        KeyboardInterrupt: a signal came; the processes have been terminated.
    """
    if processes == 1:
        yield from map(run, cases)
        return
    others = active_children()
    n = max(1, min(_MAX_CHUNK, len(cases) // processes))
    # Spawned and not forked: the caller may have threads and an event loop.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_prepare) as pool:
        try:
            chunks = [cases[first : first + n] for first in range(0, len(cases), n)]
            futures = deque(pool.submit(_run_stoppable, run, chunk) for chunk in chunks)
            while futures:
                yield from futures.popleft().result()
        except (KeyboardInterrupt, GeneratorExit):
            # The pool would wait for the cases that its processes have begun. If one of them ends, it terminates the
            # others. A second signal would end these in the middle of their clean-up. And no future is cancelled, as
            # `map` does it: the pool fails at such a one.
            for child in [child for child in active_children() if child not in others][:1]:
                child.terminate()
            raise


def _prepare() -> None:
    """Prepare a process of a sweep."""
    logging.disable(logging.CRITICAL)  # clients and brokers log errors all the time, because of the faults
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the whole sweep, which terminates its processes


def _run_stoppable(run: Callable[[Case], Outcome], cases: Sequence[Case]) -> list[Outcome]:
    """Run cases in a process of a sweep; SIGTERM ends the process, and no file of them is left."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return [run(case) for case in cases]
    except KeyboardInterrupt:
        os._exit(1)  # as a result, it would only be the end of these cases
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
