from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.store.disk.directory_lock import LOCK_NAME, DirectoryLock
from broker.store.disk.errors import StoreInUse
from broker.store.disk.files import Files

HOLD = """
import sys
from pathlib import Path
from broker.store.disk.directory_lock import DirectoryLock
from broker.store.disk.files import Files
lock = DirectoryLock.acquire(Path(sys.argv[1]), Files())
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_holder_is_refused_with_the_process_id_of_the_first(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path, Files())
    with pytest.raises(StoreInUse, match=f"in use by process {os.getpid()}: stop it"):
        DirectoryLock.acquire(tmp_path, Files())
    lock.release()
    lock.release()
    DirectoryLock.acquire(tmp_path, Files()).release()


def test_a_holder_without_a_readable_process_id_is_still_a_holder(tmp_path: Path) -> None:
    files = Files()
    fd = files.open(tmp_path / LOCK_NAME, create=True)
    assert files.try_lock(fd)
    with pytest.raises(StoreInUse, match="process unknown"):
        DirectoryLock.acquire(tmp_path, files)
    files.close(fd)


@pytest.mark.process
def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[5],
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreInUse, match=f"process {holder.pid}"):
            DirectoryLock.acquire(tmp_path, Files())
        holder.kill()
        holder.wait()
        DirectoryLock.acquire(tmp_path, Files()).release()
