"""Detects leaks: tables, tasks, descriptors or memory that grow as long as a run lasts. Pure.

    table_sizes(broker)        number of entries of every table that can be reached from an object of this project
    object_counts()            number of objects of this project, whether they can be reached or not
    LeakDetector               samples over time; `grown` lists the counts that are higher in the second half

Tables are found by walking the objects and not by a list of names, so a new table is watched without being listed.

Example: with warm_up=1, samples of `tasks` 40 | 61 60 | 60 62 are level; 40 | 61 64 | 80 99 grow: 99 > 64 * 1.2 + 16. A
slow leak stays below that for long; it shows when the whole second half is above the whole first half:
0 | 12 24 36 48 | 60 72 84 96.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from model.own_name import package_of

OURS = frozenset({"model", "remoting", "namesrv", "broker", "client", "replica"})
"""Packages whose objects are walked; objects of the standard library and of tests are not."""


class Margin(NamedTuple):
    """Upper bound of the second half: the maximum of the first half times `ratio`, plus `slack`."""

    ratio: float  # infinite for a count that grows with the stored messages
    slack: float  # in the unit of the count
    trend: bool = True  # whether `TREND_MARGIN` is checked too; not for a count that goes up in steps and seldom falls


TABLE_MARGIN = Margin(1.2, 16)
"""For counts at rest: clients and queues are the same every time, and only caches vary."""
TREND_MARGIN = Margin(1.01, 4)
"""Bound of the minimum of the second half over the maximum of the first. It is checked from `TREND_SAMPLES` samples in
each half on, where random variation trips it in 1 of 70 runs; with fewer, chance trips it often."""
TREND_SAMPLES = 4


class LeakDetector:
    """Samples of one run, in order of time.

    The first `warm_up` samples do not count, because tables, caches and pools fill. Names without an entry in `margins`
    have `TABLE_MARGIN`.
    """

    def __init__(self, *, warm_up: int = 1, margins: Mapping[str, Margin] | None = None) -> None:
        self.samples: list[dict[str, float]] = []  # a name that is absent counts as 0
        self._warm_up = warm_up
        self._margins = margins or {}

    def add_sample(self, sample: Mapping[str, float]) -> None:
        """Add a sample."""
        # Interned, or the samples themselves would grow.
        self.samples.append({sys.intern(name): value for name, value in sample.items()})

    def grown(self) -> list[str]:
        """A line for each count that is higher in the second half than in the first, sorted by name.

        Raises:
            ValueError: there are fewer than two samples after the warm-up.
        """
        samples = self.samples[self._warm_up :]
        if len(samples) < 2:
            raise ValueError(f"{len(self.samples)} samples with {self._warm_up} to warm up cannot show a growth")
        half = len(samples) // 2
        grown = []
        for name in sorted({name for sample in samples for name in sample}):
            values = [sample.get(name, 0) for sample in samples]
            margin = self._margins.get(name, TABLE_MARGIN)
            max_before = max(values[:half])
            trend = margin.trend and len(values[:half]) >= TREND_SAMPLES
            if max(values[half:]) > max_before * margin.ratio + margin.slack or (
                trend and min(values[half:]) > max_before * TREND_MARGIN.ratio + TREND_MARGIN.slack
            ):
                grown.append(f"{name} grows: {' '.join(f'{value:g}' for value in values)}")
        return grown


def table_sizes(root: object) -> Counter[str]:
    """Count the entries of every table that can be reached from `root` through objects of this project.

    Returns:
        `Class.attribute` -> entries, summed over all objects of the class, with the entries of nested tables.
    """
    sizes: Counter[str] = Counter()
    seen = {id(root)}
    left = [root]
    while left:
        owner = left.pop()
        for attribute, value in _attributes(owner):
            for content in _contents(f"{type(owner).__name__}.{attribute}", value, sizes):
                if id(content) not in seen:
                    seen.add(id(content))
                    left.append(content)
    return sizes


def object_counts() -> Counter[str]:
    """Count live objects by class: objects of this project, and the tasks, futures and handles of asyncio."""
    counts: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        module = kind.__module__  # of a metaclass's class it may be anything
        if isinstance(module, str) and package_of(module) in _COUNTED:
            counts[kind.__name__] += 1
    return counts


def _attributes(owner: object) -> Iterator[tuple[str, Any]]:
    if isinstance(owner, tuple):
        yield from zip(getattr(owner, "_fields", ()), owner, strict=False)
        return
    yield from getattr(owner, "__dict__", {}).items()
    for kind in type(owner).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(owner, name):
                yield name, getattr(owner, name)


def _contents(name: str, value: object, sizes: Counter[str]) -> Iterator[object]:
    """Find this project's objects in a value, which may be one itself or a nested table; count the tables."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            sizes[name] += len(each)
            left += _may_leak(each.keys())
            left += _may_leak(each.values())
        elif isinstance(each, (list, deque, set, frozenset)):
            sizes[name] += len(each)
            left += _may_leak(each)
        elif type(each) is tuple:
            left += _may_leak(each)
        elif package_of(type(each).__module__) in OURS and not isinstance(each, type):
            yield each


def _may_leak(values: Iterable[object]) -> list[object]:
    return [value for value in values if type(value) not in _PLAIN]


_COUNTED = OURS | {"asyncio", "_asyncio"}
_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
