"""Arrays that are laid out by hand are those that Arrow itself would make."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.arrow_arrays import as_numpy, binaries, column, numbers, repeat_text, table, texts


def assert_is(made: pa.Array, expected: pa.Array) -> None:
    made.validate(full=True)
    assert made.equals(expected)
    assert (made.type, made.null_count) == (expected.type, expected.null_count)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_are_those_of_numpy(values: list[int]) -> None:
    assert_is(numbers(np.array(values, np.int64), pa.int64()), pa.array(values, pa.int64()))
    assert_is(
        numbers(np.array(values, np.int64), pa.timestamp("ms", tz="UTC")),
        pa.array(values, pa.timestamp("ms", tz="UTC")),
    )


OF_KIND = {
    pa.string(): st.text(max_size=5),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
}


@pytest.mark.parametrize("kind", OF_KIND, ids=str)
@given(data=st.data())
def test_a_column_of_any_kind_keeps_its_values_and_what_is_not_there(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | OF_KIND[kind]))
    assert_is(column(values, kind), pa.array(values, kind))


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.bool_()], ids=str)
@given(data=st.data())
def test_the_values_of_a_part_of_a_column_are_those_of_arrow(kind: pa.DataType, data: st.DataObject) -> None:
    array = pa.array(data.draw(st.lists(OF_KIND[kind])), kind)
    part = array.slice(data.draw(st.integers(0, len(array))))
    for column_of in (part, pa.chunked_array([part, array], kind)):
        assert as_numpy(column_of).tolist() == column_of.to_pylist()


def test_a_table_without_rows_has_its_columns() -> None:
    schema = pa.schema([("name", pa.string()), ("n", pa.int64())])
    assert table([], schema).equals(pa.table({"name": [], "n": []}, schema=schema))
    assert table([("a", 1), (None, 2)], schema).to_pylist() == [{"name": "a", "n": 1}, {"name": None, "n": 2}]


@given(st.lists(st.binary(max_size=20)))
def test_bytes_stay_as_they_are(values: list[bytes]) -> None:
    assert_is(binaries(values), pa.array(values, pa.binary()))


@given(st.lists(st.text(max_size=20)))
def test_texts_of_any_characters_stay_as_they_are(values: list[str]) -> None:
    assert_is(texts(values), pa.array(values, pa.string()))


@given(st.lists(st.none() | st.text(max_size=5)))
def test_texts_that_are_not_there_are_null(values: list[str | None]) -> None:
    made = texts([value or "" for value in values], [value is not None for value in values])
    assert_is(made, pa.array(values, pa.string()))


@given(st.text(max_size=10), st.integers(0, 20))
def test_one_text_is_repeated(text: str, times: int) -> None:
    assert_is(repeat_text(text, times), pa.array([text] * times, pa.string()))


@pytest.mark.parametrize("value", [b"bytes", None, 1, 1.5, "half a character \ud800"])
def test_what_is_not_a_text_is_refused(value: object) -> None:
    with pytest.raises((TypeError, UnicodeEncodeError)):
        texts(["text", value])  # type: ignore[list-item]  # what a foreign producer may have sent


@pytest.mark.parametrize("value", ["text", None, 1])
def test_what_is_not_a_bytes_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        binaries([b"bytes", value])  # type: ignore[list-item]  # what a foreign producer may have sent
