from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import zlib
from pathlib import Path

import pytest

from testbed.bench.profile.sampler import Sampler, sample_on_signals
from testbed.bench.profile.table import Samples

BUSY_S = 0.3
DATA = os.urandom(20_000)


def in_python(until: float) -> None:
    n = 0
    while time.process_time() < until:
        for _ in range(1_000):
            n += 1


def in_c(until: float) -> None:
    while time.process_time() < until:
        zlib.compress(DATA, 9)


def share(samples: Samples, name: str) -> float:
    return sum(n for _, function, n in samples.functions if function == name) / sum(n for *_, n in samples.functions)


@pytest.fixture(autouse=True)
def _handlers_as_before() -> object:
    before = {number: signal.getsignal(number) for number in (signal.SIGPROF, signal.SIGUSR1, signal.SIGUSR2)}
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_samples_show_who_used_the_time_in_python_or_in_c() -> None:
    sampler = Sampler()
    sampler.start()
    in_python(time.process_time() + BUSY_S)
    in_c(time.process_time() + BUSY_S)
    sampler.stop()
    samples = sampler.samples()
    assert 2 * BUSY_S <= samples.user_s + samples.system_s < 3 * BUSY_S
    assert 0.35 < share(samples, "in_python") < 0.65
    assert 0.35 < share(samples, "in_c") < 0.65
    in_python(time.process_time() + 0.05)
    assert sampler.samples() == samples  # a stopped sampler counts nothing


def test_time_in_the_loop_itself_does_not_count_for_the_callbacks_that_it_calls() -> None:
    loop = asyncio.new_event_loop()

    def callback() -> None:
        loop.call_soon(callback)

    loop.call_soon(callback)
    loop.call_later(BUSY_S, loop.stop)
    sampler = Sampler()
    sampler.start()
    loop.run_forever()
    sampler.stop()
    loop.close()
    files = {file.rpartition("/")[2]: 0 for file, *_ in sampler.samples().functions}
    for file, _, n in sampler.samples().functions:
        files[file.rpartition("/")[2]] += n
    assert files.get("base_events.py", 0) + files.get("selectors.py", 0) > files.get("test_sampler.py", 0)


def test_a_process_is_sampled_between_two_signals_and_writes_all_that_it_has_counted(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    sample_on_signals(file)
    sampled: list[Samples] = []
    for part in (1, 2):
        os.kill(os.getpid(), signal.SIGUSR1)
        in_python(time.process_time() + BUSY_S)
        os.kill(os.getpid(), signal.SIGUSR2)
        samples = Samples.from_json(json.loads(file.read_text()))
        assert part * BUSY_S <= samples.user_s + samples.system_s < (part + 1) * BUSY_S
        sampled.append(samples)
    assert share(sampled[-1], "in_python") > 0.8
