from __future__ import annotations

import sys

import pytest

from client.allocate import AllocateMessageQueueBalancedSticky
from client.allocate.registry import strategy_named
from client.allocate.strategy import usable
from model.errors import ConfigError
from model.extras import EXTRA_BY_PACKAGE, install_command
from process.runtime import new_loop, report_bug
from tests.unit.source_tree import PYPROJECT

EXTRAS: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]


@pytest.mark.parametrize("package", EXTRA_BY_PACKAGE)
def test_the_extra_that_is_named_installs_the_package_and_a_base_installation_does_not(package: str) -> None:
    assert any(each.startswith((f"{package}>", f"{package}=")) for each in EXTRAS[EXTRA_BY_PACKAGE[package]])
    assert not any(each.startswith(package) for each in PYPROJECT["project"]["dependencies"])


def test_a_strategy_without_its_package_says_what_to_install_before_a_group_is_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strategy_named.cache_clear()
    monkeypatch.setattr("client.allocate.strategy.find_spec", lambda _name: None)
    reported = r"BalancedSticky cannot be used: numpy .* 'rebalance-lab\[sticky\]'"
    with pytest.raises(ConfigError, match=reported):
        usable("strategy", AllocateMessageQueueBalancedSticky())
    with pytest.raises(ConfigError, match=reported):
        strategy_named("BALANCED_STICKY")
    assert strategy_named("AVG").name == "AVG"


def test_a_command_without_its_package_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    report_bug(ModuleNotFoundError, ModuleNotFoundError("No module", name="aiohttp"), None)
    assert capsys.readouterr().err == f"error: {install_command('aiohttp')}\n"


def test_another_module_that_is_missing_is_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    report_bug(ModuleNotFoundError, ModuleNotFoundError("No module named 'x'", name="x"), None)
    assert "unexpected ModuleNotFoundError" in capsys.readouterr().err


def test_commands_run_on_the_loop_of_asyncio_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_loop()
    loop.close()
    assert type(loop).__module__.startswith("asyncio")
