from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from model.events import Event
from pipeline.report.few_events import events_of


def test_only_the_events_of_these_kinds_are_read_from_all_files_and_row_groups(tmp_path: Path) -> None:
    def event(seq: int) -> Event:
        return Event(float(seq), "b", seq, "FEW" if seq % 5 == 3 else "MANY", f"b/{seq}", "g", n=seq)

    for number in (0, 1):
        rows = [event(seq)._asdict() for seq in range(10 * number, 10 * number + 10)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"part-{number}.parquet", row_group_size=2)
    assert list(events_of(tmp_path, frozenset({"FEW", "OTHER"}))) == [event(seq) for seq in (3, 8, 13, 18)]
    assert list(events_of(tmp_path, frozenset({"OTHER"}))) == []
