from __future__ import annotations

import json
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import ConfigError
from model.message_queue import MessageQueue
from pipeline.source.offsets import (
    Range,
    from_json,
    is_due,
    join_small,
    limit_ranges,
    parse_offsets,
    parse_queues,
    queues_to_text,
    read_topic_ids,
    split,
    to_json,
    to_text,
)

queues = st.builds(
    MessageQueue, st.sampled_from(["t", "u", "%DLQ%g"]), st.sampled_from(["a", "b"]), st.integers(0, 1_000)
)


@st.composite
def ranges(draw: st.DrawFn, max_size: int = 12, longest: int = 10_000) -> list[Range]:
    names = draw(st.lists(queues, unique=True, max_size=max_size))
    starts = [draw(st.integers(0, 10**12)) for _ in names]
    sizes = [draw(st.integers(0, longest)) for _ in names]
    return [Range(name, start, start + size) for name, start, size in zip(names, starts, sizes, strict=True)]


def sizes_of(given_ranges: list[Range], ends: dict[MessageQueue, int]) -> dict[MessageQueue, int]:
    return {one.queue: ends[one.queue] - one.start for one in given_ranges}


@given(st.dictionaries(queues, st.integers(0, 2**63 - 1)), st.randoms())
def test_offsets_survive_json_and_their_text_does_not_depend_on_their_order(
    offsets: dict[MessageQueue, int], rng: Random
) -> None:
    items = list(offsets.items())
    rng.shuffle(items)
    assert to_text(dict(items)) == to_text(offsets) == json.dumps(to_json(offsets), sort_keys=True)
    assert from_json(to_json(offsets)) == offsets == parse_offsets(to_text(offsets))
    ids = {(queue.topic, queue.broker_name): number for number, queue in enumerate(offsets)}
    document = to_json(offsets, {**ids, ("topic of another", "broker"): 9})
    assert json.dumps(document) == json.dumps(document, sort_keys=True)
    assert (from_json(document), read_topic_ids(document)) == (offsets, ids)
    assert parse_offsets(json.dumps(document)) == offsets, "the progress of a stream is an option"


@given(ranges(), st.integers(1, 50_000))
def test_a_limit_gives_exactly_what_it_may_and_something_of_every_backlog(found: list[Range], limit: int) -> None:
    taken = sizes_of(found, limit_ranges(found, limit))
    backlog = {one.queue: one.end - one.start for one in found}
    busy = sum(size > 0 for size in backlog.values())
    assert all(0 <= taken[queue] <= backlog[queue] for queue in backlog)
    assert all(taken[queue] >= 1 for queue in backlog if backlog[queue])
    assert sum(taken.values()) == min(sum(backlog.values()), max(limit, busy))


@given(ranges(), st.integers(1, 50_000))
def test_a_limit_gives_more_to_anyone_who_has_more(found: list[Range], limit: int) -> None:
    taken = sizes_of(found, limit_ranges(found, limit))
    backlog = {one.queue: one.end - one.start for one in found}
    for one in found:
        for other in found:
            if backlog[one.queue] >= backlog[other.queue]:
                assert taken[one.queue] >= taken[other.queue] - 1


@given(ranges(max_size=4, longest=60), st.integers(1, 40))
def test_batch_after_batch_reaches_the_end_and_takes_each_message_once(found: list[Range], limit: int) -> None:
    left, rounds = found, 0
    while any(one.end > one.start for one in left):
        ends = limit_ranges(left, limit)
        assert sum(sizes_of(left, ends).values()) > 0
        left = [Range(one.queue, ends[one.queue], one.end) for one in left]
        rounds += 1
    assert rounds <= sum(one.end - one.start for one in found)


def test_a_small_backlog_beside_a_large_one_gives_its_share() -> None:
    small, large = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)
    found = [Range(small, 5, 15), Range(large, 0, 990)]
    assert limit_ranges(found, 100) == {small: 7, large: 98}
    assert limit_ranges(found, 1) == {small: 6, large: 1}, "one each, although that is more than was asked for"
    assert limit_ranges(found, 1_000) == {small: 15, large: 990}


