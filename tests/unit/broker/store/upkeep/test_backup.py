"""A copy of a broker's data fits together although the broker runs, and what is not whole is refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from broker.store.disk.directory import METADATA_NAME
from broker.store.disk.options import StoreOptions
from broker.store.follower.cut import CUT_NAME
from broker.store.upkeep import backup
from broker.store.upkeep.backup import MANIFEST_NAME, dump_directory, restore_directory
from broker.store.upkeep.verify import verify_directory
from cli.main import app
from model.errors import ConfigError
from tests.unit.broker.harness import World, simulated

SMALL = StoreOptions(segment_bytes=2_000)


def copied(tmp_path: Path) -> Path:
    """A copy of a broker that had 100 messages and 90 as its group's offset when it was made, and went on."""

    @simulated
    async def scenario(world: World) -> None:
        await world.start_broker(store=SMALL)
        peer = world.peer("a")
        await peer.put_topic()
        for _ in range(100):
            await peer.send()
        await peer.commit(90)
        dump_directory(world.data_dir, tmp_path / "copy")
        for _ in range(50):
            await peer.send()
        await peer.commit(150)
        await world.stop_broker()

    scenario(tmp_path)
    return tmp_path / "copy"


def test_a_running_broker_is_copied_and_a_broker_starts_with_the_copy_where_it_was(tmp_path: Path) -> None:
    copy, target = copied(tmp_path), tmp_path / "restored"
    result = CliRunner().invoke(app, ["broker", "restore", str(copy), str(target), "--json"])
    assert json.loads(result.stdout)["segments"] == len(list(copy.glob("*.log"))) > 1
    found = verify_directory(target, lambda _: None)
    assert (found.ok, found.messages) == (True, 100)
    assert {path.stat().st_mode & 0o077 for path in (target, *target.iterdir())} == {0}, "for its user alone"

    @simulated
    async def scenario(world: World) -> None:
        shutil.copytree(target, world.data_dir, dirs_exist_ok=True)
        await world.start_broker(store=SMALL)
        assert await world.peer("a").committed() == 90
        assert await world.peer("a").send() == 100

    scenario(tmp_path / "again")


def test_a_topic_that_is_made_during_the_copy_is_in_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    restore_directory(copied(tmp_path), data)
    copy_database, made = backup._copy_database, tmp_path / "second"
    calls: list[Path] = []

    def slowly(path: Path, to: Path) -> list[Any]:
        known = copy_database(path, to)
        if not calls:
            with closing(sqlite3.connect(path)) as db:
                columns = [row[1] for row in db.execute("pragma table_info(topics)")]
                row = dict(zip(columns, db.execute("select * from topics limit 1").fetchone(), strict=True))
                row |= {"topic": "new", "topic_id": 999}
                db.execute(f"insert into topics values ({','.join('?' * len(row))})", list(row.values()))
                db.commit()
        calls.append(path)
        return known

    monkeypatch.setattr(backup, "_copy_database", slowly)
    dump_directory(data, made)
    assert len(calls) == 2
    with closing(sqlite3.connect(made / METADATA_NAME)) as db:
        assert (999,) in db.execute("select topic_id from topics").fetchall()


def test_a_directory_that_changes_all_the_time_is_abandoned_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    restore_directory(copied(tmp_path), data)

    def changing(_data: Path, _to: Path) -> object:
        raise FileNotFoundError("a segment was deleted")

    monkeypatch.setattr(backup, "_copy", changing)
    result = CliRunner().invoke(app, ["broker", "dump", str(data), str(tmp_path / "new")])
    assert result.exit_code == 1
    assert "changed 20 times while it was copied: try again" in result.stderr
    assert not list(tmp_path.glob("new*"))


@pytest.mark.parametrize("name", ["log", METADATA_NAME, "ENDS", "STORE"])
def test_a_copy_with_one_wrong_byte_is_refused_by_the_name_of_the_file(tmp_path: Path, name: str) -> None:
    copy = copied(tmp_path)
    path = next(path for path in sorted(copy.iterdir()) if path.name.endswith(name))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"{path.name} is not as it was when it was dumped"):
        restore_directory(copy, tmp_path / "restored")
    assert not list(tmp_path.glob("restored*"))


def test_what_is_not_a_copy_and_what_is_not_a_data_directory_and_a_target_that_is_there_are_refused(
    tmp_path: Path,
) -> None:
    copy = copied(tmp_path)
    with pytest.raises(ConfigError, match="is there already"):
        restore_directory(copy, tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="is not the data directory of a broker"):
        dump_directory(tmp_path / "empty", tmp_path / "new")
    manifest = json.loads((copy / MANIFEST_NAME).read_text())
    for wrong, why in (
        (manifest | {"format": 2}, "has format 2"),
        (manifest | {"files": {"../x": [0, ""]}}, "names a file elsewhere"),
        ([], "is not a directory that `rlab broker dump` has finished"),
    ):
        (copy / MANIFEST_NAME).write_text(json.dumps(wrong))
        with pytest.raises(ConfigError, match=why):
            restore_directory(copy, tmp_path / "new")
    (copy / MANIFEST_NAME).unlink()
    with pytest.raises(ConfigError, match="has finished"):
        restore_directory(copy, tmp_path / "new")


def test_a_directory_in_the_middle_of_a_cut_is_not_copied(tmp_path: Path) -> None:
    copied(tmp_path)
    (tmp_path / "copy" / CUT_NAME).write_bytes(b"{}")
    with pytest.raises(ConfigError, match="start the replica"):
        dump_directory(tmp_path / "copy", tmp_path / "second")
    assert not (tmp_path / "second").exists()
