"""Each file of a data directory gone, cut, flipped, or older than the others, against the table of docs/storage.md."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from broker.store.disk.directory import METADATA_NAME
from broker.store.disk.options import StoreOptions
from model.errors import ConfigError, RlabError
from model.events import EventKind
from remoting.request_code import RequestCode
from tests.docs.pages import table_of
from tests.unit.broker.harness import Peer, World, a_life, payload_of, records, simulated
from tests.unit.broker.transactions.test_service import ROLLBACK, end, half

STORE = StoreOptions(segment_bytes=16 * 1024, reserve_bytes=64 * 1024)
BODY_BYTES = 1_000
HALF, ALL = 40, 80
"""Messages that are stored before the older copies are made, and in all: over several segments."""
FILES: dict[str, Callable[[Path], Path]] = {
    "STORE": lambda folder: folder / "STORE",
    "LOCK": lambda folder: folder / "LOCK",
    "a full segment": lambda folder: sorted(folder.glob("*.log"))[0],
    "the last segment": lambda folder: sorted(folder.glob("*.log"))[-1],
    "an index": lambda folder: sorted(folder.glob("*.index"))[0],
    "keys": lambda folder: sorted(folder.glob("*.keys"))[0],
    "ENDS": lambda folder: folder / "ENDS",
    "RESERVE": lambda folder: folder / "RESERVE",
    "metadata.sqlite": lambda folder: folder / "metadata.sqlite",
}
SERVED, REPORTED, REFUSED, NOT_REPORTED = "served", "reported", "refused", "not reported"


def body(number: int) -> bytes:
    return (b"%d" % number).ljust(BODY_BYTES, b".")


async def store(world: World, first: int, last: int) -> Peer:
    await world.start_broker(store=STORE)
    await world.sleep(0.5)
    peer = world.peer(f"stores-{first}")
    await peer.put_topic("t", read=1)
    for number in range(first, last):
        await peer.send("t", 0, body(number))
    query: dict[str, object] = {"topic": "t", "key": "k", "max_n": 1}
    while (before := (await peer.call(RequestCode.QUERY_MESSAGE, query)).header["next_before"]) >= 0:
        query["before"] = before
    await world.stop_broker()
    return peer


def do(damage: str, path: Path, older: Path) -> None:
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        middle = len(data) // 2
        if path.suffix == ".sqlite":
            middle += PAGE // 2 - middle % PAGE  # not at the head of a page, which SQLite does check
        path.write_bytes(data[:middle] + bytes(byte ^ 0x55 for byte in data[middle : middle + 8]) + data[middle + 8 :])
    else:
        shutil.copy(older, path)


async def read_all(peer: Peer) -> set[bytes]:
    found: set[bytes] = set()
    offset = 0
    while offset < ALL:
        answer = await peer.pull("t", 0, offset)
        for record in records(answer):
            found.add(record.payload)
        following = answer.header.get("next_offset", offset)
        if following <= offset:
            break
        offset = following
    return found


PAGE = 4096
"""Bytes of a page of SQLite."""


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "older"])
@pytest.mark.parametrize("file", FILES)
@simulated
async def test_a_damaged_file_has_the_effect_that_the_page_has(world: World, file: str, damage: str) -> None:
    await store(world, 0, HALF)
    await store(world, HALF, HALF)  # the search makes keys of segments that were finished before
    older = Path(f"{world.data_dir} older")
    shutil.copytree(world.data_dir, older)
    await store(world, HALF, ALL)
    do(damage, FILES[file](world.data_dir), FILES[file](older))
    outcome = await outcome_of(world)
    (row,) = [row for row in table_of("docs/storage.md", "Damage to each file") if row["file"] == file]
    assert outcome == row[damage].partition(":")[0]


async def outcome_of(world: World) -> str:
    world.events.clear()
    try:
        await world.start_broker(store=STORE)
    except ConfigError as refusal:
        return REFUSED if str(world.data_dir) in str(refusal) else f"{NOT_REPORTED} which file: {refusal}"
    await world.sleep(0.5)
    try:
        found = await read_all(world.peer("reads"))
    except RlabError as error:
        return f"{NOT_REPORTED} {error!r}"
    right = {payload_of(body(number)) for number in range(ALL)}
    assert found <= right, "no wrong byte"
    reported = sum(event.n for event in world.of_kind(EventKind.MESSAGES_DAMAGED))
    lost = len(right) - len(found)
    return f"{NOT_REPORTED} {reported} {lost}" if reported != lost else REPORTED if lost else SERVED


@pytest.mark.parametrize(
    ("file", "damage"), [("metadata.sqlite", "older"), ("an index", "gone"), ("ENDS", "cut"), ("RESERVE", "gone")]
)
@simulated
async def test_a_damaged_file_opens_no_transaction_again_and_loses_none(world: World, file: str, damage: str) -> None:
    await store(world, 0, HALF)
    await world.start_broker(store=STORE)
    await half(world.peer("begins"), "open", "ended", after_ms=3_600_000)
    await world.stop_broker()
    older = Path(f"{world.data_dir} older")
    shutil.copytree(world.data_dir, older)
    await store(world, HALF, ALL)
    await world.start_broker(store=STORE)
    assert await end(world.peer("ends"), (1, "ended", ROLLBACK)) == [0]
    await world.stop_broker()
    do(damage, FILES[file](world.data_dir), FILES[file](older))
    await world.start_broker(store=STORE)
    assert [offset for offset, _ in world.broker.transactions.table] == [0]


@simulated
async def test_a_flipped_byte_of_the_metadata_is_served_or_refused_with_the_name_of_the_file(world: World) -> None:
    await a_life(world)
    await world.stop_broker()
    path, whole = world.data_dir / METADATA_NAME, (world.data_dir / METADATA_NAME).read_bytes()
    texts = [
        at for word in (b"CLUSTERING", b"topic text", b"AVG") for at in range(whole.find(word), whole.find(word) + 3)
    ]
    others = Random(1).sample([at for at, byte in enumerate(whole) if byte], 30)
    refused = []
    for at in [*texts, *others]:
        flipped = bytearray(whole)
        flipped[at] ^= 0x80
        path.write_bytes(flipped)
        try:
            await world.start_broker()
        except ConfigError as error:
            refused.append(str(error))
        await world.stop_broker()
    assert len(refused) > 15
    assert all(str(path) in text for text in refused)
    assert any("table 'members' cannot be loaded" in text and "--recover-topics" in text for text in refused)