@given(ranges(), st.integers(0, 200), st.none() | st.integers(1, 5_000))
def test_the_pieces_of_a_split_join_to_what_was_split(
    found: list[Range], min_partitions: int, max_rows: int | None
) -> None:
    # A limit of one row would give as many pieces as there are messages.
    pieces = split(found, min_partitions, None if max_rows is None else max(50, max_rows))
    assert all(piece.end > piece.start for piece in pieces)
    for one in found:
        own = [piece for piece in pieces if piece.queue == one.queue]
        assert (own[0].start, own[-1].end) == (one.start, one.end) if one.end > one.start else not own
        assert all(before.end == after.start for before, after in pairwise(own))
    total = sum(one.end - one.start for one in found)
    assert len(pieces) >= min(min_partitions, total)
    assert max_rows is None or all(piece.end - piece.start <= max(50, max_rows) for piece in pieces)
    assert len(pieces) <= min_partitions + len(found) + (0 if max_rows is None else total // max(50, max_rows))


@given(ranges(longest=20), st.integers(0, 60))
def test_pieces_put_together_keep_their_order_and_are_no_more_than_they_may_be(found: list[Range], most: int) -> None:
    tasks = join_small(found, most)
    assert [piece for task in tasks for piece in task] == found
    sizes = [[piece.end - piece.start for piece in task] for task in tasks]
    assert all(sum(task) <= most for task in sizes if len(task) > 1)
    assert all(sum(task) + later[0] > most for task, later in pairwise(sizes)), "nothing that fits is left out"


def test_the_pieces_of_one_range_differ_by_one_at_most() -> None:
    queue = MessageQueue("t", "a", 0)
    assert [piece.end - piece.start for piece in split([Range(queue, 0, 11)], 4)] == [2, 3, 3, 3]
    assert len(split([Range(queue, 0, 3)], 8)) == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"t": 3}', "not a JSON object"),
        ('{"t": {"a": [0]}}', "not a JSON object"),
        ('{"t": {"a": {"x": 1}}}', "not a whole number"),
        ('{"t": {"a": {"0": "1"}}}', "neither an offset"),
        ('{"t": {"a": {"0": true}}}', "neither an offset"),
        ('{"t": {"a": {"0": -3}}}', "neither an offset"),
        ('{"t": {"a": {"0": 9223372036854775808}}}', "neither an offset"),
    ],
)
def test_offsets_that_cannot_be_read_are_explained(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"startingOffsets.*{why}"):
        parse_offsets(text, "startingOffsets")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"t": {"a": 0}}', '{"t": {"a": [-1]}}', '{"t": {"a": ["0"]}}'])
def test_queues_that_cannot_be_read_are_explained(text: str) -> None:
    with pytest.raises(ConfigError, match=r'assign.*"broker": \[0, 1\]'):
        parse_queues(text)


@given(st.sets(queues, min_size=1))
def test_queues_survive_the_text_of_an_option(found: set[MessageQueue]) -> None:
    assert parse_queues(queues_to_text(found)) == tuple(sorted(found))


def test_queues_are_sorted_and_named_once() -> None:
    assert parse_queues('{"t": {"b": [1, 0, 1], "a": [2]}}') == (
        MessageQueue("t", "a", 2),
        MessageQueue("t", "b", 0),
        MessageQueue("t", "b", 1),
    )


def test_a_batch_starts_when_it_is_large_enough_or_has_waited_long_enough() -> None:
    assert is_due(10, 10, waited_s=0, max_wait_s=60)
    assert not is_due(9, 10, waited_s=59.9, max_wait_s=60)
    assert is_due(1, 10, waited_s=60, max_wait_s=60)
    assert not is_due(0, 10, waited_s=1_000, max_wait_s=60), "nothing is never due"
