"""Settings that every test shares.

Invariant: two runs of `make test` on one tree run the same examples. Hypothesis is therefore derandomized by default;
`--hypothesis-profile=explore` searches with fresh randomness, and what it finds is kept as an @example in the test.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

# No deadline: on a shared machine a slow example says something about the machine. A hang is faulthandler's to end.
settings.register_profile("ci", derandomize=True, print_blob=True, deadline=None)
settings.register_profile("explore", max_examples=2_000, print_blob=True, deadline=None)
settings.load_profile("ci")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of Spark in one process: they share a session, and a Java machine takes seconds and a gigabyte."""
    for item in items:
        if "spark" in item.path.relative_to(item.config.rootpath).parts:
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give pytest's own log handler its form back: pyspark makes it write JSON, for all tests that come after."""
    plugin: Any = item.config.pluginmanager.get_plugin("logging-plugin")
    plugin.caplog_handler.setFormatter(plugin.formatter)
