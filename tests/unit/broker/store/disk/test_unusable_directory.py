"""A data directory that a broker may not use: it does not start, and says what to change. Nothing is left behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from broker.store.disk.files import Files
from model.errors import ConfigError
from tests.unit.broker.harness import ADDRESS, World, simulated


class Forbidding(Files):
    """A file system that lets nobody open files of some names for writing, as that of another user does.

    The tests may run as a user whom the real one forbids nothing.
    """

    def __init__(self, number: int, *names: str) -> None:
        self._number = number
        self._names = names

    def open(self, path: Path, *, create: bool = False) -> int:
        if any(path.match(name) for name in self._names):
            raise OSError(self._number, os.strerror(self._number), str(path))
        return super().open(path, create=create)

    def make_directory(self, path: Path) -> None:
        if "." in self._names:
            raise OSError(self._number, os.strerror(self._number), str(path))
        super().make_directory(path)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
@pytest.mark.parametrize("name", [".", "LOCK", "STORE.tmp", "*.log.tmp", "metadata.sqlite"])
@simulated
async def test_a_new_directory_that_may_not_be_written_is_refused_with_what_to_change(
    world: World, name: str, number: int
) -> None:
    with pytest.raises(ConfigError, match=r"cannot write .* as user \d+ .*: change its owner or its mode") as refused:
        await world.start_broker(files=Forbidding(number, name))
    assert str(world.data_dir) in str(refused.value)
    assert os.strerror(number) in str(refused.value)
    # Whoever follows the advice has a broker.
    await world.start_broker()
    assert await world.peer("a").send() == 0


@pytest.mark.parametrize("name", ["STORE", "LOCK", "*.log", "metadata.sqlite", "metadata.sqlite-wal"])
@simulated
async def test_a_file_of_someone_else_in_a_store_is_named(world: World, name: str) -> None:
    await world.start_broker()
    assert await world.peer("a").send() == 0
    await world.stop_broker()
    (world.data_dir / "metadata.sqlite-wal").touch()  # as a broker of another user that was killed leaves it
    with pytest.raises(ConfigError, match=r"cannot write .* as user \d+ .*: change its owner or its mode") as refused:
        await world.start_broker(files=Forbidding(errno.EACCES, name))
    assert name.removeprefix("*") in str(refused.value)
    await world.start_broker()
    assert await world.peer("b").send() == 1


@simulated
async def test_a_second_broker_is_notified_who_has_the_directory_and_the_first_goes_on(world: World) -> None:
    await world.start_broker()
    a = world.peer("a")
    assert await a.send() == 0
    with pytest.raises(ConfigError, match=f"in use by process {os.getpid()}: stop it, or give this broker its own"):
        await world.start_broker(listen=ADDRESS.replace("10911", "20911"))
    assert await a.send() == 1


@simulated
async def test_a_file_in_place_of_the_database_is_refused_by_name(world: World) -> None:
    await world.start_broker()
    await world.stop_broker()
    (world.data_dir / "metadata.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(ConfigError, match=r"cannot open .*metadata\.sqlite"):
        await world.start_broker()
