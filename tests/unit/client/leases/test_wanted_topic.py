"""The moment of a subscription at each broker, whatever the clocks show."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client.leases.wanted_topic import ALL_OF_IT, WantedTopic
from model.topic_incarnation import TopicIncarnation

AHEAD_MS = st.integers(-(10**8), 10**8)
EPOCH_MS = 10**12


@given(
    ahead=st.fixed_dictionaries({"client": AHEAD_MS, "a": AHEAD_MS, "b": AHEAD_MS, "c": AHEAD_MS}),
    loop_starts=st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)),
    first=st.sets(st.sampled_from("abc"), min_size=1),
    later=st.sets(st.sampled_from("abc"), min_size=1),
    away_ms=st.integers(0, 10**9),
)
def test_at_each_broker_it_is_what_its_clock_showed_at_the_subscription(
    ahead: dict[str, int], loop_starts: tuple[int, int], first: set[str], later: set[str], away_ms: int
) -> None:
    """Two processes one after the other: the second one knows what the first has stored, and its loop time is another.

    The naive twin: the true time of the subscription plus the error of each broker's clock.
    """

    def clocks(names: set[str], process: int, true_ms: int) -> dict[str, float]:
        loop_ms = loop_starts[process] + true_ms
        return {name: EPOCH_MS + true_ms + ahead[name] - loop_ms for name in names}

    wanted = WantedTopic(EPOCH_MS + ahead["client"], begun_ms=loop_starts[0])
    for broker in first:
        wanted.record_clock(broker, clocks(first, 0, 500))
    stored = WantedTopic(wanted.since_ms, since_at=dict(wanted.since_at))
    for broker in later:
        known = clocks(first | later, 1, away_ms)
        assert abs(stored.since(broker, known) - (EPOCH_MS + ahead[broker])) <= 1
        if broker not in first:
            assert stored.record_clock(broker, known)
            assert not stored.record_clock(broker, known)
        assert abs(stored.since(broker, {}) - (EPOCH_MS + ahead[broker])) <= 1


def test_without_a_clock_to_compare_it_is_the_earliest_moment_that_is_known_of_brokers() -> None:
    wanted = WantedTopic(50, since_at={"a": 30, "b": 40, "d": ALL_OF_IT})
    assert wanted.since("c", {"c": 7.0, "d": 1.0}) == 30
    assert not wanted.record_clock("c", {"c": 7.0, "d": 1.0})


def test_brokers_and_files_of_an_earlier_version_have_no_times_and_get_that_of_the_client() -> None:
    wanted = WantedTopic(50, begun_ms=3.0)
    assert wanted.since("a", {}) == 50
    assert not wanted.record_clock("a", {})


def test_of_a_topic_that_was_recreated_everything_came_after_the_subscription() -> None:
    wanted = WantedTopic(50, begun_ms=3.0)
    assert wanted.record_incarnation("a", TopicIncarnation(7, 99))
    assert not wanted.record_incarnation("a", TopicIncarnation(7, 99))
    assert not wanted.record_incarnation("a", TopicIncarnation(7)), "it says less"
    assert wanted.record_clock("a", {"a": 1000.0})
    assert wanted.record_incarnation("a", TopicIncarnation(8, 99))
    assert wanted.since("a", {"a": 1000.0}) == ALL_OF_IT


def test_a_number_of_a_broker_of_an_earlier_version_is_completed_later() -> None:
    wanted = WantedTopic(50)
    wanted.record_incarnation("a", TopicIncarnation(7))
    assert wanted.record_incarnation("a", TopicIncarnation(7, 99))
    assert wanted.is_other("a", TopicIncarnation(7, 12))
    assert not wanted.is_other("a", None)
    assert not wanted.is_other("b", TopicIncarnation(7, 12))
