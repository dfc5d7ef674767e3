"""What the log knows and the metadata does not is told apart from a deletion, and made again under names of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.topics.lost import lost_topics, metadata_missing, metadata_too_old, topics_to_recreate
from model.topic_route import Perm, TopicConfig

NAMES = st.sampled_from(["a", "b", "recovered-3", "recovered-3-again"])


def config(topic: str, queues: int = 4, perm: Perm = Perm.READ) -> TopicConfig:
    return TopicConfig(topic=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


def test_a_number_above_the_last_one_is_lost_and_one_below_it_was_deleted() -> None:
    queues = [(2, 0), (4, 0), (7, 0), (7, 2), (9, 1)]
    assert lost_topics(queues, {2}, 6) == {7: 3, 9: 2}
    assert lost_topics(queues, {2, 7, 9}, 9) == {}
    assert lost_topics([], (), 0) == {}


def test_a_topic_is_recreated_as_the_log_has_it_or_as_its_messages_say_or_by_its_number() -> None:
    made = topics_to_recreate({4: 1, 7: 3, 9: 2}, {4: config("orders")}, {7: "payments"}, ())
    assert made == {
        4: config("orders"),
        7: config("payments", 3, Perm.READ | Perm.WRITE),
        9: config("recovered-9", 2, Perm.READ | Perm.WRITE),
    }


def test_of_two_topics_of_one_name_the_newer_has_it() -> None:
    made = topics_to_recreate({4: 1, 7: 1}, {4: config("orders", 1), 7: config("orders", 2)}, {}, ())
    assert made == {7: config("orders", 2), 4: config("recovered-4", 1, Perm.READ | Perm.WRITE)}


@given(
    st.dictionaries(st.integers(1, 4), st.integers(1, 3)),
    st.dictionaries(st.integers(1, 4), NAMES.map(config)),
    st.dictionaries(st.integers(1, 4), NAMES),
    st.sets(NAMES),
)
def test_every_lost_topic_is_recreated_and_no_name_is_used_twice(
    lost: dict[int, int], stored: dict[int, TopicConfig], seen: dict[int, str], taken: set[str]
) -> None:
    made = topics_to_recreate(lost, stored, seen, taken)
    assert made.keys() == lost.keys()
    names = [each.topic for each in made.values()]
    assert len({*names, *taken}) == len(names) + len(taken)
    assert all(made[topic_id].read_queue_nums >= 1 for topic_id in lost)


@pytest.mark.parametrize("refusal", [metadata_missing, metadata_too_old])
def test_a_refusal_names_the_file_and_what_to_do(refusal: type) -> None:
    text = str(refusal(Path("data", "metadata.sqlite"), dict.fromkeys(range(3, 12), 1)))
    assert "data/metadata.sqlite is" in text
    assert "(number 3, 4, 5, 6, 7 and 4 more)" in text
    assert "back" in text
    assert "start once with --recover-topics" in text
