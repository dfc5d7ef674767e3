"""The file of a broadcasting consumer: whole at every moment, read back, and clear about what is wrong with it."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from client.leases.local_offset_store import LocalOffsetStore, offsets_path
from model.errors import ConfigError, SystemError_
from model.message_queue import MessageQueue
from testbed.simulation.kernel.run import Simulation, run_simulation

Q = MessageQueue("t", "b", 0)


def store_at(path: Path, offset: int) -> None:
    async def main(simulation: Simulation) -> None:
        store = LocalOffsetStore(path)
        await store.load()
        store.begin("t", 5)
        store.update(Q, offset)
        assert await store.persist() == {}
        assert await store.persist() == {}

    run_simulation(main)


def stored_at(path: Path) -> int | None:
    async def main(simulation: Simulation) -> int | None:
        store = LocalOffsetStore(path)
        await store.load()
        return (await store.read([Q]))[Q]

    return run_simulation(main)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return offsets_path(tmp_path, "10.0.0.1@x", "g")


def test_offsets_are_found_again_under_client_id_and_group(path: Path, tmp_path: Path) -> None:
    assert path == tmp_path / "10.0.0.1@x" / "g" / "offsets.json"
    assert stored_at(path) is None
    store_at(path, 7)
    assert stored_at(path) == 7
    assert sorted(os.listdir(path.parent)) == ["offsets.json"]


@pytest.mark.parametrize("client_id", ["../../x@1", "a/b@..", "10.0.0.1@/etc"])
def test_no_client_id_leads_out_of_the_folder(client_id: str, tmp_path: Path) -> None:
    assert offsets_path(tmp_path, client_id, "g").resolve().is_relative_to(tmp_path.resolve())
    assert offsets_path(tmp_path, client_id, "g").parent.parent.parent == tmp_path


def test_the_file_so_far_is_kept_beside_the_new_one(path: Path) -> None:
    store_at(path, 7)
    store_at(path, 8)
    assert sorted(os.listdir(path.parent)) == ["offsets.json", "offsets.json.bak"]
    path.unlink()  # as after a crash between the two renames
    assert stored_at(path) == 7


def test_a_damaged_file_is_replaced_by_its_backup_with_a_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store_at(path, 7)
    store_at(path, 8)
    path.write_bytes(path.read_bytes()[:20])
    with caplog.at_level(logging.WARNING):
        assert stored_at(path) == 7
    assert "damaged" in caplog.text
    assert "going on from offsets.json.bak" in caplog.text
    store_at(path, 9)
    path.unlink()
    assert stored_at(path) == 7, "the damaged file did not take the place of the backup"


def test_without_a_whole_file_it_says_which_and_what_to_do(path: Path) -> None:
    store_at(path, 7)
    path.write_bytes(b"{")
    with pytest.raises(
        ConfigError, match=r"offsets\.json: it is damaged.*no such file\. Repair one of them, or delete"
    ):
        stored_at(path)


def test_a_file_that_is_too_long_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_at(path, 7)
    monkeypatch.setattr("client.leases.local_offset_store.MAX_LOCAL_OFFSETS_BYTES", path.stat().st_size)
    assert stored_at(path) == 7
    monkeypatch.setattr("client.leases.local_offset_store.MAX_LOCAL_OFFSETS_BYTES", path.stat().st_size - 1)
    with pytest.raises(ConfigError, match="it has more than"):
        stored_at(path)


def test_what_cannot_be_written_is_an_error_and_is_tried_again(path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        store = LocalOffsetStore(path)
        await store.load()
        store.begin("t", 5)
        store.update(Q, 3)
        shutil.rmtree(path.parent.parent)
        path.parent.parent.write_text("in the way")
        with pytest.raises(SystemError_, match=r"offsets\.json cannot be written"):
            await store.persist()
        path.parent.parent.unlink()
        await store.persist()

    run_simulation(main)
    assert stored_at(path) == 3


def test_a_route_that_shrinks_forgets_nothing_and_an_unsubscribe_does(path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        store = LocalOffsetStore(path)
        await store.load()
        store.begin("t", 5)
        store.update(Q, 3)
        store.forget(Q)
        assert await store.read([Q]) == {Q: 3}
        store.end("t")
        assert await store.read([Q]) == {Q: None}
        store.update(Q, 4)
        assert await store.read([Q]) == {Q: None}, "a late result brings no topic back"
        await store.persist()

    run_simulation(main)
    assert stored_at(path) is None


def test_a_user_without_a_home_folder_is_reported_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    with pytest.raises(ConfigError, match=r"offsets_dir '~/.rlab-offsets' is below a home folder .*or set HOME"):
        offsets_path("~/.rlab-offsets", "10.0.0.1@x", "g")


def test_a_folder_that_cannot_be_made_is_refused_at_the_start_and_not_at_each_commit(tmp_path: Path) -> None:
    (tmp_path / "nonexistent").write_bytes(b"")  # the home of a system user may be anything
    with pytest.raises(ConfigError, match=r"cannot be stored in .*Not a directory.*name another folder as offsets_dir"):
        stored_at(offsets_path(tmp_path / "nonexistent" / ".rlab-offsets", "10.0.0.1@x", "g"))
