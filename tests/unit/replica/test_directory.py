"""The file REPLICA, its lock, and the directories that a set refuses by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.store.disk.directory import REPLICA_NAME
from broker.store.disk.errors import StoreInUse
from broker.store.disk.files import Files
from model.errors import ConfigError
from replica.directory import (
    NotAReplica,
    NotOfThisRegister,
    NotOfThisSet,
    OldReplica,
    ReplicaFileDamaged,
    ReplicaIdentity,
    check_identity,
    locked,
    read_identity,
    write_identity,
)
from replica.sets import create, forgotten, joined, started

FILES = Files()
MADE = replace(create("broker-a", "h1:1", set_id=7), register_id=9, version=1)
JOINED, _ = joined(MADE, "h2:1")
ROW = started(JOINED, 2, "h2:1")
IDENTITY = ReplicaIdentity(name="broker-a", set_id=7, register_id=9, replica_id=2, incarnation=1)


def test_a_directory_without_the_file_is_not_a_replica(tmp_path: Path) -> None:
    assert read_identity(tmp_path, FILES) is None
    assert read_identity(tmp_path / "missing", FILES) is None


def test_what_is_written_is_read_and_replaced_as_a_whole(tmp_path: Path) -> None:
    write_identity(tmp_path, IDENTITY, FILES)
    assert read_identity(tmp_path, FILES) == IDENTITY
    write_identity(tmp_path, replace(IDENTITY, incarnation=2), FILES)
    assert read_identity(tmp_path, FILES) == replace(IDENTITY, incarnation=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [REPLICA_NAME, "STORE"]
    assert "format 2" in (tmp_path / "STORE").read_text()  # which earlier versions refuse


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": 1}',
        '{"format": 2, "name": "a", "set_id": 1, "register_id": 1, "replica_id": 1, "incarnation": 1}',
        '{"format": 1, "name": "a", "set_id": "1", "register_id": 1, "replica_id": 1, "incarnation": 1}',
        '{"format": 1, "name": 5, "set_id": 1, "register_id": 1, "replica_id": 1, "incarnation": 1}',
        '{"format": 1, "name": "a", "set_id": 1, "register_id": 1, "replica_id": 1, "incarnation": true}',
    ],
)
def test_a_damaged_file_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / REPLICA_NAME).write_text(text)
    with pytest.raises(ReplicaFileDamaged, match=REPLICA_NAME):
        read_identity(tmp_path, FILES)


def test_a_second_process_is_kept_out_of_a_directory(tmp_path: Path) -> None:
    twice = pytest.raises(StoreInUse, match="another replica process")
    with locked(tmp_path, FILES), twice, locked(tmp_path, FILES):
        pass
    with locked(tmp_path, FILES):
        pass


def test_a_current_replica_is_accepted_and_so_is_one_that_ended_between_file_and_register() -> None:
    for incarnation in (1, 2):
        identity = replace(IDENTITY, incarnation=incarnation)
        assert check_identity(identity, ROW, name="broker-a", directory=Path("d")) is ROW


@pytest.mark.parametrize(
    ("identity", "row", "refusal"),
    [
        (replace(IDENTITY, name="broker-b"), ROW, NotOfThisSet),
        (replace(IDENTITY, set_id=8), ROW, NotOfThisSet),
        (replace(IDENTITY, register_id=8), ROW, NotOfThisRegister),
        (IDENTITY, None, NotOfThisRegister),
        (IDENTITY, forgotten(ROW, 2), NotAReplica),
        (replace(IDENTITY, incarnation=0), ROW, OldReplica),
        (IDENTITY, started(ROW, 2, "h2:1"), OldReplica),
    ],
)
def test_a_directory_that_is_not_a_current_replica_is_refused_by_name(
    identity: ReplicaIdentity, row: object, refusal: type[ConfigError]
) -> None:
    with pytest.raises(refusal, match=r"broker-a"):
        check_identity(identity, row, name="broker-a", directory=Path("d"))  # type: ignore[arg-type]  # parametrized
