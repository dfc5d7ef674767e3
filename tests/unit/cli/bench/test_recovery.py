from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from cli.bench.processes import name_server_process
from cli.bench.recovery import restart, results_of, write
from tests.unit.cli.bench.embedded import quiet


def test_a_row_is_the_median_restart_against_the_first_row() -> None:
    first, second = results_of("recovery-{}", {1: [0.3, 0.1, 0.2], 4: [0.5, 0.3, 0.4]})
    assert (first.name, first.value, first.ratio) == ("recovery-1", 200, 1)
    assert (second.name, second.value, second.baseline_value, second.ratio) == ("recovery-4", 400, 200, 2)


@pytest.mark.process
@pytest.mark.tcp
def test_a_killed_broker_leaves_a_segment_without_an_index_and_a_restarted_one_none(tmp_path: Path) -> None:
    async def main() -> None:
        def without_index() -> list[str]:
            return [log.name for log in tmp_path.glob("*.log") if not log.with_suffix(".index").exists()]

        def stored() -> int:
            return sum(log.stat().st_size for log in tmp_path.glob("*.log"))

        async with name_server_process(quiet=True) as name_server:
            await write(name_server, tmp_path, 100_000, quiet, to_be_killed=True)
            assert stored() >= 100_000 - 343
            assert len(without_index()) == 1
            assert await restart(name_server, tmp_path) > 0
            assert without_index() == []

    anyio.run(main)
