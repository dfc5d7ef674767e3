from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.spark import class_archive
from pipeline.spark.class_archive import archive_options, archive_path, archived_jars


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(class_archive, "_FOLDER", tmp_path / "share")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return tmp_path / "share"


def some_java(folder: Path, release: str = 'JAVA_VERSION="17.0.1"\n') -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "release").write_text(release)
    return str(folder / "bin" / "java")


def test_a_jvm_is_reported_of_the_archive_once_it_is_there(tmp_path: Path) -> None:
    java = some_java(tmp_path / "with space")
    assert archive_options(java) == ""
    assert archived_jars(java) is None
    archive = archive_path(java)
    (archive.parent / "home" / "jars").mkdir(parents=True)
    assert archived_jars(java) is None, "one that is not finished"
    archive.touch()
    assert archived_jars(java) == archive.parent / "home" / "jars"
    assert archive_options(java).startswith(f'"-XX:SharedArchiveFile={archive}" ')


def test_each_java_and_each_version_of_it_has_an_archive_of_its_own(tmp_path: Path) -> None:
    first, second = some_java(tmp_path / "a"), some_java(tmp_path / "b")
    before = archive_path(first)
    (tmp_path / "a" / "release").write_text('JAVA_VERSION="17.0.2"\n')
    assert len({before, archive_path(first), archive_path(second)}) == 3


def test_each_spark_and_each_version_of_it_has_an_archive_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java, jars = some_java(tmp_path / "a"), tmp_path / "spark" / "jars"
    own = archive_path(java)
    jars.mkdir(parents=True)
    (jars / "spark-sql.jar").write_text("4.3.0")
    monkeypatch.setenv("SPARK_HOME", str(jars.parent))
    other = archive_path(java)
    (jars / "spark-sql.jar").write_text("4.3.10")
    assert len({own, other, archive_path(java)}) == 3


def test_a_link_to_a_java_has_the_archive_of_that_java(tmp_path: Path) -> None:
    java = some_java(tmp_path / "a")
    (tmp_path / "a" / "bin" / "java").touch()
    (tmp_path / "java").symlink_to(java)
    assert archive_path(str(tmp_path / "java")) == archive_path(java)
