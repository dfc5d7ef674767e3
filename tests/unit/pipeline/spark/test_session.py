from __future__ import annotations

import logging
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

from pipeline.spark.session import _collector, _is_no_interrupt, _quiet_pyspark, _sockets, is_local_master


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


def test_workers_of_this_user_are_connected_by_unix_domain_sockets_whose_paths_the_system_can_hold() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        settings = _sockets(Path(name), "local[2]")
        folder = Path(settings["spark.python.unix.domain.socket.dir"])
        assert folder.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as longest:
            longest.bind(str(folder / f".{uuid.uuid4()}.sock"))
        deep = Path(name) / ("d" * 60)
        deep.mkdir()
        assert _sockets(deep, "local[2]") == {}
        assert _sockets(Path(name), "spark://127.0.0.1:7077") == {}, "its workers may belong to another user"


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
