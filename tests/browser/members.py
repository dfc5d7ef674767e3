"""A member of a group in a process of its own; prints the time at which it acquires each queue.

python -m tests.browser.members HOST:PORT GROUP TOPIC CLIENT_ID
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from client import PushConsumer
from model.events import Event, EventKind


def tell(event: Event) -> None:
    """Print what the page has to show."""
    if event.kind == EventKind.QUEUE_ACQUIRED:
        reported = {
            "t_ms": event.t_ms,
            "queue": f"{event.topic}@{event.broker}:{event.queue_id}",
            "owner": event.client,
        }
        print(json.dumps(reported), flush=True)


async def main() -> None:
    name_server, group, topic, name = sys.argv[1:]

    async def listen(messages: Any) -> None:
        """Take them."""

    options: dict[str, Any] = {"event_sink": tell, "instance_name": name, "route_poll_interval_s": 0.5}
    async with PushConsumer(name_server, group=group, **options) as consumer:
        await consumer.subscribe(topic, listen)
        await asyncio.Event().wait()


asyncio.run(main())
