from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.store import ends
from broker.store.ends import FILE_NAME, EndsFile, KnownEnds, decode_ends
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import fill, offsets, open_store

A, B, C = (1, 0), (1, 1), (2, 7)


def written(directory: Path, files: FaultyFiles | None = None) -> EndsFile:
    file = EndsFile(directory, files or FaultyFiles())
    file.rewrite(100, {A: 3, B: 0}, 500, {A: 9, B: 2})
    return file


def test_what_was_noted_is_read_again(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert EndsFile(tmp_path, FaultyFiles()).load() == KnownEnds(
        min_position=100, position=500, firsts={A: 3, B: 0}, ends={A: 9, B: 2}
    )
    file.append_ends(600, [(*A, 12), (*C, 1)])
    file.append_dropped(640, [B])
    file.append_first(300, {A: 5})
    file.close()
    file.close()
    assert EndsFile(tmp_path, FaultyFiles()).load() == KnownEnds(
        min_position=300, position=640, firsts={A: 5}, ends={A: 12, C: 1}
    )


def test_a_store_that_never_had_the_file_has_none(tmp_path: Path) -> None:
    assert EndsFile(tmp_path, FaultyFiles()).load() is None


def test_every_part_of_the_file_says_what_is_whole_of_it_and_never_too_much(tmp_path: Path) -> None:
    file = written(tmp_path)
    for end in range(10, 20):
        file.append_ends(500 + end, [(*A, end)])
    content = (tmp_path / FILE_NAME).read_bytes()
    for size in range(len(content)):
        known = decode_ends(content[:size])
        assert known.ends.get(A, 0) <= 19
        assert bool(known.flaw) or decode_ends(content[:size] + content[size:]).ends[A] == 19
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 16
    known = decode_ends(bytes(flipped))
    assert 9 <= known.ends[A] < 19
    assert "damaged from byte" in known.flaw
    assert decode_ends(b"another file").flaw == "is not a file of ends"


def test_it_is_written_again_when_it_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "GROWN_BYTES", 500)
    with open_store(tmp_path) as store:
        sizes = []
        for _ in range(100):
            fill(store, 1)
            sizes.append((tmp_path / FILE_NAME).stat().st_size)
        assert 500 < max(sizes) < 800
        assert EndsFile(tmp_path, FaultyFiles()).load() is not None


def test_ends_that_could_not_be_written_are_written_with_the_next_ones_and_no_send_is_refused(tmp_path: Path) -> None:
    files = FaultyFiles()
    file = written(tmp_path, files)
    files.failing["pwrite"] = errno.ENOSPC
    file.append_ends(600, [(*A, 12)])
    assert file.is_stale
    file.rewrite(100, {}, 600, {A: 12})
    file.append_first(300, {})
    assert file.is_stale
    del files.failing["pwrite"]
    file.rewrite(100, {}, 700, {A: 13})
    known = EndsFile(tmp_path, files).load()
    assert known is not None
    assert (known.position, known.ends, file.is_stale) == (700, {A: 13}, False)


def test_with_sync_an_end_is_written_down_when_it_is_durable_and_not_before(tmp_path: Path) -> None:
    def known_end() -> int:
        known = EndsFile(tmp_path, FaultyFiles()).load()
        assert known is not None
        return known.ends.get(A, 0)

    with open_store(tmp_path) as store:
        store.show_only_synced()
        fill(store, 3)
        assert (known_end(), offsets(store)) == (0, [])
        store.sync()
        assert (known_end(), offsets(store)) == (3, [0, 1, 2])
