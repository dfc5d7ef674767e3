"""Each vectorised strategy gives every queue to the member that the one of clients gives it to."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.allocate.registry import BUILT_IN_STRATEGIES, strategy_named
from client.rebalance.plan import StrategyError
from pipeline.strategies.allocate_all import AllocateAll, QueueSet
from tests.unit.client.allocate.strategy_package import STRATEGY, install

queue_sets = st.builds(
    QueueSet,
    st.sampled_from(["t", "orders", "t-2"]),
    st.lists(st.sampled_from(["a", "b", "broker-1", "broker-10", "z"]), min_size=1, max_size=4, unique=True).map(
        lambda names: tuple(sorted(names))
    ),
    st.integers(1, 40),
)
groups = st.lists(st.text("abcxyz0123456789@#.-", min_size=1, max_size=12), min_size=1, max_size=25, unique=True).map(
    sorted
)


def shipped(name: str, queues: QueueSet, members: list[str]) -> list[str]:
    every, strategy = queues.every(), strategy_named(name)
    owner = {mq: cid for cid in members for mq in strategy.allocate("g", cid, every, members)}
    return [owner[mq] for mq in every]


@pytest.mark.walk
@pytest.mark.parametrize("name", BUILT_IN_STRATEGIES)
@settings(max_examples=120, deadline=None)
@given(queues=queue_sets, histories=st.lists(groups, min_size=1, max_size=3))
def test_every_queue_goes_to_the_member_that_the_shipped_strategy_gives_it_to(
    name: str, queues: QueueSet, histories: list[list[str]]
) -> None:
    allocate_all = AllocateAll(queues)
    for members in histories:
        owners = allocate_all.owners(name, members)
        assert [members[owner] for owner in owners] == shipped(name, queues, members)


@pytest.mark.walk
@pytest.mark.parametrize("name", BUILT_IN_STRATEGIES)
def test_a_larger_group_is_shared_alike_too(name: str) -> None:
    queues, members = QueueSet("t", ("a", "b", "c"), 333), sorted(f"10.0.0.{n}@{n * 7919}" for n in range(200))
    owners = AllocateAll(queues).owners(name, members)
    assert [members[owner] for owner in owners] == shipped(name, queues, members)


def test_a_strategy_that_is_not_written_with_arrays_is_asked_for_each_member(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, "ASKED")
    assert AllocateAll(QueueSet("t", ("a", "b"), 2)).owners("ASKED", ["c1", "c2", "c3"]).tolist() == [2, 2, 2, 2]


def test_a_strategy_that_leaves_queues_out_cannot_be_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, "LEAVES_OUT", code=STRATEGY.replace("list(mq_all)", "list(mq_all)[1:]"))
    with pytest.raises(StrategyError, match=r"LEAVES_OUT .* each must have one owner"):
        AllocateAll(QueueSet("t", ("a", "b"), 2)).owners("LEAVES_OUT", ["c1", "c2", "c3"])
