"""Three consumers of one group join and leave; after each step the owners of the queues are printed.

    python examples/rebalance_live.py

Two brokers with four queues each run on real sockets in this process. A step ends when the group has converged:
every queue is owned by the member to which the allocation strategy assigns it. That is observed from the outside, as
`rlab group show` does. No server assigns queues: each consumer computes its own assignment.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from rlab.broker.broker import run_broker
from rlab.broker.config import BrokerConfig
from rlab.client import MessageExt, PushConsumer
from rlab.client.admin.admin import Admin
from rlab.client.admin.records import GroupInfo
from rlab.namesrv.config import NameServerConfig
from rlab.namesrv.server import run_name_server

GROUP, TOPIC = "billing", "orders"


async def on_messages(messages: Sequence[MessageExt]) -> None:
    """Nothing is sent in this example."""


async def converged(admin: Admin, members: int) -> GroupInfo:
    """Wait until the group has this many members and every queue of the topic has its target owner."""
    while True:
        info = await admin.group(GROUP)
        if len(info.members) == members and all(queue.settled for queue in info.queues if queue.queue.topic == TOPIC):
            return info
        await anyio.sleep(0.005)


def show(info: GroupInfo) -> None:
    """Print a line per member: `c1` for the instance name in its client id, `a0` for queue 0 of broker-a."""
    for member in info.members:
        own_queues = [
            each.queue for each in info.queues if each.owner == member.client_id and each.queue.topic == TOPIC
        ]
        queues = [f"{queue.broker_name[-1]}{queue.queue_id}" for queue in own_queues]
        print(f"    {member.client_id.partition('@')[2]}: {' '.join(queues)}")


async def main() -> None:
    """Start and stop consumers, and show the owners of the queues."""
    async with AsyncExitStack() as stack:
        data_dir = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        name_server = await stack.enter_async_context(run_name_server(NameServerConfig(listen="127.0.0.1:0")))
        for name in ("broker-a", "broker-b"):
            config = BrokerConfig(
                name=name, data_dir=data_dir / name, listen="127.0.0.1:0", name_servers=(name_server.address,)
            )
            await stack.enter_async_context(run_broker(config))
        admin = await stack.enter_async_context(Admin(name_server.address))
        while len(await admin.brokers()) < 2:
            await anyio.sleep(0.01)
        await admin.create_topic(TOPIC, queues=4)

        # Without a name of its own each consumer would get a random one; these make the output readable.
        consumers = {name: PushConsumer(name_server.address, GROUP, instance_name=name) for name in ("c1", "c2", "c3")}
        live: dict[str, PushConsumer] = {}
        for name, step in (("c1", "joins"), ("c2", "joins"), ("c3", "joins"), ("c2", "leaves"), ("c1", "leaves")):
            began = anyio.current_time()
            if step == "joins":
                live[name] = consumers[name]
                stack.push_async_callback(live[name].shutdown)
                await live[name].subscribe(TOPIC, on_messages)
                await live[name].start()
            else:
                await live.pop(name).shutdown()
            info = await converged(admin, len(live))
            print(f"{name} {step}: converged after {(anyio.current_time() - began) * 1000:.0f} ms")
            show(info)
            # The first change of a quiet group is notified at once; another one within 100 ms is delayed.
            await anyio.sleep(0.2)
        owners = {each.owner for each in (await admin.group(GROUP)).queues if each.queue.topic == TOPIC}
        print(f"{len(owners)} member has all queues")


if __name__ == "__main__":
    anyio.run(main)
