from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
import pytest

from pipeline.spark.home import spark_home_for_archive, spark_home_without_zip


def test_the_home_has_what_starts_spark_and_no_python_and_is_set_within_the_block_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with spark_home_without_zip(tmp_path):
        home = Path(os.environ["SPARK_HOME"])
        assert home.parent == tmp_path
        assert (home / "bin" / "spark-submit").exists()
        assert list((home / "jars").glob("spark-core_*.jar"))
        assert not (home / "python").exists()
    assert "SPARK_HOME" not in os.environ


def test_in_a_home_for_an_archive_slf4j_is_found_by_its_name_and_all_others_by_their_ending(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    installed = set((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    with spark_home_for_archive(tmp_path / "made"):
        assert os.environ["SPARK_HOME"] == str(tmp_path / "made")
    assert "SPARK_HOME" not in os.environ
    with spark_home_without_zip(tmp_path, tmp_path / "made" / "jars"):
        jars = Path(os.environ["SPARK_HOME"], "jars")
        named, ending = set(jars.glob("slf4j-api-*")), set(jars.glob("*.jar"))
        assert len(named) == 1
        assert not named & ending
        assert {jar.resolve() for jar in named | ending} == {jar.resolve() for jar in installed}


@pytest.mark.parametrize(("name", "value"), [("SPARK_HOME", "/opt/spark"), ("PYSPARK_PYTHON", "/usr/bin/python3")])
def test_a_home_or_an_interpreter_that_someone_chose_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv(name, value)
    before = os.environ.get("SPARK_HOME")
    with spark_home_for_archive(tmp_path / "made"), spark_home_without_zip(tmp_path):
        assert os.environ.get("SPARK_HOME") == before
    assert os.environ.get("SPARK_HOME") == before
    assert list(tmp_path.iterdir()) == []
