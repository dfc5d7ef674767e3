"""Which dead letters of a queue were re-sent: all below a mark, and some above it. Pure.

Operators re-send one letter to see whether the repair works, and then the rest: so it is not enough to know how far
they have come. What is marked without a gap is only a number.

    mark 5             below 0, above 5
    mark 0 1 2         below 3, above 5
    mark 3 4           below 6
"""

from __future__ import annotations

from collections.abc import Iterable

from model.errors import SystemBusy
from model.limits import MAX_RESENT_MARKS


class ResentLetters:
    """The marks of one queue.

    Args:
        below: every offset below it is marked.
        above: marked offsets from there on.

    Invariant: `below` itself is not marked, and at most MAX_RESENT_MARKS offsets are above it.
    """

    def __init__(self, below: int = 0, above: Iterable[int] = ()) -> None:
        self.below = below
        self._above: dict[int, None] = dict.fromkeys(above)

    @property
    def above(self) -> list[int]:
        """Marked offsets above `below`, sorted."""
        return sorted(self._above)

    def mark(self, offsets: Iterable[int], *, oldest: int) -> None:
        """Note that letters were re-sent; those that are marked already stay marked.

        Args:
            offsets: their offsets.
            oldest: the oldest offset that is still stored; nobody will ask for those below it.

        Raises:
            SystemBusy: too many marks with gaps between them; nothing was marked.
        """
        below = max(self.below, oldest)
        above = {offset: None for offset in (*self._above, *offsets) if offset >= below}
        while below in above:
            del above[below]
            below += 1
        if len(above) > MAX_RESENT_MARKS:
            raise SystemBusy(
                f"{len(above)} dead letters would be marked after one that is not: re-send that at offset {below} first"
            )
        self.below, self._above = below, above

    def __contains__(self, offset: int) -> bool:
        return offset < self.below or offset in self._above
