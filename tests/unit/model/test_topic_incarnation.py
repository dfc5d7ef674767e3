"""The number of a topic: which two are certainly of different topics."""

from __future__ import annotations

import pytest

from model.topic_incarnation import TopicIncarnation


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (TopicIncarnation(7, 99), TopicIncarnation(7, 99), False),
        (TopicIncarnation(7, 99), TopicIncarnation(9, 99), True),
        (TopicIncarnation(7, 99), TopicIncarnation(7, 12), True),
        (TopicIncarnation(7, 99), TopicIncarnation(7), False),
        (TopicIncarnation(7), TopicIncarnation(9, 99), True),
    ],
)
def test_two_numbers_are_of_different_topics_or_may_be_of_one(
    one: TopicIncarnation, other: TopicIncarnation, differ: bool
) -> None:
    assert one.surely_differs(other) is other.surely_differs(one) is differ


def test_a_header_has_it_or_not() -> None:
    assert TopicIncarnation.from_header(TopicIncarnation(7, 99).to_header()) == TopicIncarnation(7, 99)
    assert TopicIncarnation.from_header({"topic_id": 7}) == TopicIncarnation(7)
    assert TopicIncarnation.from_header({}) is TopicIncarnation.from_header({"topic_id": 0}) is None
    assert (str(TopicIncarnation(7)), str(TopicIncarnation(7, 255))) == ("7", "7 of disk ff")
