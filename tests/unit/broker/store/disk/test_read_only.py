from __future__ import annotations

from pathlib import Path

from broker.store.disk.read_only import ReadOnlyFiles
from tests.unit.broker.store.store_helpers import fill, offsets, open_store


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_store_that_is_opened_and_read_on_them_is_not_changed_in_any_byte(tmp_path: Path) -> None:
    data, scratch = tmp_path / "data", tmp_path / "scratch"
    scratch.mkdir()
    with open_store(data, segment_bytes=400) as store:
        fill(store, 40)
    segments = sorted(data.glob("*.log"))
    segments[2].unlink()
    segments[1].write_bytes(segments[1].read_bytes()[:-5])
    segments[-1].with_suffix(".index").unlink(missing_ok=True)
    (data / "ENDS.tmp").write_bytes(b"left over")
    before = content(data)
    with open_store(data, ReadOnlyFiles(scratch), segment_bytes=400) as store:
        whole = offsets(store)
        assert len(whole) + sum(damage.n for damage in store.damage.report()) == 40
        fill(store, 2)
        assert offsets(store) == [*whole, 40, 41]
    assert content(data) == before
    with open_store(data, segment_bytes=400) as store:
        assert offsets(store) == whole
