from __future__ import annotations

from broker.store.segments.index import MemoryIndex
from broker.store.segments.segment import Segment


def test_files_are_named_after_the_position_so_that_names_sort_as_positions_do() -> None:
    segments = [Segment(base_position=base, size=10, index=MemoryIndex({})) for base in (0, 9, 10, 2**40)]
    names = [segment.name for segment in segments]
    assert names == sorted(names)
    assert names[2] == "00000000000000000010.log"
    assert segments[2].index_name == "00000000000000000010.index"
    assert segments[2].end_position == 20
