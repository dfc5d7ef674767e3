from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.store.disk.directory import LOCK_NAME, MARKER_NAME, DirectoryLock, claim_directory
from broker.store.disk.errors import (
    StoreForeign,
    StoreFormatUnsupported,
    StoreInUse,
    StoreLockLost,
    StoreNotADirectory,
    StoreNotWritable,
    StoreUnusable,
)
from broker.store.disk.files import Files
from tests.unit.broker.store.disk.faulty_files import FaultyFiles


def test_a_new_directory_is_made_with_its_parents_and_marked(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    claim_directory(directory, Files()).release()
    assert sorted(path.name for path in directory.iterdir()) == [LOCK_NAME, MARKER_NAME]
    assert (directory / MARKER_NAME).read_text() == "rebalance-lab message store, format 1\n"
    claim_directory(directory, Files()).release()


def test_an_empty_directory_and_one_whose_first_start_was_cut_short_are_taken(tmp_path: Path) -> None:
    claim_directory(tmp_path, Files()).release()
    (tmp_path / MARKER_NAME).rename(tmp_path / (MARKER_NAME + ".tmp"))
    claim_directory(tmp_path, Files()).release()
    assert (tmp_path / MARKER_NAME).exists()


def test_a_foreign_directory_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(StoreForeign, match=r"holds 'photo\.jpg'.*name an empty or a new directory"):
        claim_directory(tmp_path, Files())
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_a_marker_that_is_not_ours_is_foreign(tmp_path: Path) -> None:
    (tmp_path / MARKER_NAME).write_text("groceries\n")
    with pytest.raises(StoreForeign, match="begins 'groceries'"):
        claim_directory(tmp_path, Files())


def test_another_format_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / MARKER_NAME).write_text("rebalance-lab message store, format 3\n")
    with pytest.raises(StoreFormatUnsupported, match="is in store format 3, this version knows formats 1 and 2"):
        claim_directory(tmp_path, Files())


def test_a_refused_directory_is_not_left_locked(tmp_path: Path) -> None:
    marker = tmp_path / MARKER_NAME
    claim_directory(tmp_path, Files()).release()
    good = marker.read_text()
    marker.write_text("rebalance-lab message store, format 3\n")
    with pytest.raises(StoreFormatUnsupported):
        claim_directory(tmp_path, Files())
    marker.write_text(good)
    claim_directory(tmp_path, Files()).release()


@pytest.mark.parametrize("below", [".", "deeper/still"])
def test_a_file_in_the_way_is_not_a_directory(tmp_path: Path, below: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    with pytest.raises(StoreNotADirectory, match="is not a directory: name another"):
        claim_directory(path / below, Files())


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_directory_that_may_not_be_written_says_for_whom(tmp_path: Path, number: int) -> None:
    files = FaultyFiles()
    files.failing["open"] = number
    with pytest.raises(StoreNotWritable, match=r"as user \d+ .*change its owner or its mode"):
        claim_directory(tmp_path, files)


def test_a_full_disk_is_unusable_and_says_so(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.room = 0
    with pytest.raises(StoreUnusable, match=r"No space left on device.*free space"):
        claim_directory(tmp_path, files)


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    lock = claim_directory(tmp_path, Files())
    with pytest.raises(StoreInUse):
        claim_directory(tmp_path, Files())
    lock.release()


HOLD = """
import sys
from pathlib import Path
from broker.store.disk.directory import DirectoryLock
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


def test_a_removed_lock_file_lets_no_one_else_into_the_directory(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(tmp_path, Files())
    (tmp_path / LOCK_NAME).unlink()
    with pytest.raises(StoreInUse, match="process unknown"):
        DirectoryLock.acquire(tmp_path, Files())
    assert not (tmp_path / LOCK_NAME).exists()  # the refused one leaves no file that a third would lock
    lock.release()
    DirectoryLock.acquire(tmp_path, Files()).release()


def _removed(directory: Path) -> None:
    (directory / LOCK_NAME).unlink()


def _replaced(directory: Path) -> None:
    (directory / "new").write_bytes(b"")
    (directory / "new").replace(directory / LOCK_NAME)


def _moved_away(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


def _remade(directory: Path) -> None:
    _moved_away(directory)
    directory.mkdir()
    DirectoryLock.acquire(directory, Files()).release()


@pytest.mark.parametrize("change", [_removed, _replaced, _moved_away, _remade])
def test_a_holder_notices_that_its_lock_file_was_removed_or_replaced(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    directory = tmp_path / "store"
    directory.mkdir()
    lock = DirectoryLock.acquire(directory, Files())
    lock.check()
    change(directory)
    with pytest.raises(StoreLockLost, match="LOCK was removed or replaced while this broker was running"):
        lock.check()
    lock.release()


def test_a_disk_that_answers_nothing_does_not_look_like_another_broker(tmp_path: Path) -> None:
    class Broken(Files):
        def is_named(self, fd: int, path: Path) -> bool:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    lock = DirectoryLock.acquire(tmp_path, Broken())
    lock.check()
    lock.release()


def test_a_file_system_that_locks_no_directories_is_locked_by_the_file_alone(tmp_path: Path) -> None:
    class Nfs(Files):
        def try_lock(self, fd: int) -> bool:
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return super().try_lock(fd)

    lock = DirectoryLock.acquire(tmp_path, Nfs())
    with pytest.raises(StoreInUse, match=f"process {os.getpid()}"):
        DirectoryLock.acquire(tmp_path, Nfs())
    lock.release()
