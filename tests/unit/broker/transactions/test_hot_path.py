"""A broker with transactions serves plain sends and pulls with exactly the Python calls of one without."""

from __future__ import annotations

import sys
from types import FrameType

from broker.config import Part
from remoting.command import REQUEST, Command
from remoting.request_code import RequestCode
from tests.unit.broker.harness import World, payload_of, simulated

MESSAGES = 50


class Deaf:
    """A connection that only counts as one."""

    number, unanswered, closed = 1, 0, False

    def respond(self, request: object, *rest: object, **more: object) -> None:
        """Drop an answer."""

    def flush(self) -> None:
        """Nothing is queued."""


async def calls_of(world: World, parts: frozenset[Part]) -> int:
    """How many Python functions run for some sends, the write of each, and a pull of each."""
    broker = await world.start_broker(parts=parts)
    await world.peer(f"with-{len(parts)}").put_topic("t", read=1)
    handlers, deaf, calls = broker.features.handlers(), Deaf(), 0
    send, pull = handlers[RequestCode.SEND_MESSAGE], handlers[RequestCode.PULL_MESSAGE]
    first = broker.store.max_offset(broker.topics.table.existing("t").topic_id, 0)

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    try:
        for number in range(first, first + 1 + MESSAGES):
            if number == first + 1:
                sys.setprofile(count)  # the first message of a run also writes the names of all topics
            header = {"topic": "t", "queue_id": 0, "tag_hash": 0}
            send(deaf, Command(REQUEST, RequestCode.SEND_MESSAGE, 1, header, payload_of(b"x")))  # type: ignore[arg-type]
            broker.barrier._flush()
            wanted = {"group": "g", "topic": "t", "queue_id": 0, "offset": number, "max_n": 1, "suspend_ms": 0}
            pull(deaf, Command(REQUEST, RequestCode.PULL_MESSAGE, 2, wanted, None))  # type: ignore[arg-type]
    finally:
        sys.setprofile(None)
    await world.stop_broker()
    return calls


@simulated
async def test_plain_sends_and_pulls_take_not_one_more_call_by_the_feature_being_there(world: World) -> None:
    without = await calls_of(world, frozenset(Part) - {Part.TRANSACTIONS})
    with_it = await calls_of(world, frozenset(Part))
    assert with_it == without
    assert without > 5 * MESSAGES, "they were counted at all"
