"""The folder of a cluster that was killed is removed by the next one, and that of a living one is not."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from process import cluster_folder as folders
from process.cluster_folder import PREFIX, cluster_folder, leftovers

KILLED = """
import os, sys
from pathlib import Path
from process.cluster_folder import cluster_folder
with cluster_folder(Path(sys.argv[1])) as folder:
    (folder / "broker-a").mkdir()
    (folder / "broker-a" / "LOCK").touch()
    (folder / "broker-a" / "0.log").write_bytes(b"x")
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""


def killed(parent: Path) -> Path:
    """The folder of a cluster that was killed."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(parent)], capture_output=True, text=True, check=False)
    assert done.returncode == -9
    return Path(done.stdout.strip())


def test_the_folder_is_removed_at_the_end(tmp_path: Path) -> None:
    with cluster_folder(tmp_path) as folder:
        (folder / "broker-a").mkdir()
        assert leftovers(tmp_path) == [], "it is in use"
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_cluster_is_removed_by_the_next_one_which_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = killed(tmp_path)
    assert left.is_dir()
    with cluster_folder(tmp_path) as folder:
        assert [path for path in tmp_path.iterdir() if path != folder] == []
    assert capsys.readouterr().err == f"removing {left}, the folder of a cluster that was killed\n"


def test_a_folder_whose_broker_is_still_stopping_is_left_to_it(tmp_path: Path) -> None:
    left = killed(tmp_path)
    with (left / "broker-a" / "LOCK").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert leftovers(tmp_path) == []
    assert leftovers(tmp_path) == [left]


def test_what_is_not_such_a_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "LOCK").touch()
    (tmp_path / f"{PREFIX}new").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "other")
    with cluster_folder(tmp_path):
        assert leftovers(tmp_path) == []
    assert (tmp_path / "other" / "LOCK").is_file()
    assert (tmp_path / f"{PREFIX}new").is_dir()


def test_a_folder_that_its_cluster_removes_while_it_is_looked_at_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = tmp_path / f"{PREFIX}ending"
    ending.mkdir()
    (ending / "LOCK").touch()
    look = folders._is_held

    def looked_at_too_late(lock: Path) -> bool:
        shutil.rmtree(ending)
        return look(lock)

    monkeypatch.setattr(folders, "_is_held", looked_at_too_late)
    assert leftovers(tmp_path) == []
