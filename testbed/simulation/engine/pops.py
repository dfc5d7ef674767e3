"""Observers of the parts of POP that calls of listeners do not show: acknowledgements, and hidden messages.

Only the answer of the broker shows that a message is acknowledged; a killed consumer may or may not have received it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import anyio

from client.pop.requests import Acked, Dead, PopRequests
from model.errors import RlabError
from model.limits import MAX_READ_FIRST, READ_FIRST_S
from model.message_queue import MessageQueue
from testbed.simulation.checks.pop import Place, PopCheck
from testbed.simulation.cluster.cluster import SimulatedCluster

POLL_S = 0.04
READS_FIRST_S = READ_FIRST_S * (MAX_READ_FIRST + 1)
"""How long a broker that stood still may read the requests that have arrived, before it ends invisible times."""


def watch_acknowledgements(requests: PopRequests, check: PopCheck, loop: asyncio.AbstractEventLoop) -> None:
    """Report every acknowledgement of a consumer to the check; two methods of `requests` are replaced for it."""
    shipped, shipped_start = requests.ack, requests.start_ack

    def begin(broker_name: str, acked: Acked) -> Callable[[Dead], None]:
        every = [
            (MessageQueue(topic, broker_name, queue_id), offset)
            for (topic, queue_id, _), offsets in acked.items()
            for offset in offsets
        ]
        for queue, offset in every:
            check.acknowledging(queue, offset)

        def end(dead: Dead) -> None:
            now = loop.time()
            for queue, offset in every:
                if (queue.topic, queue.queue_id, offset) not in dead:
                    check.acknowledged(queue, offset, now)

        return end

    async def ack(broker_name: str, acked: Acked) -> Dead:
        end = begin(broker_name, acked)
        dead = await shipped(broker_name, acked)
        end(dead)
        return dead

    def start_ack(broker_name: str, acked: Acked, answered: Callable[[Dead | RlabError], None]) -> bool:
        end = begin(broker_name, acked)

        def note(outcome: Dead | RlabError) -> None:
            if not isinstance(outcome, RlabError):
                end(outcome)
            answered(outcome)

        return shipped_start(broker_name, acked, note)

    requests.ack, requests.start_ack = ack, start_ack  # type: ignore[method-assign]  # this object's, for its run


def unacknowledged(cluster: SimulatedCluster, group: str) -> dict[Place, int]:
    """How many messages of a group are invisible or to be delivered again, in each queue that has any."""
    counts = {
        (name, _in_words(*key)): queue.window.invisible + queue.window.due_count
        for name, server in cluster.brokers.items()
        if server.serves
        for key, queue in server.running.broker.pop.ledger.queues.items()
        if key.group == group
    }
    return {place: n for place, n in counts.items() if n}


def _in_words(group: str, topic: str, queue_id: int) -> str:
    return f"{group} {topic}:{queue_id}"


async def watch_brokers(cluster: SimulatedCluster, checks: Mapping[str, PopCheck]) -> None:
    """Report the invisible messages of all brokers to the checks, by group, every `POLL_S`. Cancellation: it ends."""
    while True:
        overdue_s: dict[str, dict[Place, float]] = {group: {} for group in checks}
        waited_for: dict[str, dict[Place, int]] = {group: {} for group in checks}
        simulation = cluster.simulation
        now = simulation.loop.time()
        for name, server in cluster.brokers.items():
            host = server.process_host
            standstill = simulation.network.standstill
            if not server.serves or standstill.stands(host):
                continue  # it ends no invisible time while it stands still
            if now < standstill.went_on_at.get(host, float("-inf")) + READS_FIRST_S:
                continue
            with simulation.on_host(host):
                own_now = simulation.loop.time()
            pop = server.running.broker.pop
            for key, queue in pop.ledger.queues.items():
                if key.group in checks:
                    place = (name, _in_words(*key))
                    if (deadline := queue.window.next_deadline()) is not None:
                        overdue_s[key.group][place] = own_now - deadline
                    if queue.window.due_count and pop.first_parked(key) is not None:
                        waited_for[key.group][place] = queue.window.due_count
        for group, check in checks.items():
            check.check(overdue_s[group], waited_for[group], now)
        await anyio.sleep(POLL_S)
