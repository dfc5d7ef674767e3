"""Committed offsets: forward only, unless somebody means it."""

from __future__ import annotations

import pytest

from broker.leases.offsets import OffsetTable
from model.errors import OffsetRegression, SystemBusy
from model.quirks import Quirk


def committed(*offsets: tuple[str, str, int, int], quirks: frozenset[Quirk] = frozenset()) -> OffsetTable:
    """A table with these (group, topic, queue id, offset)."""
    table = OffsetTable(quirks=quirks)
    for row in offsets:
        table.commit(*row)
    return table


def test_no_commit_is_not_a_number() -> None:
    table = committed(("g", "t", 0, 0))
    assert table.read("g", "t", 0) == 0
    assert (table.read("g", "t", 1), table.read("g", "u", 0), table.read("h", "t", 0)) == (None, None, None)


def test_a_commit_reports_whether_there_is_something_to_store() -> None:
    table = OffsetTable()
    assert [table.commit("g", "t", 0, offset) for offset in (5, 5, 6)] == [True, False, True]


def test_a_commit_that_goes_back_is_refused_and_says_how_to_mean_it() -> None:
    table = committed(("g", "t", 0, 7))
    with pytest.raises(OffsetRegression, match=r"committed 7 on t:0; 6 would go back.*reset"):
        table.commit("g", "t", 0, 6)
    assert table.read("g", "t", 0) == 7


def test_a_reset_may_go_back() -> None:
    table = committed(("g", "t", 0, 7))
    assert table.commit("g", "t", 0, 2, reset=True)
    assert table.read("g", "t", 0) == 2


def test_under_the_quirk_every_commit_may_go_back() -> None:
    table = committed(("g", "t", 0, 7), quirks=frozenset({Quirk.OFFSETS_GO_BACK}))
    assert table.commit("g", "t", 0, 2)
    assert table.read("g", "t", 0) == 2


def test_groups_and_their_offsets_are_listed_sorted() -> None:
    table = committed(("h", "t", 0, 1), ("g", "u", 0, 2), ("g", "t", 3, 4), ("g", "t", 0, 3))
    assert table.groups() == ["g", "h"]
    assert table.of_group("g") == [("t", 0, 3), ("t", 3, 4), ("u", 0, 2)]
    assert table.of_group("nobody") == []


def test_a_deleted_topic_is_forgotten_by_every_group() -> None:
    table = committed(("g", "t", 0, 1), ("g", "u", 0, 2), ("h", "t", 1, 3))
    table.delete_topic("t")
    assert (table.of_group("g"), table.of_group("h")) == ([("u", 0, 2)], [])
    assert table.groups() == ["g"]


def test_a_group_whose_topics_are_all_deleted_leaves_its_place_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.leases.offsets.MAX_GROUPS", 1)
    table = committed(("g", "t", 0, 1))
    with pytest.raises(SystemBusy):
        table.commit("h", "u", 0, 1)
    table.delete_topic("t")
    assert table.commit("h", "u", 0, 1)


def test_a_restored_offset_is_as_good_as_a_committed_one() -> None:
    table = OffsetTable()
    table.restore("g", "t", 0, 9)
    with pytest.raises(OffsetRegression):
        table.commit("g", "t", 0, 8)


def test_a_broker_keeps_the_offsets_of_its_limit_of_groups_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.leases.offsets.MAX_GROUPS", 2)
    table = committed(("g", "t", 0, 1), ("h", "t", 0, 1))
    with pytest.raises(SystemBusy, match="2 groups"):
        table.commit("i", "t", 0, 1)
    assert table.commit("h", "t", 0, 2)
