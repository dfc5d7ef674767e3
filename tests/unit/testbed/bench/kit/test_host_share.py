from __future__ import annotations

from pathlib import Path

import pytest

from testbed.bench.kit.host_share import CpuTime, read_cpu_time, share_kept

#           user nice system idle iowait irq softirq steal guest guest_nice
STAT = "cpu  100 20 30 4000 500 6 7 80 90 10\ncpu0 50 10 15 2000 250 3 3 40 45 5\n"


def test_idle_time_waiting_for_a_disk_and_guests_that_count_twice_are_not_used_time(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(STAT)
    assert read_cpu_time(stat) == CpuTime(used=163, stolen=80)


def test_without_a_proc_stat_nothing_is_known(tmp_path: Path) -> None:
    assert read_cpu_time(tmp_path / "none") is None
    assert share_kept(None, CpuTime(1, 1)) is None
    assert share_kept(CpuTime(1, 1), None) is None


def test_the_share_is_of_what_was_asked_for() -> None:
    assert share_kept(CpuTime(100, 10), CpuTime(162, 48)) == pytest.approx(0.38)


def test_who_asked_for_nothing_was_denied_nothing() -> None:
    assert share_kept(CpuTime(100, 10), CpuTime(100, 10)) == 0.0
