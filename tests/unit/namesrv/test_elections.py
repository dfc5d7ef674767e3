"""The file of the register: opened by one process, durable before the answer, and refused if it is damaged.

Its rows are tested with those of all registers in tests/unit/replica/registers/test_contract.py.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from model.errors import ConfigError, IllegalOperation, RegisterUnavailable
from model.own_name import PREFIX
from model.replica_set import NO_MASTER, RESTORED_VERSIONS, Replica, ReplicaSet, SetChanged
from namesrv.elections import FILE_NAME, Elections, open_elections, restore_elections
from replica.sets import create, with_options
from testbed.simulation.kernel.run import Simulation, run_simulation

ROW = create("broker-a", "h1:1", set_id=7, copies=2)
TWO = Replica(replica_id=2, address="h2:1")


def stored(directory: Path) -> list[ReplicaSet]:
    """The rows of the file in a directory."""

    async def main(_: Simulation) -> list[ReplicaSet]:
        with open_elections(directory, Random(2)) as elections:
            return await elections.rows()

    return run_simulation(main)


def written(directory: Path, *rows: ReplicaSet) -> int:
    """Write rows to the register in a directory; returns its id."""

    async def main(_: Simulation) -> int:
        with open_elections(directory, Random(1)) as elections:
            for row in rows:
                await elections.write(row, 0)
            return elections.register_id

    return run_simulation(main)


def test_a_register_has_a_random_id_that_stays(tmp_path: Path) -> None:
    first = written(tmp_path / "one" / "deep", ROW)
    assert first > 0
    assert [row.register_id for row in stored(tmp_path / "one" / "deep")] == [first]
    with open_elections(tmp_path / "two", Random(3)) as other:
        assert other.register_id != first


def test_the_directory_is_its_users_alone(tmp_path: Path) -> None:
    written(tmp_path / "e")
    assert (tmp_path / "e").stat().st_mode & 0o777 == 0o700


def test_a_second_process_gets_no_register_of_a_directory_in_use(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from random import Random
from {PREFIX}model.errors import ConfigError
from {PREFIX}namesrv.elections import open_elections
try:
    with open_elections(Path(sys.argv[1]), Random(2)):
        print("opened")
except ConfigError as error:
    print(error)
"""
    asked = [sys.executable, "-c", code, str(tmp_path)]
    with open_elections(tmp_path, Random(1)):
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        assert done.stdout == (
            f"{tmp_path / FILE_NAME} is in use by another process: one name server keeps the elections of a cluster\n"
        )
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "opened\n"


