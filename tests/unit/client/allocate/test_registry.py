from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import client.allocate
from client.allocate import AllocateMessageQueueAveragely
from client.allocate.registry import (
    BUILT_IN_STRATEGIES,
    check_strategy_name,
    has_strategy,
    strategy_named,
    strategy_names,
)
from client.rebalance.plan import allocate_target
from model.errors import ConfigError
from model.heartbeat import GroupView, MessageModel
from model.message_queue import MessageQueue
from tests.unit.client.allocate.strategy_classes import strategy_classes
from tests.unit.client.allocate.strategy_package import STRATEGY, install

pytestmark = pytest.mark.walk


def test_built_in_strategies_are_known_by_the_name_that_heartbeats_carry() -> None:
    assert all(name == each.make().name == strategy_named(name).name for name, each in BUILT_IN_STRATEGIES.items())
    assert list(BUILT_IN_STRATEGIES)[:4] == ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "BALANCED_STICKY"]
    assert isinstance(strategy_named("AVG"), AllocateMessageQueueAveragely)
    assert strategy_named("BALANCED_STICKY") is strategy_named("BALANCED_STICKY")


def test_each_strategy_of_the_room_is_exported() -> None:
    names = {kind.__name__ for kind in strategy_classes()}
    assert len(names) >= 8
    assert names <= set(client.allocate.__all__)


@pytest.mark.parametrize("name", BUILT_IN_STRATEGIES)
@given(members=st.integers(1, 9), queues=st.integers(1, 40))
def test_each_built_in_strategy_gives_every_queue_to_one_member_and_is_as_even_as_it_says(
    name: str, members: int, queues: int
) -> None:
    ids = [f"10.0.0.{n}@{n}" for n in range(members)]
    every = [MessageQueue("t", "a", n) for n in range(queues)]
    view = GroupView(group="g", version=1, members=dict.fromkeys(ids, ("t",)))
    shares = [
        allocate_target(strategy_named(name), "g", cid, MessageModel.CLUSTERING, ["t"], {"t": every}, view)
        for cid in ids
    ]
    assert sorted(queue for share in shares for queue in share) == every
    if BUILT_IN_STRATEGIES[name].even:
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_what_is_not_a_strategy_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no strategy 'NONE'; there are AVG, AVG_BY_CIRCLE, "):
        strategy_named("NONE")
    with pytest.raises(ConfigError, match=r"--strategy must be one of AVG, .*; got 'BROKER'"):
        check_strategy_name("--strategy", "BROKER")


def test_a_strategy_of_an_installed_package_is_known_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert not has_strategy("OF_A_PACKAGE")
    built_in, installed = tuple(BUILT_IN_STRATEGIES), strategy_names()[len(BUILT_IN_STRATEGIES) :]
    install(monkeypatch, tmp_path, "OF_A_PACKAGE")
    assert strategy_names() == (*built_in, *sorted([*installed, "OF_A_PACKAGE"]))
    check_strategy_name("--strategy", "OF_A_PACKAGE")
    queues = [MessageQueue("t", "a", n) for n in range(3)]
    assert strategy_named("OF_A_PACKAGE").allocate("g", "b", queues, ["a", "b"]) == queues


@pytest.mark.parametrize(
    ("name", "code", "what"),
    [
        ("BROKEN_1", "import no_such_module", "ModuleNotFoundError"),
        ("BROKEN_2", "class Other: pass", "AttributeError"),
        ("BROKEN_3", "raise RuntimeError('not today')", "RuntimeError.*not today"),
        ("BROKEN_4", "class LastMemberTakesAll:\n    def __init__(self, weights): pass", "TypeError.*weights"),
        ("BROKEN_5", "LastMemberTakesAll = object", "must be an allocation strategy"),
    ],
)
def test_a_broken_package_is_named_and_stops_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, code: str, what: str
) -> None:
    install(monkeypatch, tmp_path, name, package="broken-package", code=code)
    assert name in strategy_names()
    assert strategy_named("AVG").name == "AVG"
    with pytest.raises(ConfigError, match=rf"strategy '{name}' of package broken-package .*cannot be used: .*{what}"):
        strategy_named(name)


def test_a_strategy_that_calls_itself_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, "RENAMED", code=STRATEGY.replace("NAME", "OLD"))
    with pytest.raises(ConfigError, match=r"package takes-all .* calls itself 'OLD'"):
        strategy_named("RENAMED")


def test_a_name_in_two_packages_is_refused_with_both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, "TWICE", package="one")
    install(monkeypatch, tmp_path, "TWICE", package="other")
    with pytest.raises(ConfigError, match=r"'TWICE' is in several packages \(one, other\)"):
        strategy_named("TWICE")


@pytest.mark.parametrize("name", ["AVG", "BROKER"])
def test_a_built_in_name_is_refused_to_a_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    strategy_named.cache_clear()
    before = strategy_names()
    install(monkeypatch, tmp_path, name, package="thief")
    assert strategy_names() == before
    assert before[: len(BUILT_IN_STRATEGIES)] == tuple(BUILT_IN_STRATEGIES)
    if name == "AVG":
        assert isinstance(strategy_named(name), AllocateMessageQueueAveragely)
    else:
        with pytest.raises(ConfigError, match="no strategy 'BROKER'"):
            strategy_named(name)
    assert f"strategy {name} of package thief is ignored: the name is built in" in caplog.text
