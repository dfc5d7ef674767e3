"""Who is notified of which changed routes, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from model.replica_limits import MAX_NOTICE_TOPICS, ROUTE_NOTICE_WINDOW_S, ROUTE_NOTICES_AT_ONCE
from namesrv.route_watchers import RouteNotice, RouteWatchers, named_topics


def test_the_watchers_go_through_the_example_of_their_header() -> None:
    watchers = RouteWatchers()
    assert watchers.watch(7, "orders")
    assert watchers.next_deadline() is None
    watchers.changed(["orders", "x"])
    assert watchers.next_deadline() == 0.0
    assert watchers.collect_due(10.0) == [RouteNotice(7, ("orders",))]
    assert watchers.next_deadline() is None
    watchers.changed(["orders"])
    assert watchers.next_deadline() == 10.0 + ROUTE_NOTICE_WINDOW_S
    assert watchers.collect_due(10.1) == []
    watchers.closed(7)
    assert watchers.collect_due(10.5) == []
    assert len(watchers) == 0


def test_a_round_goes_over_many_connections_in_parts_and_what_changes_in_between_waits_for_the_next() -> None:
    watchers = RouteWatchers()
    n = 2 * ROUTE_NOTICES_AT_ONCE + 1
    for connection in range(n):
        watchers.watch(connection, "t")
        watchers.watch(connection, "u")
    watchers.changed(["t"])
    first = watchers.collect_due(1.0)
    watchers.changed(["u"])
    watchers.closed(n - 1)
    assert watchers.next_deadline() == 0.0
    rest = [*watchers.collect_due(1.0), *watchers.collect_due(1.0)]
    assert len(first) == ROUTE_NOTICES_AT_ONCE
    assert [notice.connection for notice in [*first, *rest]] == list(range(n - 1))
    assert {notice.topics for notice in [*first, *rest]} == {("t",)}
    assert watchers.next_deadline() == 1.0 + ROUTE_NOTICE_WINDOW_S
    assert {notice.topics for notice in watchers.collect_due(1.0 + ROUTE_NOTICE_WINDOW_S)} == {("u",)}


def test_topics_beyond_the_limits_are_refused_and_counted_and_a_place_becomes_free_with_its_connection() -> None:
    watchers = RouteWatchers(max_of_one=2, max_of_all=3)
    assert [watchers.watch(1, topic) for topic in ("a", "b", "c", "a")] == [True, True, False, True]
    assert [watchers.watch(2, topic) for topic in ("a", "b")] == [True, False]
    assert watchers.refused == 2
    watchers.closed(1)
    watchers.closed(1)
    assert watchers.watch(2, "b")


def test_a_notification_names_as_many_topics_as_it_may_or_none() -> None:
    topics = tuple(str(n) for n in range(MAX_NOTICE_TOPICS))
    assert named_topics(topics) == list(topics)
    assert named_topics((*topics, "one more")) is None


@given(
    st.lists(
        st.tuples(st.just("watch"), st.integers(1, 3), st.sampled_from("abc"))
        | st.tuples(st.just("close"), st.integers(1, 3), st.none())
        | st.tuples(st.just("change"), st.none(), st.sampled_from("abc"))
        | st.tuples(st.just("pass"), st.none(), st.none()),
        max_size=30,
    )
)
def test_every_watched_change_is_notified_once_and_rounds_keep_their_distance(
    steps: list[tuple[str, int | None, str | None]],
) -> None:
    watchers, now = RouteWatchers(), 0.0
    watched: dict[int, set[str]] = {}
    due: set[str] = set()  # changed since the last round
    rounds: list[float] = []

    def take() -> None:
        notices = watchers.collect_due(now)
        if due and (not rounds or now >= rounds[-1] + ROUTE_NOTICE_WINDOW_S):
            expected = {connection: topics & due for connection, topics in watched.items() if topics & due}
            assert {notice.connection: set(notice.topics) for notice in notices} == expected
            rounds.append(now)
            due.clear()
        else:
            assert notices == []

    for kind, connection, topic in steps:
        if kind == "watch" and connection is not None and topic is not None:
            watchers.watch(connection, topic)
            watched.setdefault(connection, set()).add(topic)
        elif kind == "close" and connection is not None:
            watchers.closed(connection)
            watched.pop(connection, None)
        elif kind == "change" and topic is not None:
            watchers.changed([topic])
            if watched:
                due.add(topic)
        else:
            now += 0.2
        if watchers.next_deadline() is not None and (watchers.next_deadline() or 0.0) <= now:
            take()
