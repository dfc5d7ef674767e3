"""A power cut and the files of SQLite: which commits are on the disk when they return, and what it leaves of others."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from broker.durability.metadata import MetadataStore, Table
from broker.store.disk.directory import METADATA_NAME
from model.record import FlushMode
from tests.process.without_syncs import NUMBERS, SCHEMA

WAL = f"{METADATA_NAME}-wal"


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in NUMBERS, reason="system calls are filtered on Linux only"
)
@pytest.mark.parametrize(
    ("what", "flush", "outcome"),
    [
        ("metadata", "sync", "refused"),
        ("metadata", "async", "stored"),
        ("topic", "async", "refused"),
        ("replica", "async", "refused"),
        ("replica", "sync", "refused"),
        ("elections", "sync", "refused"),
    ],
)
def test_each_commit_that_a_promise_needs_is_synced_before_it_returns(
    tmp_path: Path, what: str, flush: str, outcome: str
) -> None:
    command = [sys.executable, "-m", "tests.process.without_syncs", what, flush, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.stdout == "not filtered":
        # Some containers forbid seccomp. No sync fails there, so each commit would look unsynced.
        pytest.skip("this system does not let a process filter its system calls")
    assert (done.stdout, done.returncode) == (outcome, 0), done.stderr


def left_by_a_cut(directory: Path, survivor: Path, wal_bytes: int, torn: bytes) -> dict[str, int]:
    """The rows of a copy whose write-ahead log has only these bytes, and then torn ones."""
    shutil.rmtree(survivor, ignore_errors=True)
    survivor.mkdir()
    shutil.copy(directory / METADATA_NAME, survivor)
    (survivor / WAL).write_bytes((directory / WAL).read_bytes()[:wal_bytes] + torn)
    with MetadataStore(survivor) as store:
        store.add_tables(SCHEMA)
        return dict(store.rows("select * from offsets"))


def test_a_power_cut_erases_whole_commits_and_none_from_before_the_last_synced_one(tmp_path: Path) -> None:
    directory, survivor = tmp_path / "broker", tmp_path / "survivor"
    directory.mkdir()
    with MetadataStore(directory, flush=FlushMode.ASYNC) as store:
        store.add_tables(SCHEMA)
        offsets = Table(store, "offsets", replicated=True)
        synced_bytes = 0
        for number in range(12):
            if number == 5:
                store.sync_next_commit()
            offsets.put("a", number)
            offsets.put("b", number)
            store.commit()
            if number == 5:
                synced_bytes = (directory / WAL).stat().st_size
        size = (directory / WAL).stat().st_size
        found = []
        for wal_bytes in (*range(synced_bytes, size, 512), size):
            for torn in (b"", bytes(700)):
                rows = left_by_a_cut(directory, survivor, wal_bytes, torn)
                assert rows["a"] == rows["b"]
                found.append(rows["a"])
    assert found == sorted(found)
    assert {*found} == {*range(5, 12)}
