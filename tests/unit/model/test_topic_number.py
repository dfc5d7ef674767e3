"""The number of a topic: which two are certainly of different topics."""

from __future__ import annotations

import pytest

from model.topic_number import TopicNumber


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (TopicNumber(7, 99), TopicNumber(7, 99), False),
        (TopicNumber(7, 99), TopicNumber(9, 99), True),
        (TopicNumber(7, 99), TopicNumber(7, 12), True),
        (TopicNumber(7, 99), TopicNumber(7), False),
        (TopicNumber(7), TopicNumber(9, 99), True),
    ],
)
def test_two_numbers_are_of_different_topics_or_may_be_of_one(
    one: TopicNumber, other: TopicNumber, differ: bool
) -> None:
    assert one.differs(other) is other.differs(one) is differ


def test_a_header_has_it_or_not() -> None:
    assert TopicNumber.from_header(TopicNumber(7, 99).to_header()) == TopicNumber(7, 99)
    assert TopicNumber.from_header({"topic_id": 7}) == TopicNumber(7)
    assert TopicNumber.from_header({}) is TopicNumber.from_header({"topic_id": 0}) is None
    assert (str(TopicNumber(7)), str(TopicNumber(7, 255))) == ("7", "7 of disk ff")
