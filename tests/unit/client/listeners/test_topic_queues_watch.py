from __future__ import annotations

import pytest

from client.listeners.topic_queues_watch import TopicQueuesWatch
from model.errors import ConnectFailed, InvalidParameter
from model.message_queue import MessageQueue
from testbed.simulation.kernel.run import Simulation, run_simulation

Queues = tuple[MessageQueue, ...]
A0, A1 = MessageQueue("a", "x", 0), MessageQueue("a", "x", 1)


def test_a_listener_sees_changes_only_and_a_name_server_that_is_away_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues: dict[str, Queues | Exception] = {"a": (A0,), "b": ()}
    calls: list[tuple[str, Queues]] = []

    async def fetch(topic: str) -> Queues:
        now = queues[topic]
        if isinstance(now, Exception):
            raise now
        return now

    async def main(simulation: Simulation) -> None:
        watch = TopicQueuesWatch(fetch)
        for topic in ("a", "b"):
            await watch.register(topic, lambda topic, now: calls.append((topic, now)))
        await watch.fetch_and_compare()
        assert calls == []
        queues.update(a=ConnectFailed("away"), b=(MessageQueue("b", "x", 0),))
        await watch.fetch_and_compare()
        assert calls == [("b", (MessageQueue("b", "x", 0),))]
        queues["a"] = (A0, A1)
        await watch.fetch_and_compare()
        await watch.fetch_and_compare()
        assert calls[1:] == [("a", (A0, A1))]
        queues["c"] = ConnectFailed("away")
        with pytest.raises(ConnectFailed):
            await watch.register("c", print)
        with pytest.raises(InvalidParameter, match="may only have"):
            await watch.register("not a topic", print)
        await watch.fetch_and_compare()
        monkeypatch.setattr("client.listeners.topic_queues_watch.MAX_SUBSCRIPTIONS_PER_MEMBER", 2)
        queues["c"] = ()
        with pytest.raises(InvalidParameter, match="at most 2 topics"):
            await watch.register("c", print)
        await watch.register("b", print)

    run_simulation(main)
