"""Tells the judge of acknowledgements of popped messages: when each is sent, and when it is answered.

Only the answer shows that a message is acknowledged: a consumer that is killed may have had it, or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from client.pop.requests import Acked, Dead, PopRequests
from model.errors import RlabError
from model.message_queue import MessageQueue
from simulation.checks.pop import PopCheck


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

    requests.ack, requests.start_ack = ack, start_ack  # type: ignore[method-assign]
