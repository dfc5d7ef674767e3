"""A source that came with --py-files says in the process that plans streams what is missing there."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path, PurePath
from typing import Any

import pyspark
from pyspark import cloudpickle

from pipeline.data_source import RlabDataSource
from pipeline.source.columns import SCHEMA
from pipeline.source.stream import StreamReader
from pipeline.spark.py_files import is_in_py_files, with_package

dumps: Any = cloudpickle.dumps  # it has no types
OPTIONS = {"nameServer": "names:1", "subscribe": "t"}
ELSEWHERE = f"""
import pickle, sys
sys.path.insert(0, {str(Path(pyspark.__file__).parents[1])!r})
source = pickle.load(sys.stdin.buffer)({OPTIONS!r})
for act in (source.schema, lambda: source.streamReader(None).initialOffset()):  # load() asks for the schema
    try:
        act()
    except ImportError as error:
        print(error)
print("pipeline" in sys.modules)
"""


def test_a_stream_without_the_package_names_the_pythonpath() -> None:
    # -S: without the links of this environment to the package.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ELSEWHERE],
        input=dumps(with_package(RlabDataSource)),
        capture_output=True,
        check=True,
    )
    *reported, imported = done.stdout.decode().splitlines()
    assert len(reported) == 2
    assert all("put it on the PYTHONPATH before Spark's JVM starts" in line for line in reported)
    assert imported == "False"


def test_where_the_package_is_it_is_the_same_source() -> None:
    made = pickle.loads(dumps(with_package(RlabDataSource)))
    assert made.name() == RlabDataSource.name()
    assert made(OPTIONS).schema() == SCHEMA
    assert isinstance(made(OPTIONS).streamReader(SCHEMA), StreamReader)
    assert type(made(OPTIONS).reader(SCHEMA)) is type(RlabDataSource(OPTIONS).reader(SCHEMA))


def test_a_package_that_came_with_py_files_is_known_by_where_it_is() -> None:
    zipped, received = PurePath("/tmp/spark-1/userFiles-2/rlab.zip"), "/tmp/spark-1/userFiles-2"
    assert is_in_py_files(zipped, [""], received)
    assert is_in_py_files(PurePath("/jobs/rlab.zip"), ["", "s3://bucket/rlab.zip"], received)
    assert not is_in_py_files(PurePath("/opt/rlab/site-packages"), ["other.zip", ""], received)
    assert not is_in_py_files(PurePath("/opt/rlab"), [""], "")
