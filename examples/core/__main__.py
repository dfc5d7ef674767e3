"""The story: three members join, one leaves, one is killed, and the topic grows.

    python -m examples.core

It prints the owner of each queue after each step, and in the end the number of messages that were received twice:
because two members had one queue for a moment, or because a member was killed before it had stored its offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from anyio.abc import SocketStream

from examples.core.allocate import MessageQueue
from examples.core.broker import Broker
from examples.core.member import Member
from examples.core.namesrv import NameServer
from examples.core.remoting import Connection, Handler

TOPIC, GROUP = "orders", "billing"
SEND_EVERY_S = 0.01


@asynccontextmanager
async def serve(handler: Handler, closed: Callable[[Connection], Any] | None = None) -> AsyncIterator[int]:
    """Serve on a free port of this machine while the block runs."""

    async def accept(stream: SocketStream) -> None:
        connection = Connection(stream, handler)
        await connection.run()
        if closed is not None:
            await closed(connection)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, accept)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


class Process:
    """A member with tasks of its own; when it is killed, the operating system closes its connections."""

    def __init__(self, client_id: str, received: Counter[str]) -> None:
        def listener(client_id: str, queue: MessageQueue, body: str) -> None:
            received[body] += 1

        self.member = Member(client_id, GROUP, TOPIC, self.connect, listener)

    async def connect(self, port: int, handler: Handler) -> Connection:
        """Open a connection; it ends with the process."""
        connection = Connection(await anyio.connect_tcp("127.0.0.1", port), handler)
        self.tasks.start_soon(connection.run)
        return connection

    async def run(self, name_server: int) -> None:
        """Run until shut down or killed."""
        async with anyio.create_task_group() as self.tasks:
            await self.member.start(self.tasks, name_server)

    def kill(self) -> None:
        """End at once. Messages whose offset was not persisted are redelivered."""
        self.tasks.cancel_scope.cancel()


async def produce(brokers: list[Broker], sent: Counter[str], enough: anyio.Event) -> None:
    """Send to all queues in turn until `enough` is set."""
    while not enough.is_set():
        for broker in brokers:
            for queue_id in range(broker.topics[TOPIC]):
                body = f"message {len(sent)}"
                sent[body] += 1
                broker.put_message(TOPIC, queue_id, body)
                await anyio.sleep(SEND_EVERY_S)


def has_unstored(member: Member, brokers: list[Broker]) -> bool:
    """Whether a member has received messages whose offset it has not stored yet."""
    stored = {broker.name: broker.offset_table for broker in brokers}
    return any(
        process_queue.offset > stored[queue.broker_name].get((GROUP, queue.topic, queue.queue_id), 0)
        for queue, process_queue in member.process_queue_table.items()
    )


async def show(step: str, members: dict[str, Process]) -> None:
    """Wait until the group is quiet, and print the queues of each member."""
    await anyio.sleep(0.8)
    parts = []
    for client_id, process in sorted(members.items()):
        parts.append(f"{client_id}: {' '.join(map(str, sorted(process.member.process_queue_table))) or '-'}")
    print(f"{step:<20} {'   '.join(parts)}")


async def story(
    brokers: list[Broker], name_server: NameServer, port: int, received: Counter[str], enough: anyio.Event
) -> None:
    """The steps."""
    members: dict[str, Process] = {}
    async with anyio.create_task_group() as processes:

        def join(client_id: str) -> None:
            members[client_id] = Process(client_id, received)
            processes.start_soon(members[client_id].run, port)

        for client_id in ("a", "b", "c"):
            join(client_id)
            await show(f"{client_id} joins", members)
        await members.pop("b").member.shutdown()
        await show("b leaves", members)
        killed = members.pop("c")
        while not has_unstored(killed.member, brokers):
            await anyio.sleep(SEND_EVERY_S)
        killed.kill()
        await show("c is killed", members)
        join("d")
        brokers[0].topics[TOPIC] += 2
        name_server.register_broker(brokers[0].name, name_server.broker_addr_table[brokers[0].name], brokers[0].topics)
        await show("d joins, topic grows", members)
        enough.set()
        await anyio.sleep(0.2)
        processes.cancel_scope.cancel()


async def main() -> None:
    """Start a name server and two brokers, and play the story on them."""
    name_server, sent, received = NameServer(), Counter[str](), Counter[str]()
    brokers = [Broker("broker-a", {TOPIC: 4}), Broker("broker-b", {TOPIC: 4})]
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serve(name_server.process_request))
        for broker in brokers:
            served = serve(broker.process_request, broker.do_channel_close_event)
            name_server.register_broker(broker.name, await stack.enter_async_context(served), broker.topics)
        producing, enough = await stack.enter_async_context(anyio.create_task_group()), anyio.Event()
        producing.start_soon(produce, brokers, sent, enough)
        await story(brokers, name_server, port, received, enough)
    twice = [body for body, times in received.items() if times > 1]
    print(f"twice: {', '.join(twice) or 'none'}")
    print(f"sent {len(sent)}, received {len(received)}, {len(twice)} of them twice")


if __name__ == "__main__":
    anyio.run(main)
