from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from pipeline.spark.session import _collector, _is_no_interrupt, _quiet_pyspark, is_local_master


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
def test_a_collector_that_someone_has_chosen_is_the_only_one(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "-Xss1m")
    assert _collector("-Xmn100m") == "-XX:+UseParallelGC"
    assert _collector("-Xmn100m -XX:+UseZGC") == ""
    monkeypatch.setenv(name, "-Xss1m -XX:+UseSerialGC")
    assert _collector("-Xmn100m") == ""


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_without_a_package_that_spark_needs_one_is_notified_how_to_get_it(package: str) -> None:
    use = "from pipeline.spark.session import spark_session; spark_session('x').__enter__()"
    code = f"import sys; sys.modules[{package!r}] = None; {use}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ConfigError: Spark cannot be imported (" in done.stderr
    assert "pip install 'rebalance-lab[spark]'" in done.stderr


def test_py4j_does_not_log_ctrl_c_with_its_stack_and_logs_other_errors(caplog: pytest.LogCaptureFixture) -> None:
    _quiet_pyspark()
    try:
        for error in (KeyboardInterrupt(), RuntimeError("reentrant call inside a reader"), ValueError("told")):
            try:
                try:
                    raise error
                except RuntimeError:
                    raise OSError from error
            except (KeyboardInterrupt, OSError, ValueError):
                logging.exception("while sending command")
    finally:
        logging.getLogger().removeFilter(_is_no_interrupt)
    assert [record.exc_info and record.exc_info[0] for record in caplog.records] == [ValueError]
