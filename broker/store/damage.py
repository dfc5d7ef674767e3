"""Records damaged and missing ranges of offsets by segment: readers skip them, statistics report them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from broker.store.segments.index import LogKey

MAX_RANGES = 10_000
"""Ranges that are remembered; more are only counted. A disk that bad is to be replaced, not listed."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Damage:
    """The offsets [first_offset, end_offset) of one queue, which cannot be served.

    `segment` is the file name of the segment that holds, or should hold, their records.
    """

    segment: str
    topic_id: int
    queue_id: int
    first_offset: int
    end_offset: int


class DamageLog:
    """Collects ranges as recovery and reads come upon them, joining those that touch."""

    def __init__(self) -> None:
        self._ranges: dict[tuple[str, LogKey], list[tuple[int, int]]] = {}
        self._count = 0
        self.unlisted_count = 0

    def note(self, segment: str, key: LogKey, first_offset: int, end_offset: int) -> None:
        """Add a range; one that is known already changes nothing."""
        ranges = self._ranges.setdefault((segment, key), [])
        apart = [known for known in ranges if known[1] < first_offset or known[0] > end_offset]
        touching = [known for known in ranges if known[1] >= first_offset and known[0] <= end_offset]
        if not touching and self._count >= MAX_RANGES:
            self.unlisted_count += 1
            return
        first_offset = min([first_offset, *(known[0] for known in touching)])
        end_offset = max([end_offset, *(known[1] for known in touching)])
        self._count += 1 - len(touching)
        self._ranges[segment, key] = sorted([*apart, (first_offset, end_offset)])

    def report(self) -> tuple[Damage, ...]:
        """Return all ranges, sorted."""
        return tuple(
            sorted(
                Damage(segment=segment, topic_id=key[0], queue_id=key[1], first_offset=first, end_offset=end)
                for (segment, key), ranges in self._ranges.items()
                for first, end in ranges
            )
        )
