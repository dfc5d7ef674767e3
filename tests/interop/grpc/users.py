"""A user of servers with access control, as a gRPC client for Python.

    python -I users.py ADDRESS TOPIC POLL_S NAME SECRET ACT...

ACT is `send` or `receive`, or both. It prints "ok", or what the client reports. The group is `TOPIC-g`.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

mq: Any = importlib.import_module("rocketmq")
WAIT_S = 40
address, topic, poll_s, name, secret, *acts = sys.argv[1:]
configuration = mq.ClientConfiguration(address, mq.Credentials(name, secret), request_timeout=3)


def receiving() -> Any:
    """A simple consumer that has received twice: its group is at the end of each queue."""
    consumer = mq.SimpleConsumer(configuration, f"{topic}-g", {topic: mq.FilterExpression("*")}, int(poll_s))
    consumer.startup()
    for _ in range(2):
        consumer.receive(1, 10)
    return consumer


def send() -> None:
    """Send one message."""
    producer = mq.Producer(configuration, (topic,))
    producer.startup()
    message = mq.Message()
    message.topic, message.body = topic, b"hello"
    producer.send(message)


def act() -> None:
    """Do what is asked for; with both acts the message has to arrive."""
    consumer = receiving() if "receive" in acts else None
    if "send" in acts:
        send()
    if consumer is not None and "send" in acts:
        found: list[Any] = []
        end = time.time() + WAIT_S
        while not found and time.time() < end:
            found += consumer.receive(16, 20) or []
        assert found, "the message did not come"
        consumer.ack(found[0])


error = ThreadPoolExecutor(1).submit(act).exception()
sys.stdout.write("ok\n" if error is None else " ".join(f"{type(error).__name__} {error}".split()) + "\n")
sys.stdout.flush()
os._exit(0)  # threads of the client remain
