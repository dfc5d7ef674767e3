"""Commands of `rlab` at a simulated cluster, as a person types them: exit code and output, in virtual time.

A command is synchronous and runs its coroutine on a loop of its own. Here it runs in a thread, and hands its coroutine
over to the loop of the simulation. At any time one of the two threads waits for the other: nothing is left to chance.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import cli.trace.events
import process.runtime
from cli.main import app
from metrics.doctor.observe import observe
from model.errors import RlabError
from testbed.simulation.cluster.cluster import SimulatedCluster

Job = Coroutine[Any, Any, Any]


class Terminal:
    """Types commands on the host `operator`, whose clock is right; made by `terminal_of`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._jobs: queue.Queue[Job | Result] = queue.Queue()
        self._ends: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue()

    async def type(self, *arguments: str) -> Result:
        """Run a command to its end."""
        env = {"RLAB_NAMESRV": ",".join(self._cluster.addresses), "RLAB_CONFIG": None, "COLUMNS": "200"}

        def run() -> None:
            self._jobs.put(CliRunner().invoke(app, list(arguments), env=env))

        thread = threading.Thread(target=run)
        thread.start()
        while not isinstance(job := self._jobs.get(), Result):
            with self._cluster.simulation.on_host("operator"):
                try:
                    self._ends.put((await job, None))
                except (RlabError, OSError) as error:  # the command decides what becomes of it
                    self._ends.put((None, error))
        thread.join()
        return job

    def _run(self, job: Job) -> Any:
        self._jobs.put(job)
        value, error = self._ends.get()
        if error is not None:
            raise error
        return value


@contextmanager
def terminal_of(cluster: SimulatedCluster) -> Iterator[Terminal]:
    """A terminal at a cluster, as long as the block runs."""
    terminal = Terminal(cluster)

    @contextmanager
    def runner(loop_factory: Callable[[], object]) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(run=terminal._run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process.runtime, "asyncio", SimpleNamespace(Runner=runner))
        patch.setattr(process.runtime, "SIGNALS", ())
        patch.setattr(process.runtime, "_until_signal", lambda main: main())
        patch.setattr(cli.trace.events, "wall_clock_ms", cluster.simulation.clock_ms)
        assert observe.__kwdefaults__ is not None
        patch.setitem(observe.__kwdefaults__, "clock_ms", cluster.simulation.clock_ms)
        yield terminal
