"""The names of the plugin; its fixtures run in tests/process/test_pytest_rlab.py."""

from __future__ import annotations

import importlib

import pytest_rlab
from testbed import pytest_plugin


def test_the_public_module_has_every_fixture_and_hook_of_the_plugin() -> None:
    made = {name for name in vars(pytest_plugin) if name.startswith(("pytest_", "rlab_")) or name in ("member", "send")}
    assert {name: getattr(pytest_rlab, name) for name in made} == {name: getattr(pytest_plugin, name) for name in made}
    assert "rlab_cluster" in made
    assert "pytest_runtest_teardown" in made


def test_by_its_installed_name_the_plugin_is_the_same_module() -> None:
    assert importlib.import_module("rlab.testbed.pytest_plugin") is pytest_plugin
