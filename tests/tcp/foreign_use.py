"""Uses every kind of client where it does not belong: in a forked process, and in a second event loop.

`python -m tests.tcp.foreign_use NAMESERVER TOPIC` writes one JSON document: what each call raised in both places, which
requests left there, and the ids of messages that forked processes have sent with clients of their own.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from client import (
    Admin,
    LitePullConsumer,
    Message,
    MessageQueue,
    PopConsumer,
    Producer,
    PushConsumer,
    TransactionProducer,
)
from client.transactions.transaction import Transaction
from model.errors import RlabError
from model.offset_reset import ResetTo
from model.recall import RecallHandle
from model.topic_route import MessageType
from model.transaction import TransactionState
from remoting.connection import Connection

INTERNAL = {"start", "rebalance", "persist_offsets"}
"""Called by the client instance, or before a client belongs anywhere."""
PLAIN = {"PushConsumer.suspend", "PushConsumer.resume"}
"""What sends something, and is no coroutine function."""
MORE: dict[str, dict[str, Any]] = {"Admin.scale_topic": {"read": 2}, "Admin.set_group": {"consume": True}}
"""Arguments that are not required one by one."""
Calls = dict[str, Callable[[], Any]]


async def listener(*_: object) -> None:
    """Take messages and changes of queues."""


async def check(_: object) -> TransactionState:
    """Leave transactions open."""
    return TransactionState.UNKNOWN


def arguments(topic: str, transaction: Transaction) -> dict[str, Any]:
    """An argument for each required parameter of a client, by name."""
    queue, message = MessageQueue(topic, "broker-a", 0), Message(topic, b"foreign")
    return {
        **{"topic": topic, "topics": [topic], "queue": queue, "queues": [queue], "listener": listener, "group": "g"},
        **{"message": message, "messages": [message], "transaction": transaction, "broker": "broker-a", "key": "k"},
        **{"allowed": True, "to": ResetTo.earliest(), "mode": "POP", "offset": 0, "timestamp_ms": 0},
        **{"invisible_s": 30.0, "message_id": "0" * 24, "message_type": MessageType.NORMAL},
        "handle": RecallHandle(topic, "broker-a", 0, "0" * 24, 0).text(),
    }


def calls_of(client: Any, given: dict[str, Any]) -> Calls:
    """All calls of a client that may send something, with their names."""
    calls: Calls = {}
    for name, function in inspect.getmembers(type(client), inspect.isfunction):
        full_name = f"{type(client).__name__}.{name}"
        sends = inspect.iscoroutinefunction(function) or full_name in PLAIN
        if name.startswith("_") or name in INTERNAL or not sends:
            continue
        needed = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty][1:]
        positional = [given[each.name] for each in needed if each.kind is each.POSITIONAL_OR_KEYWORD]
        named = {each.name: given[each.name] for each in needed if each.kind is each.KEYWORD_ONLY}
        calls[full_name] = partial(getattr(client, name), *positional, **named, **MORE.get(full_name, {}))
    return calls


async def outcomes(calls: Calls) -> dict[str, str]:
    """What each of the calls raises, and under `requests` the codes of what this thread has sent."""
    found: dict[str, str] = {}
    sent: list[int] = []
    here, request_for = threading.get_ident(), Connection.request_for

    def watched(self: Connection, waiter: Any, code: int, *rest: Any) -> None:
        if threading.get_ident() == here:
            sent.append(code)
        request_for(self, waiter, code, *rest)

    Connection.request_for = watched  # type: ignore[method-assign,assignment]
    try:
        for name, call in calls.items():
            try:
                result = call()
                if isinstance(result, Coroutine):
                    await result
                found[name] = "nothing"
            except RlabError as error:
                found[name] = f"{type(error).__name__}: {error}"
    finally:
        Connection.request_for = request_for  # type: ignore[method-assign]
    return {**found, "requests": str(sent)}


def forked(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """The result of a coroutine in a forked process with an event loop of its own."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            asyncio.events._set_running_loop(None)
            os.write(writing, json.dumps(asyncio.new_event_loop().run_until_complete(work())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        return json.loads(stream.read())


async def main(name_server: str, topic: str) -> dict[str, Any]:
    """See the module header."""
    before_fork = Producer(name_server)

    async def started_after_the_fork() -> str:
        async with before_fork as producer:
            return (await producer.send(Message(topic, b"own"))).message_id

    async with AsyncExitStack() as stack:
        admin, producer = Admin(name_server), Producer(name_server)
        transactions = TransactionProducer(name_server, group="foreign-t", check=check)
        push, lite = (
            PushConsumer(name_server, group="foreign-push"),
            LitePullConsumer(name_server, group="foreign-lite"),
        )
        pop = PopConsumer(name_server, group="foreign-pop")
        clients: list[Any] = [admin, producer, transactions, push, lite, pop]
        for client in clients:
            await stack.enter_async_context(client)
        await admin.create_topic(topic, queues=1)
        await push.subscribe(topic, listener)
        await lite.subscribe(topic)
        await lite.register_topic_message_queue_change_listener(topic, listener)
        await pop.subscribe(topic)
        ids = [(await producer.send(Message(topic, b"parent"))).message_id for _ in range(3)]
        async with transactions.transaction(Message(topic, b"parent")) as transaction:
            transaction.state = TransactionState.COMMIT
            given = arguments(topic, transaction)
            calls = {name: call for client in clients for name, call in calls_of(client, given).items()}
            in_fork = forked(lambda: outcomes(calls))
            in_loop = await asyncio.to_thread(lambda: asyncio.run(outcomes(calls)))
        ids += [forked(started_after_the_fork) for _ in range(2)]
        ids.append((await producer.send(Message(topic, b"parent"))).message_id)
        info = await admin.broker_info("broker-a")
    [stored] = [each.ranges[0].max_offset for each in info.topics if each.config.topic == topic]
    return {"fork": in_fork, "loop": in_loop, "ids": ids, "stored": stored}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(*sys.argv[1:]))))
