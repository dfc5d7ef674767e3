from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from model.errors import ConfigError
from pipeline.data_source import RlabDataSource
from pipeline.source.columns import SCHEMA
from pipeline.source.reader import BatchReader, PushingReader
from pipeline.source.stream import StreamReader

OPTIONS = {"nameServer": "names:1", "subscribe": "t"}


def reader(**more: str) -> DataSourceReader:
    return RlabDataSource({**OPTIONS, **more}).reader(schema=SCHEMA)


def test_the_processes_of_a_read_do_not_wait_for_what_writes() -> None:
    code = "import pipeline.data_source, sys; print([name for name in sys.modules if name.startswith('pipeline.sink')])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


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
    with pytest.raises(ConfigError, match="no column value string"):
        RlabDataSource(OPTIONS).reader(schema=StructType().add("value", "string"))


def test_what_spark_sends_around_can_be_pickled() -> None:
    for one in (reader(), reader(filterPushdown="true"), RlabDataSource(OPTIONS), InputPartition(None)):
        assert type(pickle.loads(pickle.dumps(one))) is type(one)
