from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import channel as module
from console.channel import Channel
from model.limits import MAX_CHANNEL_BYTES, MAX_CHANNEL_UPDATES


def bodies(channel: Channel, last_id: str) -> list[bytes] | None:
    found = channel.after(last_id)
    return None if found is None else [update.body for update in found]


def test_a_page_that_was_away_gets_what_came_since_and_the_ids_to_go_on_from() -> None:
    channel = Channel("3f")
    begin = channel.last_id
    for body in (b"one", b"two", b"three"):
        channel.publish(body)

    found = channel.after("3f-1")
    assert found is not None
    assert [tuple(update) for update in found] == [("3f-2", b"two"), ("3f-3", b"three")]
    assert bodies(channel, begin) == [b"one", b"two", b"three"]
    assert bodies(channel, channel.last_id) == []


def test_an_id_of_another_run_of_the_future_or_of_no_one_means_load_all_again() -> None:
    channel = Channel("3f")
    channel.publish(b"one")

    assert [channel.after(each) for each in ("40-1", "3f-2", "", "3f-", "3f--1", "x", "3f-1\n")] == [None] * 7


def test_at_the_limit_the_oldest_is_kept_and_past_it_anyone_who_lacks_it_loads_all_again() -> None:
    channel = Channel("3f")
    for _ in range(MAX_CHANNEL_UPDATES):
        channel.publish(b"x")
    assert len(channel.after("3f-0") or []) == MAX_CHANNEL_UPDATES

    channel.publish(b"x")
    assert channel.after("3f-0") is None
    assert len(channel.after("3f-1") or []) == MAX_CHANNEL_UPDATES


def test_bytes_are_bounded_and_the_newest_update_is_kept_however_large() -> None:
    channel = Channel("3f")
    channel.publish(b"small")
    channel.publish(b"x" * (MAX_CHANNEL_BYTES + 1))

    assert channel.after("3f-0") is None
    assert len(channel.after("3f-1") or []) == 1


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 5), st.integers(1, 60))
def test_what_is_kept_is_the_end_of_what_was_published(sizes: list[int], most: int, most_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_CHANNEL_UPDATES", most)
        patch.setattr(module, "MAX_CHANNEL_BYTES", most_bytes)
        channel, published = Channel("a"), []
        for size in sizes:
            published.append(b"x" * size)
            channel.publish(published[-1])
        for number in range(len(sizes) + 1):
            newest = published[number:]
            fits = len(newest) <= most and (sum(map(len, newest)) <= most_bytes or len(newest) <= 1)
            assert bodies(channel, f"a-{number}") == (newest if fits else None)
