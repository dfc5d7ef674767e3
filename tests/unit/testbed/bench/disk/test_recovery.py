from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from testbed.bench.disk.recovery import Row, log_sizes, make_results, write
from testbed.bench.kit.processes import name_server_process
from tests.unit.testbed.bench.embedded import quiet


def test_a_row_is_the_fastest_restart_against_the_first_row_and_says_what_there_was_to_read() -> None:
    rows = [
        Row(name="recovery-1", times_s=[0.4, 0.2, 0.3], stored_bytes=64 << 20, since_bytes=1 << 20),
        Row(name="recovery-4", times_s=[0.5, 0.4, 0.6], stored_bytes=4 << 30, since_bytes=3 << 19),
    ]
    first, second = make_results(rows)
    assert (first.name, first.value, first.ratio) == ("recovery-1", 200, 1)
    assert (second.name, second.value, second.baseline_value, second.ratio) == ("recovery-4", 400, 200, 2)
    assert second.note == "1.5 MiB to read of 4,096 MiB stored"


@pytest.mark.process
@pytest.mark.tcp
def test_a_killed_broker_leaves_a_segment_without_an_index_and_a_restarted_one_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with name_server_process(quiet=True) as name_server:
            await write(name_server, tmp_path, 100_000, quiet, to_be_killed=True)
            stored, since = log_sizes(tmp_path)
            assert stored == since >= 100_000 - 343
            row = Row(name="recovery")
            await row.add(name_server, tmp_path)
            assert (row.stored_bytes, row.since_bytes, len(row.times_s)) == (stored, since, 1)
            assert log_sizes(tmp_path)[1] == 0

    anyio.run(main)
