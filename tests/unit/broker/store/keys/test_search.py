"""Searching the log for a term: which segments are read, what is kept, and what may go wrong meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.store.disk.options import StoreOptions
from broker.store.keys import file as key_file
from broker.store.keys.search import KeySearcher, Progress, segment_views
from broker.store.message_store import MessageStore
from model.record import iter_records
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import NOW_MS, open_store

NO_LIMIT = 2**60
SEGMENT_RECORDS = 5


def words(topic_id: int, queue_id: int, payload: bytes) -> set[bytes]:
    return set(payload.split())


class Shelf:
    """A store whose payloads are words, and a searcher over it."""

    def __init__(self, directory: Path, count: int = 0) -> None:
        self.directory = directory
        self.files = FaultyFiles()
        self.open()
        for number in range(count):
            self.add(b"all n%d" % number)
        self.store.sync()
        self.files.calls.clear()

    def open(self) -> None:
        self.store: MessageStore = open_store(self.directory, self.files, segment_records=SEGMENT_RECORDS)
        self.searcher = KeySearcher(self.files)

    def add(self, payload: bytes) -> None:
        self.store.append(1, 0, payload, 0)
        self.store.flush()

    def steps(
        self, term: bytes, before: int = NO_LIMIT, begin_ms: int = 0, end_ms: int = NO_LIMIT
    ) -> Iterator[Progress]:
        views = segment_views(self.store.log, begin_ms=begin_ms, end_ms=end_ms, end_position=before)
        return self.searcher.search(views, term, words, before)

    def find(self, term: bytes, **limits: int) -> list[bytes]:
        found = [step.found for step in self.steps(term, **limits) if step.found is not None]
        assert [each.position for each in found] == sorted((each.position for each in found), reverse=True)
        return [record.payload for each in found for record in iter_records(each.record, check_crc=True)]

    def names(self, suffix: str) -> list[str]:
        return sorted(path.stem for path in self.directory.glob(f"*{suffix}"))


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path, 23)
    yield shelf
    shelf.store.close()


def test_a_record_is_found_in_whichever_segment_it_is_and_others_are_not(shelf: Shelf) -> None:
    for number in range(23):
        assert shelf.find(b"n%d" % number) == [b"all n%d" % number]
    assert shelf.find(b"n23") == []


def test_what_many_records_have_comes_newest_first(shelf: Shelf) -> None:
    assert shelf.find(b"all") == [b"all n%d" % number for number in range(22, -1, -1)]


def test_the_first_search_leaves_a_table_beside_each_finished_segment_and_the_next_reads_only_that(
    shelf: Shelf,
) -> None:
    shelf.find(b"n3")
    assert shelf.names(".keys") == shelf.names(".index") == shelf.names(".log")[:-1]
    shelf.files.calls.clear()
    assert shelf.find(b"n3") == [b"all n3"]
    finished = len(shelf.names(".keys"))
    # Header with directory and one bucket for each, one read of the segment that is written, one of the record.
    assert shelf.files.calls["pread"] <= 2 * finished + 2


def test_of_the_segment_that_is_written_only_what_is_new_is_read(shelf: Shelf) -> None:
    before = shelf.store.log.active.size
    shelf.find(b"nothing")
    shelf.add(b"new one")
    read: list[tuple[int, int]] = []
    pread = shelf.files.pread

    def counting(fd: int, length: int, position: int) -> bytes:
        read.append((length, position))
        return pread(fd, length, position)

    shelf.files.pread = counting  # type: ignore[method-assign]
    views = segment_views(shelf.store.log, begin_ms=0, end_ms=NO_LIMIT, end_position=NO_LIMIT)[:1]
    assert next(shelf.searcher.search(views, b"new", words, NO_LIMIT)).found is not None
    assert all(position >= before for _, position in read)


def test_a_segment_that_a_loss_of_power_could_change_gets_no_table(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for number in range(12):
        shelf.add(b"n%d" % number)
    assert shelf.find(b"n1") == [b"n1"]
    assert shelf.names(".keys") == []
    shelf.store.sync()
    assert shelf.find(b"n1") == [b"n1"]
    assert len(shelf.names(".keys")) == 2
    shelf.store.close()


def test_the_table_goes_with_its_segment_and_one_without_a_segment_is_swept_at_the_next_start(shelf: Shelf) -> None:
    shelf.find(b"n3")
    oldest, second = shelf.names(".log")[:2]
    shelf.store.trim(int(second))
    assert oldest not in shelf.names(".keys")
    (shelf.directory / f"{oldest}.keys").write_bytes(b"left behind")
    (shelf.directory / f"{second}.keys.tmp").write_bytes(b"cut short")
    shelf.store.close()
    shelf.open()
    assert oldest not in shelf.names(".keys")
    assert second in shelf.names(".keys")
    assert shelf.names(".tmp") == []
    assert shelf.find(b"n3") == []


@pytest.mark.parametrize("damage", ["missing", "empty", "flipped", "unreadable"])
def test_a_table_that_cannot_be_used_is_built_again(shelf: Shelf, damage: str) -> None:
    shelf.find(b"n3")
    path = sorted(shelf.directory.glob("*.keys"))[0]
    good = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "unreadable":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(b"" if damage == "empty" else good[:20] + bytes([good[20] ^ 1]) + good[21:])
    assert shelf.find(b"n3") == [b"all n3"]
    if damage != "unreadable":
        assert path.read_bytes() == good


def test_a_search_goes_on_past_a_segment_that_is_removed_while_it_runs(shelf: Shelf) -> None:
    steps = shelf.steps(b"all")
    next(steps)
    shelf.store.trim(int(shelf.names(".log")[2]))
    found = [step.found for step in steps if step.found is not None]
    assert len(found) == 22 - 2 * SEGMENT_RECORDS


def test_a_table_is_not_left_behind_by_a_segment_that_was_removed_while_it_was_built(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, second = shelf.names(".log")[:2]
    replace = shelf.files.replace

    def removed_in_between(path: Path, data: bytes, *, durable: bool) -> None:
        if path.stem == oldest:
            shelf.store.trim(int(second))
        replace(path, data, durable=durable)

    monkeypatch.setattr(shelf.files, "replace", removed_in_between)
    assert shelf.find(b"n3") == [b"all n3"]
    assert oldest not in shelf.names(".keys")
    assert second in shelf.names(".keys")


@pytest.mark.parametrize("operation", ["pwrite", "rename"])
def test_a_disk_without_room_for_a_table_does_not_fail_the_search(shelf: Shelf, operation: str) -> None:
    shelf.files.failing[operation] = errno.ENOSPC
    assert shelf.find(b"n3") == [b"all n3"]
    assert shelf.names(".keys") == shelf.names(".tmp") == []
    shelf.files.failing.clear()


def test_a_disk_that_cannot_read_a_segment_fails_the_search(shelf: Shelf) -> None:
    shelf.files.failing["pread"] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        shelf.find(b"n3")
    shelf.files.failing.clear()


def test_damage_in_a_segment_hides_one_record_and_no_other(shelf: Shelf) -> None:
    path = sorted(shelf.directory.glob("*.log"))[1]
    data = bytearray(path.read_bytes())
    data[data.index(b"all n7")] ^= 1
    path.write_bytes(data)
    assert shelf.find(b"n7") == []
    assert shelf.find(b"n8") == [b"all n8"]
    # Also when it comes after the table was made.
    data[data.index(b"all n8")] ^= 1
    path.write_bytes(data)
    assert shelf.find(b"n8") == []
    assert shelf.find(b"n9") == [b"all n9"]


def test_a_search_can_go_on_where_an_earlier_one_stopped(shelf: Shelf) -> None:
    found: list[bytes] = []
    before = NO_LIMIT
    while True:
        step = next((step for step in shelf.steps(b"all", before) if step.found is not None), None)
        if step is None or step.found is None:
            break
        assert step.position == step.found.position < before
        found += [record.payload for record in iter_records(step.found.record)]
        before = step.position
    assert found == [b"all n%d" % number for number in range(22, -1, -1)]


def test_an_unfinished_search_keeps_what_it_has_read_of_a_segment(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.store.keys.search._STEP_RECORDS", 2)
    counted = []

    def counting(topic_id: int, queue_id: int, payload: bytes) -> set[bytes]:
        counted.append(payload)
        return words(topic_id, queue_id, payload)

    oldest = segment_views(shelf.store.log, begin_ms=0, end_ms=NO_LIMIT, end_position=NO_LIMIT)[-1:]
    steps = shelf.searcher.search(oldest, b"nothing", counting, NO_LIMIT)
    next(steps), next(steps)
    steps.close()
    assert list(shelf.searcher.search(oldest, b"nothing", counting, NO_LIMIT))[-1] == Progress(None, 0)
    assert counted == [b"all n%d" % number for number in range(SEGMENT_RECORDS)]


def test_a_segment_with_too_many_terms_for_a_table_is_read_at_every_search(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_file, "MAX_ENTRIES", 4)
    for _ in range(2):
        assert shelf.find(b"n3") == [b"all n3"]
        assert shelf.find(b"all") == [b"all n%d" % number for number in range(22, -1, -1)]
    assert shelf.names(".keys") == []


def test_only_segments_of_the_time_are_looked_at(shelf: Shelf) -> None:
    log = shelf.store.log
    for begin in range(0, 40, 3):
        for end in range(begin, 40, 7):
            views = segment_views(log, begin_ms=NOW_MS + begin, end_ms=NOW_MS + end, end_position=NO_LIMIT)
            found = shelf.find(b"all", begin_ms=NOW_MS + begin, end_ms=NOW_MS + end)
            inside = [
                b"all n%d" % record.queue_offset
                for record in iter_records(shelf.store.read(1, 0, 0, max_n=99, max_bytes=NO_LIMIT).body)
                if begin <= record.stored_ms - NOW_MS <= end
            ]
            assert set(inside) <= set(found)
            assert len(views) <= (len(inside) // SEGMENT_RECORDS) + 3


def test_a_record_longer_than_the_first_read_is_found(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.add(b"long " + b"x" * 9_000)
    assert shelf.find(b"long") == [b"long " + b"x" * 9_000]
    shelf.store.close()


def test_hashes_that_collide_are_distinguished_by_looking(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.add(b"plumless")
    shelf.add(b"buckeroo")
    shelf.add(b"plumless buckeroo")
    assert shelf.find(b"plumless") == [b"plumless buckeroo", b"plumless"]
    shelf.store.close()


def test_the_options_of_a_store_bound_what_a_table_may_weigh() -> None:
    assert StoreOptions().segment_records < key_file.MAX_ENTRIES
