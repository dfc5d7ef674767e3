"""Do tables, tasks, descriptors and memory level off, or do they grow as long as a run lasts? Pure.

    table_sizes(broker)        how many entries every table has that can be reached from an object of ours
    object_counts()            how many objects of ours there are, reachable or forgotten
    Levels                     samples over time; `grown` names what the second half had more of than the first

Tables are found by walking the objects, not by a list of names: one that is added tomorrow is watched as well.

Example: warm_up=1, samples of `tasks` 40 | 61 60 | 60 62 are level; 40 | 61 64 | 80 99 are not: 99 > 64 * 1.2 + 16. A
slow leak stays below that for long, but when all of the second half is above all of the first, chance is no excuse:
0 | 12 24 36 48 | 60 72 84 96.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

OURS = frozenset({"model", "remoting", "namesrv", "broker", "client"})
"""Packages whose objects are looked into; what belongs to the standard library or to a test is not."""


class Margin(NamedTuple):
    """What the second half may have at the most: the most of the first half times `ratio`, plus `slack`.

    Attributes:
        ratio: infinite for what grows with what is stored.
        slack: in the unit of what is counted.
        trend: whether `TREND_MARGIN` holds as well; not for what goes up in steps and seldom comes down.
    """

    ratio: float
    slack: float
    trend: bool = True


TABLE_MARGIN = Margin(1.2, 16)
"""For what is counted in a moment of rest: the same clients and queues are there every time, and caches vary."""
TREND_MARGIN = Margin(1.01, 4)
"""What the least of the second half may have above the most of the first. With fewer than `TREND_SAMPLES` in each half
that happens by chance; with so many, once in seventy times to something that varies freely."""
TREND_SAMPLES = 4


class Levels:
    """Samples of one run, in the order of their time.

    Args:
        warm_up: how many samples at the start do not count: tables, caches and pools fill.
        margins: name -> margin, for what is not counted but measured; others have `TABLE_MARGIN`.

    Attributes:
        samples: what was noted; a name that is absent counts as 0.
    """

    def __init__(self, *, warm_up: int = 1, margins: Mapping[str, Margin] | None = None) -> None:
        self.samples: list[dict[str, float]] = []
        self._warm_up = warm_up
        self._margins = margins or {}

    def note(self, sample: Mapping[str, float]) -> None:
        """Add a sample."""
        # The same strings every time, or the samples would be what grows.
        self.samples.append({sys.intern(name): value for name, value in sample.items()})

    def grown(self) -> list[str]:
        """What the second half had more of than the first, a line each, sorted by name.

        Raises:
            ValueError: fewer than two samples after the warm-up cannot tell.
        """
        samples = self.samples[self._warm_up :]
        if len(samples) < 2:
            raise ValueError(f"{len(self.samples)} samples with {self._warm_up} to warm up cannot tell what grows")
        half = len(samples) // 2
        grown = []
        for name in sorted({name for sample in samples for name in sample}):
            values = [sample.get(name, 0) for sample in samples]
            margin = self._margins.get(name, TABLE_MARGIN)
            before = max(values[:half])
            trend = margin.trend and len(values[:half]) >= TREND_SAMPLES
            if max(values[half:]) > before * margin.ratio + margin.slack or (
                trend and min(values[half:]) > before * TREND_MARGIN.ratio + TREND_MARGIN.slack
            ):
                grown.append(f"{name} grows: {' '.join(f'{value:g}' for value in values)}")
        return grown


def table_sizes(root: object) -> Counter[str]:
    """Count the entries of every table that can be reached from an object through objects of ours.

    Args:
        root: where to begin, for instance a broker.

    Returns:
        `Class.attribute` -> entries, summed over all objects of the class, those of tables inside of tables included.
    """
    sizes: Counter[str] = Counter()
    seen = {id(root)}
    left = [root]
    while left:
        owner = left.pop()
        for attribute, value in _attributes(owner):
            for found in _contents(f"{type(owner).__name__}.{attribute}", value, sizes):
                if id(found) not in seen:
                    seen.add(id(found))
                    left.append(found)
    return sizes


def object_counts() -> Counter[str]:
    """Count the objects that are alive, by class: those of ours, and the tasks, futures and handles of asyncio."""
    counts: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        module = kind.__module__  # of a metaclass's class it may be anything
        if isinstance(module, str) and module.partition(".")[0] in _COUNTED:
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
    """The objects of ours in a value, which is one itself or a table of whatever depth; tables are counted."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            sizes[name] += len(each)
            left += _worth_looking_at(each.keys())
            left += _worth_looking_at(each.values())
        elif isinstance(each, (list, deque, set, frozenset)):
            sizes[name] += len(each)
            left += _worth_looking_at(each)
        elif type(each) is tuple:
            left += _worth_looking_at(each)
        elif type(each).__module__.partition(".")[0] in OURS and not isinstance(each, type):
            yield each


def _worth_looking_at(values: Iterable[object]) -> list[object]:
    return [value for value in values if type(value) not in _PLAIN]


_COUNTED = OURS | {"asyncio", "_asyncio"}
_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
