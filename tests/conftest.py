"""Settings that every test shares.

Invariant: two runs of `make test` on one tree run the same examples. Hypothesis is therefore derandomized by default;
`--hypothesis-profile=explore` searches with fresh randomness, and what it finds is kept as an @example in the test.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from pipeline.python_worker import no_search_for_cycles
from tests.temporary_files import folder_in_memory

# No deadline and no check of how fast examples are made: on a shared machine a slow example says something about the
# machine. A hang is faulthandler's to end.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", UNTIMED, derandomize=True)
settings.register_profile("explore", UNTIMED, max_examples=2_000)
settings.load_profile("ci")

TESTS = Path(__file__).resolve().parent

STYLE = frozenset(
    f"tests/unit/test_{name}.py"
    for name in ("log_calls", "names", "plurals", "prose", "rooms", "stale_words", "tidy", "walks")
)
"""They look at every source."""


class SharedByProcess(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Sends each test by itself to an idle process, except those that share objects which take seconds to make.

    Those of `tests/spark` share Spark's session; those in its `drivers` start Java machines of their own, and share
    what is in their file; those of the style share the parsed sources. Marks of `xdist_group` would say the same, but
    xdist 3.8 writes them into node ids, where pytest 9.2 does not look.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith("tests/spark/"):
            return file if "/drivers/" in file else "spark"
        return "style" if file in STYLE else nodeid

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget what has ended: after each test xdist counts all that it remembers of the process."""
        nodeid = self.registered_collections[node][item_index]
        assigned, scope = self.assigned_work[node], self._split_scope(nodeid)
        assigned[scope][nodeid] = True
        if all(assigned[scope].values()):
            del assigned[scope]
        self._reschedule(node)


TEMPORARY = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Put the temporary files of all processes of this run into memory, see `tests.temporary_files`.

    And let SIGINT interrupt: a script that starts a run in the background lets it ignore that, and tests send it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = folder_in_memory()
    if folder is not None:
        config.stash[TEMPORARY] = folder
        os.environ["TMPDIR"] = str(folder)  # the other processes of the run inherit it
        tempfile.tempdir = None  # found anew


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Keep the files of a run that failed, and print where they are."""
    if exitstatus and TEMPORARY in config.stash:
        terminalreporter.write_line(f"The files of failed tests are in {config.stash[TEMPORARY]}, which is in memory.")
        del config.stash[TEMPORARY]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the temporary files of a run that passed."""
    if TEMPORARY in config.stash:
        shutil.rmtree(config.stash[TEMPORARY], ignore_errors=True)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Twice as many as there are cores: with half as many again, cores were idle for a sixth of the time.

    Tests wait for processes and JVMs. Each further process of the run collects the tests again: 6 s of CPU.
    """
    return (os.cpu_count() or 2) * 2


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Import and collect without searches for cycles among what stays anyway."""
    with no_search_for_cycles():
        _import_share(session.config)
        return (yield)


def _import_share(config: pytest.Config) -> None:
    """Of a run of all tests in several processes, import the share of this one before it collects.

    An import rewrites the asserts of a file, and keeps the result for whoever imports it next. In a fresh checkout all
    processes would otherwise rewrite the same file at the same time, one after the other: ten seconds in each.
    """
    share: dict[str, Any] = getattr(config, "workerinput", {})
    is_whole = [Path(path).resolve() for path in config.args] == [TESTS]
    if not share or not is_whole or sys.dont_write_bytecode:
        return
    number, processes = int(share["workerid"].removeprefix("gw")), int(share["workercount"])
    for path in sorted(TESTS.rglob("test_*.py"))[number::processes]:
        # What cannot be imported is imported again by pytest, which says so or leaves it out.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the collector of garbage never again look at nine thousand tests and at what they have imported."""
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedByProcess:
    """What `make test` spreads tests over processes with."""
    return SharedByProcess(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """See `_plain_log_lines`."""
    _plain_log_lines(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """See `_plain_log_lines`."""
    _plain_log_lines(item)


def _plain_log_lines(item: pytest.Item) -> None:
    """Give pytest's own log handlers their form back.

    In each phase of a test pytest adds them to every logger that hands nothing on. Those of pyspark give a handler that
    is added to them the form of JSON, which prints an exception by its text alone.
    """
    plugin: Any = item.config.pluginmanager.get_plugin("logging-plugin")
    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.setFormatter(plugin.formatter)
