from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline.spark.session import _collector, is_local_master


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://master:7077", False),
        ("spark://127.0.0.10:7077", False),
    ],
)
def test_only_a_master_on_this_machine_is_bound_to_loopback(master: str, expected: bool) -> None:
    assert is_local_master(master) is expected


@pytest.mark.parametrize("name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
def test_a_collector_that_somebody_has_chosen_is_the_only_one(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "-Xss1m")
    assert _collector("-Xmn100m") == "-XX:+UseParallelGC"
    assert _collector("-Xmn100m -XX:+UseZGC") == ""
    monkeypatch.setenv(name, "-Xss1m -XX:+UseSerialGC")
    assert _collector("-Xmn100m") == ""


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_without_a_package_that_spark_needs_one_is_told_how_to_get_it(package: str) -> None:
    use = "from pipeline.spark.session import spark_session; spark_session('x').__enter__()"
    code = f"import sys; sys.modules[{package!r}] = None; {use}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ConfigError: Spark cannot be imported (" in done.stderr
    assert "pip install 'rebalance-lab[spark]'" in done.stderr
