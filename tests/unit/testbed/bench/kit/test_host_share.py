from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.kit.host_share import CpuShares, CpuTime, cpu_shares, read_cpu_time, ticks_of_tree

#           user nice system idle iowait irq softirq steal guest guest_nice
STAT = "cpu  100 20 30 4000 500 6 7 80 90 10\ncpu0 50 10 15 2000 250 3 3 40 45 5\n"


def stat_of(pid: int, parent: int, *times: int) -> str:
    """A line of `/proc/PID/stat`, with a name that has spaces and a bracket; times are utime, stime, cutime, cstime."""
    return f"{pid} (a (b) c) S {parent} 1 1 0 -1 4194304 1 2 3 4 {' '.join(map(str, times))} 20 0 1 0 99 1 1"


def test_idle_time_waiting_for_a_disk_and_unauthenticated_clients_that_count_twice_are_not_used_time(
    tmp_path: Path,
) -> None:
    (tmp_path / "stat").write_text(STAT)
    own = tmp_path / str(os.getpid())
    own.mkdir()
    (own / "stat").write_text(stat_of(os.getpid(), 1, 4, 3, 2, 1))
    (tmp_path / "self").mkdir()
    assert read_cpu_time(tmp_path) == CpuTime(used=163, stolen=80, own=10)


def test_without_a_proc_stat_nothing_is_known(tmp_path: Path) -> None:
    assert read_cpu_time(tmp_path / "none") is None
    assert cpu_shares(None, CpuTime(1, 1)) is None
    assert cpu_shares(CpuTime(1, 1), None) is None


def test_the_shares_are_of_what_was_wanted() -> None:
    shares = cpu_shares(CpuTime(100, 10, 50), CpuTime(162, 48, 92))
    assert shares is not None
    assert shares.withheld == pytest.approx(0.38)
    assert shares.others == pytest.approx(0.2)
    assert str(shares) == "38% + 20%"


def test_who_asked_for_nothing_was_denied_nothing() -> None:
    assert cpu_shares(CpuTime(100, 10), CpuTime(100, 10)) == CpuShares(0.0, 0.0)


def test_time_of_processes_beyond_that_of_the_processors_is_rounding() -> None:
    assert cpu_shares(CpuTime(100, 0, 0), CpuTime(110, 0, 11)) == CpuShares(0.0, 0.0)


@given(st.lists(st.tuples(st.integers(0, 12), st.tuples(*[st.integers(0, 99)] * 4)), min_size=1, max_size=12))
def test_the_time_of_a_tree_is_the_time_of_all_who_descend_from_its_root(
    processes: list[tuple[int, tuple[int, int, int, int]]],
) -> None:
    parents = {pid: min(parent, pid - 1) for pid, (parent, _) in enumerate(processes, 2)}
    stats = [stat_of(pid, parents[pid], *times) for pid, (_, times) in enumerate(processes, 2)]

    def descends(pid: int) -> bool:
        return pid == 2 or (pid in parents and descends(parents[pid]))

    expected = sum(sum(times) for pid, (_, times) in enumerate(processes, 2) if descends(pid))
    assert ticks_of_tree(stats, 2) == expected


def test_the_machine_of_this_test_counts_this_process_among_all() -> None:
    now = read_cpu_time()
    assert now is None or 0 < now.own <= now.used + 10
