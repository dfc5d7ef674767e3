"""How many queues each kind of member gets, on the examples of the module header and where they end."""

from __future__ import annotations

from model.even_loads import level


def loads(quotas: dict[str, dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for of_topic in quotas.values():
        for kind, count in of_topic.items():
            total[kind] = total.get(kind, 0) + count
    return total


def test_an_even_sharing_stays_as_it_is() -> None:
    quotas = {"orders": {"AB": 4, "C": 2}, "bills": {"AB": 1, "D": 2}}
    assert level(quotas, {"AB": 2, "C": 1, "D": 1}) == quotas


def test_all_are_even_when_subscriptions_allow_it() -> None:
    quotas = {"orders": {"AB": 6, "C": 0}, "bills": {"AB": 2, "D": 0}}
    assert loads(level(quotas, {"AB": 2, "C": 1, "D": 1})) == {"AB": 4, "C": 2, "D": 2}


def test_a_member_whose_topic_is_small_has_less() -> None:
    quotas = {"orders": {"AB": 1, "C": 0}, "bills": {"AB": 7}}
    assert loads(level(quotas, {"AB": 2, "C": 1})) == {"AB": 7, "C": 1}


def test_queues_move_along_a_chain_when_there_is_no_direct_way() -> None:
    # x gives t to y, which gives u to z; x and z have no topic in common.
    quotas = {"t": {"x": 6, "y": 0}, "u": {"y": 3, "z": 0}}
    assert loads(level(quotas, {"x": 1, "y": 1, "z": 1})) == {"x": 3, "y": 3, "z": 3}


def test_the_argument_is_not_changed() -> None:
    quotas = {"t": {"x": 4, "y": 0}}
    level(quotas, {"x": 1, "y": 1})
    assert quotas == {"t": {"x": 4, "y": 0}}
