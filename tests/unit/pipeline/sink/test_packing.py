"""Whole columns are packed as msgpack packs their values one by one."""

from __future__ import annotations

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from pipeline.sink.packing import binary_heads, concat_columns, constant, hex_numbers, lengths_of, of_width, text_heads

LENGTHS = np.array([0, 1, 31, 32, 255, 256, 65_535, 65_536])


@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[:0], LENGTHS[:3]])
def test_heads_are_those_of_msgpack(lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    def heads(value: str | bytes) -> list[bytes]:
        packed = [msgpack.packb(value * n) for n in lengths.tolist()]
        return [each[: len(each) - n] for each, n in zip(packed, lengths.tolist(), strict=True)]

    assert text_heads(lengths).to_pylist() == heads("x")
    assert binary_heads(lengths).to_pylist() == heads(b"x")


def test_columns_and_constants_are_joined_row_by_row_also_of_a_part_of_a_column() -> None:
    column = pa.array([b"a", b"bc", b"", b"d"], pa.binary())[1:]
    assert lengths_of(column).tolist() == [2, 0, 1]
    wide = of_width(np.array([[1, 2], [3, 4], [5, 6]], np.uint8))
    assert concat_columns(constant(b"<"), column, wide).to_pylist() == [b"<bc\x01\x02", b"<\x03\x04", b"<d\x05\x06"]


def test_numbers_have_as_many_digits_as_are_wanted() -> None:
    assert hex_numbers(14, 3, 4).to_pylist() == [b"000e", b"000f", b"0010"]
    assert hex_numbers(2**32 - 1, 1, 8).to_pylist() == [b"ffffffff"]
    assert hex_numbers(1, 0, 8).to_pylist() == []