def test_a_process_that_is_killed_between_the_write_and_its_answer_has_written(tmp_path: Path) -> None:
    code = f"""
import asyncio, os, signal, sys
from pathlib import Path
from random import Random
from {PREFIX}namesrv.elections import open_elections
from {PREFIX}replica.sets import create

async def main():
    with open_elections(Path(sys.argv[1]), Random(1)) as elections:
        await elections.write(create("broker-a", "h1:1", set_id=7, copies=2), 0)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    [row] = stored(tmp_path)
    assert row == replace(ROW, version=1, register_id=row.register_id)


def test_a_process_that_is_killed_within_the_write_has_written_all_of_it_or_nothing(tmp_path: Path) -> None:
    register_id = written(tmp_path, ROW)
    code = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma journal_mode = truncate")
db.execute("pragma cache_spill = 1")
db.execute("pragma cache_size = 1")
db.execute("begin immediate")
for number in range(200):
    db.execute("insert into sets values (?, zeroblob(4000), 0)", (f"other-{number}",))
db.execute("update sets set crc = 0")
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / FILE_NAME
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.stat().st_size > 100_000, "a part of the transaction is in the file"
    [row] = stored(tmp_path)
    assert row == replace(ROW, version=1, register_id=register_id)


def test_a_register_is_made_from_its_rows_with_its_id_and_only_masters_in_sync(tmp_path: Path) -> None:
    without_master = replace(ROW, name="broker-b", master=NO_MASTER)
    register_id = written(tmp_path / "lost", ROW, without_master)
    pair = replace(stored(tmp_path / "lost")[0], members=(*ROW.members, TWO), in_sync=(1, 2), last_replica_id=2)
    rows = [pair, stored(tmp_path / "lost")[1]]
    assert restore_elections(tmp_path / "new", rows) == register_id
    restored = stored(tmp_path / "new")
    assert [row.version for row in restored] == [1 + RESTORED_VERSIONS] * 2
    assert [(row.register_id, row.in_sync) for row in restored] == [(register_id, (1,))] * 2
    assert restored[0] == replace(pair, version=1 + RESTORED_VERSIONS, in_sync=(1,))


def test_rows_of_several_registers_or_none_make_no_register(tmp_path: Path) -> None:
    one, two = (replace(ROW, name=name, register_id=number) for number, name in ((1, "a"), (2, "b")))
    for rows in ([], [one, two], [one, one], [replace(one, register_id=0)]):
        with pytest.raises(ConfigError, match="a copy has 1 to 1024 sets of one register"):
            restore_elections(tmp_path / "new", rows)
    assert not (tmp_path / "new").exists()


def test_a_register_is_not_made_over_another_one(tmp_path: Path) -> None:
    written(tmp_path, ROW)
    with pytest.raises(ConfigError, match="has a register already: name an empty or a new directory"):
        restore_elections(tmp_path, stored(tmp_path))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(b"not a database, and long enough for a header of SQLite" * 100)


def one_bit_of_a_row(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"set_id") + 7] ^= 1
    path.write_bytes(data)


def changed_by(*statements: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        db = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            db.execute(statement)
        db.close()

    return change


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut_short, "is damaged, or not a register"),
        (garbage, "is damaged, or not a register"),
        (emptied, "is empty: remove it, and restore the register from a copy"),
        (one_bit_of_a_row, "the checksum of set 'broker-a' is wrong"),
        (changed_by("update sets set name = 'broker-b'"), "set 'broker-b' has the row of broker-a"),
        (changed_by("update sets set row = 'text'"), "the checksum of set 'broker-a' is wrong"),
        (changed_by("delete from register"), "its id is missing"),
        (changed_by("update register set register_id = 'x'"), "its id is missing"),
        (changed_by("drop table sets"), "no such table"),
        (changed_by("pragma user_version = 2"), "it has format 2, and this version knows format 1"),
    ],
)
def test_a_damaged_file_is_refused_with_its_path_and_stays_as_it_is(
    tmp_path: Path, damage: Callable[[Path], None], reason: str
) -> None:
    written(tmp_path, ROW)
    path = tmp_path / FILE_NAME
    damage(path)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=reason) as refused, open_elections(tmp_path, Random(1)):
        pass
    assert str(path) in str(refused.value)
    assert path.read_bytes() == before


def test_a_directory_with_other_files_is_not_a_place_for_a_register(tmp_path: Path) -> None:
    (tmp_path / "STORE").write_text("a broker's")
    with (
        pytest.raises(ConfigError, match=r"has no register and is not empty \(it holds 'STORE'\)"),
        open_elections(tmp_path, Random(1)),
    ):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["STORE"]


def test_a_path_that_is_not_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="for elections"), open_elections(tmp_path / "file", Random(1)):
        pass


def running(directory: Path, act: Callable[[Elections, Path], object], match: str) -> None:
    """Open a register, write a row, do something to its file, and expect that the next calls report this."""

    async def main(_: Simulation) -> None:
        with open_elections(directory, Random(1)) as elections:
            row = await elections.write(ROW, 0)
            act(elections, directory / FILE_NAME)
            with pytest.raises(RegisterUnavailable, match=match):
                await elections.write(with_options(row, copies=3), 1)
            with pytest.raises(RegisterUnavailable, match=match):
                await elections.read("broker-a")

    run_simulation(main)


def test_a_file_that_is_removed_or_replaced_under_a_running_register_is_not_written(tmp_path: Path) -> None:
    text = "was removed or replaced while this name server was running"
    running(tmp_path / "removed", lambda _, path: path.unlink(), text)

    def replaced(_: Elections, path: Path) -> None:
        copy = path.read_bytes()
        path.rename(path.with_name("moved"))
        path.write_bytes(copy)

    running(tmp_path / "replaced", replaced, text)


def test_a_disk_that_fails_makes_the_register_unavailable_and_not_wrong(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(elections: Elections, _: Path) -> None:
        elections.close()

    running(tmp_path, failing, "could not be read or written")
    assert "could not be read or written" in caplog.text
    [row] = stored(tmp_path)
    assert row.version == 1


async def fill(elections: Elections) -> int:
    """Write new rows until there is no room; returns the number of rows then."""
    refusal = ""
    for number in range(1000):
        try:
            await elections.write(replace(ROW, name=f"broker-{number}"), 0)
        except RegisterUnavailable as error:
            refusal = str(error)
            break
    assert "full" in refusal
    return len(await elections.rows())


def test_a_full_disk_refuses_a_write_and_the_next_one_goes_on(tmp_path: Path) -> None:
    async def main(_: Simulation) -> None:
        with open_elections(tmp_path, Random(1)) as elections:
            await elections.write(ROW, 0)
            [pages] = elections._db.execute("pragma page_count").fetchone()
            elections._db.execute(f"pragma max_page_count = {pages}")  # SQLite answers as on a full disk
            n_rows = await fill(elections)
            elections._db.execute("pragma max_page_count = 100000")
            await elections.write(replace(ROW, name="last"), 0)
            assert len(await elections.rows()) == n_rows + 1

    run_simulation(main)


def test_a_write_is_synced_before_its_answer(tmp_path: Path) -> None:
    with open_elections(tmp_path, Random(1)) as elections:
        assert elections._db.execute("pragma synchronous").fetchone() == (2,)  # full
        assert elections._db.execute("pragma journal_mode").fetchone() == ("truncate",)


def test_writes_are_counted_by_their_results_and_a_file_that_fails_is_known(tmp_path: Path) -> None:
    async def main(_: Simulation) -> tuple[dict[str, int], list[bool], int]:
        with open_elections(tmp_path, Random(1)) as elections:
            failing = []
            made = await elections.write(ROW, 0)
            with pytest.raises(SetChanged):
                await elections.write(ROW, 0)
            with pytest.raises(IllegalOperation):
                await elections.write(replace(made, set_id=8), made.version)
            failing.append(elections.is_failing)
            (tmp_path / FILE_NAME).rename(tmp_path / "away")
            with pytest.raises(RegisterUnavailable):
                await elections.write(made, made.version)
            failing.append(elections.is_failing)
            (tmp_path / "away").rename(tmp_path / FILE_NAME)
            with pytest.raises(SetChanged):
                await elections.write(ROW, 0)
            failing.append(elections.is_failing)
            return elections.writes, failing, elections.n_sets

    writes, failing, n_sets = run_simulation(main)
    assert writes == {"written": 1, "changed": 2, "refused": 1, "failed": 1}
    assert failing == [False, True, False]
    assert n_sets == 1
