"""Runs features of the C++ client, through its Python package, and prints a line "feature NAME OUTCOME" for each.

Its arguments are the directory of that package, whose name is that of a room of this project, the address of the name
server, and what is in the names of the features to run, if not all. `--try` instead of an address only imports it.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, sys.argv.pop(1))
mq: Any = importlib.import_module("rocketmq.client")
pause = threading.Event().wait
server = sys.argv[1]
if server == "--try":
    sys.exit()
run = f"{time.time_ns() // 1_000_000 % 100_000_000:x}"
kept: list[Any] = []
"""Every consumer: one that is collected is shut down a second time, and the library does not survive that."""
producer = mq.Producer("interop-cpp", max_message_size=5 * 1024 * 1024)


failed: type[Exception] = importlib.import_module("rocketmq.exceptions").RocketMQException


def named(name: str) -> str:
    """The topic of a feature in this run."""
    return f"{name}-{run}"


def message_of(topic: str, body: str, *, tag: str = "", key: str = "") -> Any:
    """Make a message."""
    message = mq.Message(topic)
    message.set_tags(tag)
    message.set_keys(key)
    message.set_body(body)
    return message


class Received(dict[str, Any]):
    """The parts of a message, read inside its callback: its memory is gone after that."""

    def __init__(self, message: Any) -> None:
        super().__init__(
            body=message.body,
            tags=message.tags,
            keys=message.keys,
            id=message.id,
            queue=(message.queue_id, message.queue_offset),
            times=message.reconsume_times,
            stored=message.store_timestamp,
            born=message.born_timestamp,
            colour=message.get_property("colour"),
        )


def first(topic: str) -> None:
    """Start the group before there is a message that counts: this client begins at the end of a queue."""
    producer.send_sync(message_of(topic, "first"))


def sent_and_received(topic: str, send: Callable[[], Any], n: int, expression: str = "*", **options: Any) -> list[Any]:
    """Start a consumer, send, and return what came; the topic is there before."""
    first(topic)
    got: queue.Queue[Received] = queue.Queue()
    fails = options.pop("fails", False)

    def listen(message: Any) -> None:
        received = Received(message)
        if received["body"] == b"first":
            return
        got.put(received)
        if fails and not received["times"]:
            raise ValueError("not yet")

    consumer = mq.PushConsumer(f"g-{topic}", **options)
    kept.append(consumer)
    consumer.set_namesrv_addr(server)
    consumer.subscribe(topic, listen, expression)
    consumer.start()
    pause(15)  # it rebalances every 10 s
    try:
        send()
        return [got.get(timeout=60) for _ in range(n)]
    finally:
        consumer.shutdown()


def send() -> None:
    """One message with everything that it can have."""
    topic = named("send")
    message = message_of(topic, "hello", tag="red", key="k1")
    message.set_property("colour", "blue")
    sent: list[Any] = []
    [got] = sent_and_received(topic, lambda: sent.append(producer.send_sync(message)), 1)
    assert (got["body"], got["tags"], got["keys"]) == (b"hello", b"red", b"k1"), got
    assert got["colour"] == b"blue", got
    assert sent[0].offset in (got["queue"][1], str(got["queue"][1])), (sent, got)


def send_async() -> None:
    """The answers come to a callback."""
    topic = named("async")
    answers: queue.Queue[Any] = queue.Queue()

    def some() -> None:
        for n in range(5):
            producer.send_async(message_of(topic, str(n)), answers.put, answers.put)

    sent_and_received(topic, some, 5)
    outcomes = [answers.get(timeout=10) for _ in range(5)]
    assert not any(isinstance(each, Exception) for each in outcomes), outcomes


def selector() -> None:
    """All messages of a key are in one queue, in their order."""
    topic = named("order")

    def some() -> None:
        for n in range(12):
            producer.send_orderly(message_of(topic, f"{n:02}"), n % 3)

    got = {each["body"]: each["queue"] for each in sent_and_received(topic, some, 12)}
    for key in range(3):
        places = [got[b"%02d" % n] for n in range(key, 12, 3)]
        assert len({queue_id for queue_id, _ in places}) == 1, places
        assert places == sorted(places), places


def pull() -> None:
    """A consumer that pulls the queues itself."""
    topic = named("pull")
    for n in range(10):
        producer.send_sync(message_of(topic, str(n)))
    consumer = mq.PullConsumer(f"g-{topic}")
    kept.append(consumer)
    consumer.set_namesrv_addr(server)
    consumer.start()
    pause(5)
    assert sorted(int(each.body) for each in consumer.pull(topic)) == list(range(10))


def one_way() -> None:
    """Nobody answers."""
    topic = named("oneway")
    sent_and_received(topic, lambda: [producer.send_oneway(message_of(topic, str(n))) for n in range(5)], 5)


def batch() -> None:
    """Several messages in one request."""
    topic = named("batch")
    sent_and_received(topic, lambda: producer.send_batch([message_of(topic, str(n)) for n in range(5)]), 5)


def delay() -> None:
    """Level 2 is 5 seconds."""
    topic = named("delay")
    message = message_of(topic, "later")
    message.set_delay_time_level(2)
    [got] = sent_and_received(topic, lambda: producer.send_sync(message), 1)
    assert 4900 <= got["stored"] - got["born"] < 7000, got


def large() -> None:
    """The client compresses it."""
    topic = named("large")
    body = "x" * (4 * 1024 * 1024 - 1024)
    [got] = sent_and_received(topic, lambda: producer.send_sync(message_of(topic, body)), 1)
    assert got["body"] == body.encode(), len(got["body"])


def tags() -> None:
    """Only those of two tags come."""
    topic = named("tags")

    def some() -> None:
        for tag in ("a", "b", "c", "a"):
            producer.send_sync(message_of(topic, tag, tag=tag))

    assert sorted(got["body"] for got in sent_and_received(topic, some, 3, "a || c")) == [b"a", b"a", b"c"]


def retry() -> None:
    """A message that failed comes again."""
    topic = named("retry")
    times = [
        got["times"]
        for got in sent_and_received(topic, lambda: producer.send_sync(message_of(topic, "r")), 2, fails=True)
    ]
    assert times == [0, 1], times


def orderly() -> None:
    """In the order of each queue."""
    topic = named("orderly")

    def some() -> None:
        for n in range(30):
            producer.send_orderly(message_of(topic, str(n)), n % 3)

    got = sent_and_received(topic, some, 30, orderly=True)
    for queue_id in {each["queue"][0] for each in got}:
        offsets = [each["queue"][1] for each in got if each["queue"][0] == queue_id]
        assert offsets == sorted(offsets), offsets


def broadcasting() -> None:
    """Every member gets it."""
    topic = named("broadcast")
    model = mq.MessageModel.BROADCASTING
    sent_and_received(topic, lambda: producer.send_sync(message_of(topic, "all")), 1, message_model=model)


def consume(group: str, topic: str) -> None:
    """Print a line for each message of a topic until this process is killed."""

    def listen(message: Any) -> None:
        sys.stdout.write(f"m {message.body.decode()}\n")
        sys.stdout.flush()

    consumer = mq.PushConsumer(group)
    consumer.set_namesrv_addr(server)
    consumer.subscribe(topic, listen)
    consumer.start()
    pause()


def main() -> None:
    """Run all of them."""
    if len(sys.argv) > 2 and sys.argv[2] == "consume":
        consume(sys.argv[3], sys.argv[4])
    producer.set_namesrv_addr(server)
    producer.start()
    features = {
        **{"send, and properties": send, "send one-way": one_way, "batch": batch, "delay level": delay},
        **{"body of 4 MiB, compressed": large, "tags": tags, "retry": retry, "orderly consumer": orderly},
        **{"broadcasting": broadcasting, "send async": send_async, "order by selector": selector},
        **{"pull consumer": pull},
    }
    for name, feature in features.items():
        if len(sys.argv) > 2 and sys.argv[2] not in name:
            continue
        outcome = "ok"
        try:
            feature()
        except (AssertionError, LookupError, TypeError, ValueError, queue.Empty, failed) as error:
            outcome = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        sys.stdout.write(f"feature\t{name}\t{outcome}\n")
        sys.stdout.flush()
    os._exit(0)  # its threads do not always end


main()
