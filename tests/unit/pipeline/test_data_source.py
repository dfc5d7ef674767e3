from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from model.errors import ConfigError
from pipeline.data_source import RlabDataSource
from pipeline.sink.options import SINK_OPTIONS
from pipeline.source.columns import SCHEMA
from pipeline.source.options import OPTIONS as OPTIONS_OF_SOURCE
from pipeline.source.options import SELECTIONS
from pipeline.source.reader import BatchReader, PushingReader
from pipeline.source.stream import StreamReader
from tests.spark.wrong_options import OPTIONS, WRONG_READS, WRONG_WRITES


def reader(**more: str) -> DataSourceReader:
    return RlabDataSource({**OPTIONS, **more}).reader(schema=SCHEMA)


OF_OTHERS = ("aiohttp", "anyio", "matplotlib", "prometheus_client", "rich", "typer", "uvloop")
"""What this distribution needs, but no process of Spark does: that has msgpack, numpy, pandas, pyarrow and pyspark."""
IMPORTED = """
import sys
import pipeline.data_source
print([name for name in sys.modules if name.startswith("pipeline.sink")])
import pipeline.sink.writer
print([name for name in OF_OTHERS if name in sys.modules])
"""


def test_the_processes_of_a_read_do_not_wait_for_what_writes_and_executors_need_no_more_than_they_are_said_to() -> None:
    code = f"OF_OTHERS = {OF_OTHERS}\n{IMPORTED}"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n[]\n"


def test_the_format_is_rlab_and_has_all_columns() -> None:
    assert RlabDataSource.name() == "rlab"
    assert RlabDataSource(OPTIONS).schema() == SCHEMA


def test_only_a_reader_that_was_asked_to_take_filters_has_that_method() -> None:
    # In pyspark 4.3 every read of a reader that has it fails where the session's setting for it is off.
    assert type(reader()) is BatchReader
    assert BatchReader.pushFilters is DataSourceReader.pushFilters
    assert type(reader(filterPushdown="true")) is PushingReader


def test_readers_are_made_by_keyword_and_check_options_and_columns() -> None:
    assert isinstance(RlabDataSource(OPTIONS).streamReader(schema=SCHEMA), StreamReader)
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger is for a stream"):
        reader(maxOffsetsPerTrigger="1")
    other = StructType().add("value", "string")
    for make in (
        lambda: RlabDataSource(OPTIONS).reader(schema=other),
        lambda: RlabDataSource(OPTIONS).streamReader(schema=other).initialOffset(),
    ):
        with pytest.raises(ConfigError, match="no column value string"):
            make()


def last_line(act: Callable[[], object]) -> str:
    """What a user sees last: Spark shows the traceback of its Python process."""
    try:
        act()
    except ConfigError as error:
        return traceback.format_exception(error)[-1].strip()
    return "nothing was refused"


@pytest.mark.parametrize("name", OPTIONS_OF_SOURCE)
def test_a_wrong_option_of_any_read_is_named_in_the_last_line_and_most_already_by_load(name: str) -> None:
    given = {**(OPTIONS if name not in SELECTIONS else {"nameServer": "names:1"}), name: WRONG_READS[name]}
    source = RlabDataSource(given)
    batch = last_line(lambda: source.reader(schema=SCHEMA))
    stream = last_line(lambda: source.streamReader(schema=SCHEMA).initialOffset())
    for line in (batch, stream, last_line(source.schema)):
        assert line.startswith(f"{ConfigError.__module__}.ConfigError: option {name}")


@pytest.mark.parametrize("name", SINK_OPTIONS)
def test_a_wrong_option_of_any_write_is_named_in_the_last_line(name: str) -> None:
    source = RlabDataSource({"nameServer": "names:1", "topic": "t", name: WRONG_WRITES[name]})
    schema = StructType().add("body", "string")
    for make in (source.writer, source.streamWriter):
        line = last_line(partial(make, schema=schema, overwrite=False))
        assert line.startswith(f"{ConfigError.__module__}.ConfigError: option {name}")


def test_an_option_of_the_other_kind_of_read_is_refused_when_the_stream_is_asked_for_anything() -> None:
    reader: Any = RlabDataSource({**OPTIONS, "endingOffsets": "latest"}).streamReader(schema=SCHEMA)
    asked = [
        reader.initialOffset,
        reader.prepareForTriggerAvailableNow,
        reader.getDefaultReadLimit,
        lambda: reader.latestOffset({}, None),
        lambda: reader.partitions({}, {}),
        lambda: reader.read(InputPartition(None)),
    ]
    for ask in asked:
        assert last_line(ask).endswith("option endingOffsets is for a batch read: leave it out here")
    reader.stop()
    assert RlabDataSource({**OPTIONS, "endingOffsets": "latest"}).schema() == SCHEMA


def test_a_table_in_sql_has_its_columns_before_any_option_is_known() -> None:
    assert RlabDataSource({}).schema() == SCHEMA


def test_what_spark_sends_around_can_be_pickled() -> None:
    for one in (reader(), reader(filterPushdown="true"), RlabDataSource(OPTIONS), InputPartition(None)):
        assert type(pickle.loads(pickle.dumps(one))) is type(one)
