from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import ConfigError
from pipeline.spark import class_archive
from pipeline.spark.make_archive import make_archive


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(class_archive, "_FOLDER", tmp_path / "share")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return tmp_path / "share"


def some_java(folder: Path) -> str:
    (folder / "bin").mkdir(parents=True)
    return str(folder / "bin" / "java")


def test_a_java_that_makes_no_archives_is_named_with_its_own_words(tmp_path: Path) -> None:
    java = Path(some_java(tmp_path / "a"))
    java.write_text("#!/bin/sh\necho there is no class list\nexit 1\n")
    java.chmod(0o755)
    with pytest.raises(ConfigError, match=r"a/bin/java cannot make an archive .*: there is no class list"):
        make_archive(str(java))


def test_a_folder_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot write .*share .* virtual environment"):
        make_archive(some_java(tmp_path / "a"))
