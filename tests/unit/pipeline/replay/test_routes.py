"""Which queues a client is taken to know."""

from __future__ import annotations

from model.events import Event, EventKind
from model.message_queue import MessageQueue
from pipeline.replay.routes import Queues, read_routes


def broker_says(at_ms: float, broker: str, n: int) -> tuple[float, Event]:
    return at_ms, Event(at_ms, broker, 1, EventKind.ROUTE_CHANGED, topic="t", broker=broker, n=n)


def client_sees(at_ms: float, n: int) -> tuple[float, Event]:
    return at_ms, Event(at_ms, "c", 1, EventKind.ROUTE_CHANGED, topic="t", client="c", n=n)


def queues(**of_brokers: int) -> Queues:
    return tuple(MessageQueue("t", broker, n) for broker in sorted(of_brokers) for n in range(of_brokers[broker]))


def test_a_client_sees_the_newest_state_with_so_many_queues() -> None:
    routes = read_routes(
        [broker_says(1, "a", 2), broker_says(2, "b", 2), client_sees(3, 4), broker_says(4, "a", 3), client_sees(5, 4)]
    )
    assert [change.queues for change in routes.of_client["c"]] == [queues(a=2, b=2)] * 2
    assert routes.at("t", 0.5) == ()
    assert routes.at("t", 1.5) == queues(a=2)
    assert routes.at("t", 9) == queues(a=3, b=2)


def test_queues_of_a_broker_that_is_down_are_in_no_route() -> None:
    routes = read_routes([broker_says(1, "a", 2), broker_says(2, "b", 3), client_sees(3, 2), client_sees(4, 0)])
    assert [change.queues for change in routes.of_client["c"]] == [queues(a=2), ()]


def test_a_topic_that_is_older_than_the_trace_has_the_queues_that_are_used() -> None:
    used = Event(1, "a", 1, EventKind.LOCK_GRANTED, topic="t", broker="a", queue_id=2)
    assert read_routes([(1.0, used)]).at("t", 0.0) == queues(a=3)
