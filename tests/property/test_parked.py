"""The table of parked requests against a naive twin that keeps them in one list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.messages.parked import ParkedRequest, ParkedRequests
from remoting.command import REQUEST, Command

MAX_PARKED, MAX_PER_PLACE = 4, 2

places = st.tuples(st.sampled_from("tu"), st.integers(0, 1))
connections = st.sampled_from("abc")
parks = st.tuples(
    st.just("park"), connections, st.lists(places, min_size=1, max_size=2, unique=True), st.integers(0, 20)
)
programs = st.lists(
    st.one_of(
        parks,
        parks,
        st.tuples(st.just("take_all"), places),
        st.tuples(st.just("take_first"), places),
        st.tuples(st.just("connection"), connections),
        st.tuples(st.just("sleep"), st.integers(1, 5)),
    ),
    max_size=60,
)


@settings(max_examples=400)
@given(programs)
def test_the_table_of_parked_requests_equals_its_naive_twin(program: list[tuple[object, ...]]) -> None:
    table: ParkedRequests[ParkedRequest[str]] = ParkedRequests(max_parked=MAX_PARKED, max_per_place=MAX_PER_PLACE)
    twin: list[ParkedRequest[str]] = []
    answered: list[ParkedRequest[str]] = []
    now = 0.0

    def taken(requests: list[ParkedRequest[str]], expected: list[ParkedRequest[str]]) -> None:
        removed = sorted(map(id, expected))
        assert sorted(map(id, requests)) == removed
        answered.extend(requests)
        twin[:] = [one for one in twin if id(one) not in removed]

    for step in program:
        match step:
            case "park", str(connection), list(where), int(wait):
                one = ParkedRequest(connection, Command(REQUEST, 11, 0, {}, None), tuple(where), now + wait)
                here = sum(where[0] in other.places for other in twin)
                is_full = len(twin) >= MAX_PARKED or here >= MAX_PER_PLACE
                held = "1 request is" if here == 1 else f"{here} requests are"
                text = f"{held} held at this queue and {len(twin)} on this broker: retry later"
                assert table.full_at(*where[0]) == (text if is_full else "")
                if not is_full:
                    table.park(one)
                    twin.append(one)
            case "take_all", (str(topic), int(key)):
                oldest_first = [one for one in twin if (topic, key) in one.places]
                requests = table.remove_place(topic, key)
                assert requests == oldest_first
                taken(requests, oldest_first)
            case "take_first", (str(topic), int(key)):
                of_topic = [one for one in twin if any(place[0] == topic for place in one.places)]
                first = next(iter(of_topic), None)
                assert table.of_topic(topic) == of_topic
                assert table.first(topic, 0, 1) is first
                assert table.first(topic, key) is next((one for one in twin if (topic, key) in one.places), None)
                if first is not None:
                    table.remove_requests([first])
                    taken([first], [one for one in twin if one is first])
            case "connection", str(connection):
                requests = table.of_connection(connection)
                table.remove_connection(connection)
                taken(requests, [one for one in twin if one.connection == connection])
            case "sleep", int(seconds):
                now += seconds
                requests = table.expire(now)
                assert requests == sorted(requests, key=lambda one: one.deadline)
                taken(requests, [one for one in twin if one.deadline <= now])
        assert len(table) == len(twin)
        assert table.next_deadline() == min((one.deadline for one in twin), default=None)
        for topic in "tu":
            assert set(table.keys(topic)) == {key for one in twin for at, key in one.places if at == topic}
        assert len({id(one) for one in answered}) == len(answered), "a request was answered twice"
    taken(table.expire(now + 20), list(twin))
    assert (table.next_deadline(), len(table), twin) == (None, 0, [])
    assert (table._at, table._of) == ({}, {})
