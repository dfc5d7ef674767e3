"""Any damage to the files of a store is found, reported by offset, and costs no message but those that it hit."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.store.disk.options import StoreOptions
from broker.store.ends import FILE_NAME
from broker.store.message_store import MessageStore
from model.record import CONTROL_FLAG, HEADER, StoredRecord
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import read_all

Key = tuple[int, int]
Intact = tuple[Path, dict[Key, dict[int, StoredRecord]]]

SMALL = StoreOptions(segment_bytes=700, tail_bytes=0)
QUEUES: list[Key] = [(1, 0), (1, 1), (2, 0)]


def build_store(directory: Path) -> dict[Key, dict[int, StoredRecord]]:
    """Make a store of several segments, and return what is in it."""
    stored: dict[Key, dict[int, StoredRecord]] = {key: {} for key in QUEUES}
    now_ms = 1_700_000_000_000
    with MessageStore.open(directory, SMALL, lambda: now_ms, FaultyFiles()) as store:
        for number in range(40):
            now_ms += 1
            key = QUEUES[number % 7 % 3]
            payload = bytes([number]) * (number % 23)
            offset = store.append(*key, payload, number)
            store.flush()
            stored[key][offset] = StoredRecord(offset, now_ms, number, 0, 0, payload)
    return stored


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Intact:
    directory = tmp_path_factory.mktemp("intact") / "store"
    return directory, build_store(directory)


@contextmanager
def copied(intact: Intact) -> Iterator[Intact]:
    """A store to damage, and what is in it."""
    source, stored = intact
    with tempfile.TemporaryDirectory() as root:
        directory = Path(root) / "store"
        shutil.copytree(source, directory)
        yield directory, stored


def open_and_read(directory: Path, stored: dict[Key, dict[int, StoredRecord]]) -> set[tuple[Key, int]]:
    """Open a damaged store and read all of it: what is served is right, what is not is reported. Return what is not."""
    lost = set()
    with MessageStore.open(directory, SMALL, lambda: 1_800_000_000_000, FaultyFiles()) as store:
        for key, expected in stored.items():
            found = read_all(store, key, 3)
            assert found.items() <= expected.items()
            lost |= {(key, offset) for offset in expected.keys() - found.keys()}
        reported = {
            ((damage.topic_id, damage.queue_id), offset)
            for damage in store.damage.report()
            for offset in range(damage.first_offset, damage.end_offset)
        }
        assert lost == reported
        for key, expected in stored.items():
            assert store.min_offset(*key) == 0
            assert store.max_offset(*key) == len(expected), "its offsets are never those of other messages"
    return lost


def record_at(segment: Path, byte: int) -> tuple[Key, int] | None:
    """Return the message whose record has a byte of a segment file; None for the store's own records."""
    data = segment.read_bytes()
    start = 0
    while True:
        length, _, topic_id, queue_id, queue_offset, _, _, flags, _ = HEADER.unpack_from(data, start)
        if byte < start + length:
            return None if flags & CONTROL_FLAG else ((topic_id, queue_id), queue_offset)
        start += length


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), indexes=st.sampled_from(["all", "not the last", "none"]))
def test_any_flipped_bit_costs_one_message_and_is_reported(intact: Intact, data: st.DataObject, indexes: str) -> None:
    with copied(intact) as (directory, stored):
        keep = sorted(directory.glob("*.index"))
        for path in {"all": [], "not the last": keep[-1:], "none": keep}[indexes]:
            path.unlink()
        segment = data.draw(st.sampled_from(sorted(directory.glob("*.log"))))
        content = bytearray(segment.read_bytes())
        bit = data.draw(st.integers(0, len(content) * 8 - 1))
        hit = record_at(segment, bit // 8)
        content[bit // 8] ^= 1 << bit % 8
        segment.write_bytes(content)
        assert open_and_read(directory, stored) == ({hit} if hit else set())
        # The first opening wrote indexes of what it found; the second one trusts them.
        assert open_and_read(directory, stored) == ({hit} if hit else set())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_bit_in_an_index_file_costs_nothing(intact: Intact, data: st.DataObject) -> None:
    with copied(intact) as (directory, stored):
        index = data.draw(st.sampled_from(sorted(directory.glob("*.index"))))
        content = bytearray(index.read_bytes())
        bit = data.draw(st.integers(0, len(content) * 8 - 1))
        content[bit // 8] ^= 1 << bit % 8
        index.write_bytes(content)
        assert open_and_read(directory, stored) == set()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), has_index=st.booleans(), remove=st.booleans())
def test_a_segment_that_is_cut_short_or_gone_costs_what_was_in_it(
    intact: Intact, data: st.DataObject, has_index: bool, remove: bool
) -> None:
    with copied(intact) as (directory, stored):
        segments = sorted(directory.glob("*.log"))
        segment = data.draw(st.sampled_from(segments))
        size = segment.stat().st_size
        cut = 0 if remove else data.draw(st.integers(0, size))
        lost = {hit for byte in range(cut, size) if (hit := record_at(segment, byte))}
        if not has_index:
            segment.with_suffix(".index").unlink(missing_ok=True)  # without a message it has none
        if remove:
            segment.unlink()
        else:
            with segment.open("r+b") as file:
                file.truncate(cut)
        assert open_and_read(directory, stored) == lost
        assert open_and_read(directory, stored) == lost


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_run_of_segments_that_is_gone_is_reported_and_one_that_is_put_back_is_served_again(
    intact: Intact, data: st.DataObject
) -> None:
    with copied(intact) as (directory, stored):
        segments = sorted(directory.glob("*.log"))
        first = data.draw(st.integers(0, len(segments) - 1))
        gone = segments[first : data.draw(st.integers(first + 1, len(segments)))]
        lost = {hit for path in gone for byte in range(path.stat().st_size) if (hit := record_at(path, byte))}
        for path in gone:
            path.unlink()
        assert open_and_read(directory, stored) == lost
        assert open_and_read(directory, stored) == lost
        for path in gone:
            shutil.copy(intact[0] / path.name, path)
        assert open_and_read(directory, stored) == set()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), remove=st.booleans())
def test_a_damaged_file_of_ends_costs_nothing_and_claims_no_loss(
    intact: Intact, data: st.DataObject, remove: bool
) -> None:
    with copied(intact) as (directory, stored):
        path = directory / FILE_NAME
        content = bytearray(path.read_bytes())
        if remove:
            path.unlink()
        elif data.draw(st.booleans()):
            path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        else:
            bit = data.draw(st.integers(0, len(content) * 8 - 1))
            content[bit // 8] ^= 1 << bit % 8
            path.write_bytes(content)
        assert open_and_read(directory, stored) == set()
        assert open_and_read(directory, stored) == set()
