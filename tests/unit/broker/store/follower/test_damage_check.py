"""The check of every segment finds each flipped byte, and reports where it is."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.store.disk.files import Files
from broker.store.follower.damage_check import SegmentCheck, check_segments
from broker.store.segments.segment import segment_name
from tests.unit.broker.store.follower.follower_helpers import copy_of, log_of, open_master
from tests.unit.broker.store.store_helpers import fill


def test_a_whole_log_is_whole_while_it_is_written_and_afterwards(tmp_path: Path) -> None:
    with open_master(tmp_path) as store:
        fill(store, 30)
        expected = [
            SegmentCheck(base_position=base, end_position=base + len(data), damaged_at=None)
            for base, data in log_of(tmp_path).items()
        ]
        assert list(check_segments(tmp_path)) == expected
        with (tmp_path / segment_name(store.newest_base_position)).open("ab") as file:
            file.write(b"\0\0\0\x50half a record")
        assert [each.damaged_at for each in check_segments(tmp_path)] == [None] * len(expected)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_flipped_byte_is_found_in_its_segment(tmp_path: Path, data: st.DataObject) -> None:
    source = tmp_path / "source"
    if not source.exists():
        with open_master(source) as store:
            fill(store, 30)
    here = copy_of(source, "here")
    log = log_of(here)
    base = data.draw(st.sampled_from(sorted(log)[:-1]))
    at = data.draw(st.integers(0, len(log[base]) - 1))
    content = bytearray(log[base])
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    (here / segment_name(base)).write_bytes(content)
    found = {each.base_position: each.damaged_at for each in check_segments(here)}
    where = found.pop(base)
    assert where is not None
    assert base + at - 100 < where <= base + at
    assert set(found.values()) == {None}


def test_a_segment_that_is_cut_short_is_damaged_at_its_end(tmp_path: Path) -> None:
    with open_master(tmp_path) as store:
        fill(store, 30)
    base = sorted(log_of(tmp_path))[1]
    path = tmp_path / segment_name(base)
    path.write_bytes(path.read_bytes()[:-5])
    found = {each.base_position: each for each in check_segments(tmp_path)}[base]
    assert found.damaged_at is not None
    assert found.damaged_at < found.end_position


def test_a_segment_that_is_deleted_in_between_is_left_out(tmp_path: Path) -> None:
    with open_master(tmp_path) as store:
        fill(store, 30)
    bases = sorted(log_of(tmp_path))
    checks = check_segments(tmp_path, Files())
    assert next(checks).base_position == bases[0]
    (tmp_path / segment_name(bases[1])).unlink()
    assert [each.base_position for each in checks] == bases[2:]
