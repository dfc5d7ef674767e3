"""Sampler: counts the function that runs at each tick of the CPU clock of this process.

The system sends a signal after each `TICK_S` of CPU time, and Python runs the handler before its next instruction. So
time in C (a system call, packing) counts for the Python function that called it. A signal that arrived in C code which
then calls a Python function is handled at the first instruction of that function; it counts for the caller, which is
the event loop for a callback.

At some hundred ticks a second it takes less than a hundredth of the time; the rate with it is that without it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from collections import Counter
from dis import opmap
from pathlib import Path
from types import CodeType, FrameType

from testbed.bench.profile.table import Samples

TICK_S = 0.001
"""Less than a tick of the system, which then sends the signal at each of its ticks: 250 a second on most machines."""
_RESUME = opmap["RESUME"]


class Sampler:
    """Samples of the main thread, while it runs. One in a process."""

    def __init__(self) -> None:
        self._counts: Counter[CodeType] = Counter()
        self._starts: dict[CodeType, frozenset[int]] = {}
        self._user_s = self._system_s = 0.0
        self._waits = 0
        self._from: resource.struct_rusage | None = None

    def start(self) -> None:
        """Begin to sample, or go on."""
        signal.signal(signal.SIGPROF, self._tick)
        self._from = resource.getrusage(resource.RUSAGE_SELF)
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)

    def stop(self) -> None:
        """Stop sampling. Idempotent."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        start, self._from = self._from, None
        if start is not None:
            now = resource.getrusage(resource.RUSAGE_SELF)
            self._user_s += now.ru_utime - start.ru_utime
            self._system_s += now.ru_stime - start.ru_stime
            self._waits += now.ru_nvcsw - start.ru_nvcsw

    def samples(self) -> Samples:
        """The counts until the last stop."""
        functions: Counter[tuple[str, str]] = Counter()
        for code, count in self._counts.items():
            functions[code.co_filename, code.co_qualname] += count
        rows = [(file, name, count) for (file, name), count in functions.items()]
        return Samples(user_s=self._user_s, system_s=self._system_s, waits=self._waits, functions=rows)

    def _tick(self, number: int, frame: FrameType | None) -> None:
        if frame is not None:
            code = frame.f_code
            starts = self._starts.get(code)
            if starts is None:
                starts = self._starts[code] = _resumptions(code)
            if frame.f_lasti in starts and frame.f_back is not None:
                code = frame.f_back.f_code
            self._counts[code] += 1


def _resumptions(code: CodeType) -> frozenset[int]:
    """The instructions at which a function begins, or a coroutine goes on."""
    return frozenset(position for position in range(0, len(code.co_code), 2) if code.co_code[position] == _RESUME)


def sample_on_signals(file: Path) -> None:
    """Let SIGUSR1 start a sampler, and SIGUSR2 stop it and write its samples into a file."""
    sampler = Sampler()

    def stop(number: int, frame: FrameType | None) -> None:
        sampler.stop()
        unfinished = file.with_suffix(".new")
        unfinished.write_text(json.dumps(sampler.samples().to_json()), encoding="utf-8")
        os.replace(unfinished, file)

    signal.signal(signal.SIGUSR1, lambda number, frame: sampler.start())
    signal.signal(signal.SIGUSR2, stop)
