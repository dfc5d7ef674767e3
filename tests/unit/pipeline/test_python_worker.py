from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from pipeline.python_worker import end_quietly, no_search_for_cycles


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


def fail_within() -> None:
    with no_search_for_cycles():
        raise KeyError(gc.isenabled())


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_search_for_cycles_is_off_in_the_block_and_as_it_was_after_an_error(was_enabled: bool) -> None:
    (gc.enable if was_enabled else gc.disable)()
    with pytest.raises(KeyError, match="False"):
        fail_within()
    assert gc.isenabled() is was_enabled


AS_WORKER = """
import importlib.util, sys
# As in a fork of `python -m pyspark.daemon`, whose module is __main__.
spec = importlib.util.find_spec("pyspark.daemon")
source = open(spec.origin).read()
main = sys.modules["__main__"]
main.__spec__ = spec
exec(compile(source.replace('__name__ == "__main__"', "False"), spec.origin, "exec"), vars(main))
import pipeline.sink.writer
print(type(main.traceback).__name__)
"""


@pytest.mark.parametrize(
    ("error", "printed"),
    [(BrokenPipeError(), ""), (ConnectionResetError(), ""), (OSError("no room"), "OSError: no room")],
)
def test_only_the_end_of_a_connection_is_not_printed(
    error: OSError, printed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    daemon = ModuleType("daemon")
    end_quietly(daemon)
    try:
        raise error
    except OSError:
        daemon.traceback.print_exc()
    shown = capfd.readouterr().err
    assert shown.strip().endswith(printed)
    assert bool(shown) == bool(printed)


def test_the_process_for_the_offsets_of_a_stream_ends_quietly_with_its_connection_only() -> None:
    code = """
import importlib.util, sys
sys.modules["__main__"].__spec__ = importlib.util.find_spec("pyspark.sql.streaming.python_streaming_source_runner")
import pipeline.data_source
raise {}
"""
    for error, last in (("BrokenPipeError", ""), ("ValueError('v')", "ValueError: v")):
        command = [sys.executable, "-c", code.format(error)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr.strip().split("\n")[-1]) == (1, last)


def test_a_worker_of_pysparks_daemon_is_quiet_once_it_has_imported_the_source() -> None:
    done = subprocess.run([sys.executable, "-c", AS_WORKER], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("SimpleNamespace\n", "")
