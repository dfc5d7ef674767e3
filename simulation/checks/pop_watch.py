"""Tells the books of a popping group (`simulation/checks/pop.py`) what brokers answer to acknowledgements.

Nothing else tells when a message is done with: a consumer that is killed may have had the answer, or may not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from client.pop.requests import Acked, Dead, PopRequests
from model.errors import RlabError
from model.message_queue import MessageQueue
from simulation.checks.pop import PopCheck


def watch_acknowledgements(requests: PopRequests, check: PopCheck, loop: asyncio.AbstractEventLoop) -> None:
    """Note every acknowledgement of a consumer from now on, when it is sent and when it is answered.

    Args:
        requests: those of the consumer; its two ways to acknowledge are replaced.
        check: the books.
        loop: whose time counts.
    """
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

    requests.ack, requests.start_ack = ack, start_ack  # type: ignore[method-assign]
