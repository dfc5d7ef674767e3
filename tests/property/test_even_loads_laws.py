"""Loads are as even as subscriptions allow: the levelled sharing against one that is improved a queue at a time."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from model.even_loads import Quotas, level


@st.composite
def sharings(draw: st.DrawFn) -> tuple[Quotas, dict[str, int]]:
    sizes = draw(st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 4), min_size=1))
    quotas = {}
    for topic in "tuvwx"[: draw(st.integers(1, 5))]:
        takers = draw(st.lists(st.sampled_from(sorted(sizes)), unique=True, min_size=1))
        quotas[topic] = {kind: draw(st.integers(0, 15)) for kind in takers}
    return quotas, sizes


def loads_of(quotas: Quotas, sizes: dict[str, int]) -> dict[str, int]:
    return {kind: sum(of_topic.get(kind, 0) for of_topic in quotas.values()) for kind in sizes}


def member_loads(quotas: Quotas, sizes: dict[str, int]) -> list[int]:
    loads = loads_of(quotas, sizes)
    return sorted((loads[kind] + number) // size for kind, size in sizes.items() for number in range(size))


def improving_path(quotas: Quotas, sizes: dict[str, int]) -> list[tuple[str, str, str]] | None:
    """Steps (topic, giver, taker) from a kind with a member that has at least two more than one of the last."""
    loads = loads_of(quotas, sizes)
    for first in sorted(sizes):
        paths: dict[str, list[tuple[str, str, str]]] = {first: []}
        for _ in sizes:
            for giver, (topic, of_topic) in itertools.product(list(paths), quotas.items()):
                if of_topic.get(giver):
                    for taker in of_topic:
                        paths.setdefault(taker, [*paths[giver], (topic, giver, taker)])
        for last, path in paths.items():
            if -(-loads[first] // sizes[first]) - loads[last] // sizes[last] >= 2:
                return path
    return None


@given(sharings())
def test_loads_equal_those_of_the_naive_twin_and_no_queue_is_lost(given_: tuple[Quotas, dict[str, int]]) -> None:
    quotas, sizes = given_
    levelled = level(quotas, sizes)
    assert improving_path(levelled, sizes) is None
    assert all(count >= 0 for of_topic in levelled.values() for count in of_topic.values())
    assert {topic: (list(of_topic), sum(of_topic.values())) for topic, of_topic in levelled.items()} == {
        topic: (list(of_topic), sum(of_topic.values())) for topic, of_topic in quotas.items()
    }
    twin = {topic: dict(of_topic) for topic, of_topic in quotas.items()}
    while (path := improving_path(twin, sizes)) is not None:
        for topic, giver, taker in path:
            twin[topic][giver] -= 1
            twin[topic][taker] += 1
    assert member_loads(levelled, sizes) == member_loads(twin, sizes)
