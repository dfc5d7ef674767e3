"""The features of RocketMQ's gRPC client for Python, one after another.

    python -I features.py ADDRESS PREFIX [POLL_S RETRY_S [FEATURE ...]]

It runs by itself, in an environment that has `rocketmq-python-client` and not this project: both have a package
`rocketmq`. Each feature uses the topic `PREFIX-number` and the group `PREFIX-number-g`, which exist already. A simple
consumer lets a receive wait POLL_S seconds, and a failed message has to come again within RETRY_S seconds. Named
features are run alone.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

mq: Any = importlib.import_module("rocketmq")
pause = threading.Event().wait
address, prefix = sys.argv[1:3]
poll_s, retry_s = (int(text) for text in (sys.argv[3:5] if sys.argv[4:] else ("2", "16")))
configuration = mq.ClientConfiguration(address, mq.Credentials(), request_timeout=3)
pool = ThreadPoolExecutor(2)
WAIT_S = 40


def error_of(call: Callable[..., Any], *arguments: Any) -> str:
    """What a call raises, of whatever class, which the client has none of its own for; "" if it returns."""
    error = pool.submit(call, *arguments).exception()
    return "" if error is None else f"{type(error).__name__} {error}"


def message(topic: str, body: bytes, **more: Any) -> Any:
    """A message of a topic."""
    made = mq.Message()
    made.topic, made.body = topic, body
    for name, value in more.items():
        setattr(made, name, value)
    return made


class Simple:
    """A simple consumer that has received once: its group is at the end of each queue."""

    def __init__(self, topic: str, group: str, tags: str = "*") -> None:
        self.consumer = mq.SimpleConsumer(configuration, group, {topic: mq.FilterExpression(tags)}, poll_s)
        self.consumer.startup()
        for _ in range(4):  # each receive is of the next queue, as the client counts
            self.consumer.receive(1, 10)

    def take(self, n: int, invisible_s: int = 20) -> list[Any]:
        """Receive so many messages."""
        found: list[Any] = []
        end = time.time() + WAIT_S
        while len(found) < n and time.time() < end:
            found += self.consumer.receive(16, invisible_s) or []
        assert len(found) == n, f"{len(found)} messages instead of {n}"
        return found

    def ack(self, *messages: Any) -> None:
        """Acknowledge messages."""
        for each in messages:
            self.consumer.ack(each)


class Listener:
    """Keeps what it gets; fails for the bodies of `fails` the first time."""

    def __init__(self, *fails: bytes) -> None:
        self.got: list[tuple[bytes, int, float]] = []
        self.fails = list(fails)

    def consume(self, received: Any) -> Any:
        """Called by the client, in one of its threads."""
        self.got.append((bytes(received.body), received.delivery_attempt, time.time()))
        if received.body in self.fails:
            self.fails.remove(received.body)
            return mq.ConsumeResult.FAILURE
        return mq.ConsumeResult.SUCCESS

    def until(self, n: int) -> list[bytes]:
        """Wait for so many messages; returns their bodies in their order."""
        end = time.time() + WAIT_S
        while len(self.got) < n and time.time() < end:
            pause(0.05)
        assert len(self.got) >= n, f"{len(self.got)} messages instead of {n}"
        return [body for body, _, _ in self.got]


listening: Callable[..., Any] = type("Listening", (Listener, mq.MessageListener), {})


def pushing(topic: str, group: str, listener: Any) -> Any:
    """A push consumer that has received once."""
    consumer = mq.PushConsumer(configuration, group, listener, {topic: mq.FilterExpression("*")})
    consumer.startup()
    pause(4)
    return consumer


def send_and_properties(producer: Any, topic: str, group: str) -> None:
    """What a producer sends is what a consumer reads."""
    simple = Simple(topic, group)
    sent = message(topic, b"hello", tag="red", keys="k1")
    sent.add_property("mine", "\xfc")
    receipt = producer.send(sent)
    [got] = simple.take(1)
    assert (got.body, got.tag, list(got.keys)) == (b"hello", "red", ["k1"]), got
    assert (got.properties["mine"], got.message_id) == ("\xfc", receipt.message_id), got.properties
    simple.ack(got)
    simple.consumer.shutdown()


def large_body(producer: Any, topic: str, group: str) -> None:
    """A body of the largest size."""
    simple = Simple(topic, group)
    producer.send(message(topic, b"x" * 4 * 1024 * 1024))
    [got] = simple.take(1)
    assert len(got.body) == 4 * 1024 * 1024
    simple.ack(got)
    simple.consumer.shutdown()


def unknown_topic(producer: Any, topic: str, group: str) -> None:
    """A topic that does not exist is refused."""
    error = error_of(producer.send, message(f"{topic}-nowhere", b"x"))
    assert "route" in error, error or "it was sent"


def acknowledge(producer: Any, topic: str, group: str) -> None:
    """What was acknowledged does not come again, and its handle is dead."""
    simple = Simple(topic, group)
    producer.send(message(topic, b"one"))
    [got] = simple.take(1, 10)
    simple.ack(got)
    error_of(simple.ack, got)  # RocketMQ's broker takes a second one
    pause(11)
    assert not simple.consumer.receive(16, 10)
    simple.consumer.shutdown()


def comes_again(producer: Any, topic: str, group: str) -> None:
    """A message that is not acknowledged is delivered again."""
    simple = Simple(topic, group)
    producer.send(message(topic, b"one"))
    simple.take(1, 10)
    began = time.time()
    [again] = simple.take(1, 10)
    assert (again.body, again.delivery_attempt) == (b"one", 2), again
    assert time.time() - began > 5
    simple.ack(again)
    simple.consumer.shutdown()


def change_invisible(producer: Any, topic: str, group: str) -> None:
    """An invisible time that is made longer lasts, and the client goes on with the new handle."""
    simple = Simple(topic, group)
    producer.send(message(topic, b"one"))
    [got] = simple.take(1, 10)
    simple.consumer.change_invisible_duration(got, 30)
    pause(11)
    assert not simple.consumer.receive(16, 10)
    simple.ack(got)
    simple.consumer.shutdown()


def empty_receive(producer: Any, topic: str, group: str) -> None:
    """A receive of nothing ends at its time."""
    simple = Simple(topic, group)
    began = time.time()
    assert not simple.consumer.receive(16, 10)
    assert poll_s - 1 < time.time() - began < poll_s + 4, time.time() - began
    simple.consumer.shutdown()


def tags(producer: Any, topic: str, group: str) -> None:
    """Only messages with the tags of the filter come."""
    simple = Simple(topic, group, "a||b")
    for tag in "abc":
        producer.send(message(topic, tag.encode(), tag=tag))
    got = simple.take(2)
    assert sorted(each.body for each in got) == [b"a", b"b"]
    simple.ack(*got)
    simple.consumer.shutdown()


def delay(producer: Any, topic: str, group: str) -> None:
    """A message comes at its time."""
    simple = Simple(topic, group)
    due = int(time.time()) + 4
    producer.send(message(topic, b"later", delivery_timestamp=due))
    [got] = simple.take(1)
    assert time.time() >= due - 0.1, "it came too soon"
    simple.ack(got)
    simple.consumer.shutdown()


def push(producer: Any, topic: str, group: str) -> None:
    """A push consumer gets each message once."""
    listener = listening()
    consumer = pushing(topic, group, listener)
    for n in range(50):
        producer.send(message(topic, b"%02d" % n))
    assert sorted(listener.until(50)) == [b"%02d" % n for n in range(50)]
    pause(2)
    assert len(listener.got) == 50
    consumer.shutdown()


def retry(producer: Any, topic: str, group: str) -> None:
    """A failed message comes again after the first delay of 10 s."""
    listener = listening(b"fails")
    consumer = pushing(topic, group, listener)
    producer.send(message(topic, b"fails"))
    listener.until(2)
    (_, one, first), (_, two, second) = listener.got
    assert (one, two) == (1, 2), listener.got
    assert 9 < second - first < retry_s, second - first
    consumer.shutdown()


def two_members(producer: Any, topic: str, group: str) -> None:
    """Two members share the messages of one topic, each of which comes once."""
    listeners = [listening(), listening()]
    consumers = [pushing(topic, group, each) for each in listeners]
    for n in range(200):
        producer.send(message(topic, b"%03d" % n))
    end = time.time() + WAIT_S
    while sum(len(each.got) for each in listeners) < 200 and time.time() < end:
        pause(0.1)
    got = sorted(body for each in listeners for body, _, _ in each.got)
    assert got == [b"%03d" % n for n in range(200)], len(got)
    assert all(each.got for each in listeners), [len(each.got) for each in listeners]
    for consumer in consumers:
        consumer.shutdown()


def fifo(producer: Any, topic: str, group: str) -> None:
    """Messages of a group come in their order."""
    listener = listening()
    consumer = pushing(topic, group, listener)
    for n in range(20):
        producer.send(message(topic, b"%02d" % n, message_group=f"group-{n % 2}"))
    got = listener.until(20)
    for of_group in (0, 1):
        mine = [body for body in got if int(body) % 2 == of_group]
        assert mine == sorted(mine), mine
    consumer.shutdown()


def recall(producer: Any, topic: str, group: str) -> None:
    """A delayed message that is recalled does not come, and another one does."""
    simple = Simple(topic, group)
    due = int(time.time()) + 4
    recalled, _ = (producer.send(message(topic, body, delivery_timestamp=due)) for body in (b"recalled", b"other"))
    assert producer.recall_message(topic, recalled.recall_handle) == recalled.message_id
    [got] = simple.take(1)
    assert got.body == b"other", got
    simple.ack(got)
    assert not simple.consumer.receive(16, 10), "the recalled message came"
    simple.consumer.shutdown()


class Checker:
    """Answers checks of transactions, and keeps the bodies that it was asked about."""

    def __init__(self, resolution: Any) -> None:
        self.asked: list[bytes] = []
        self.resolution = resolution

    def check(self, half: Any) -> Any:
        """Called by the client, in one of its threads."""
        self.asked.append(bytes(half.body))
        return self.resolution


checking: Callable[..., Any] = type("Checking", (Checker, mq.TransactionChecker), {})


def begun(producer: Any, topic: str, body: bytes) -> Any:
    """A transaction whose half message is sent."""
    transaction = producer.begin_transaction()
    producer.send(message(topic, body), transaction)
    return transaction


def transactions(producer: Any, topic: str, group: str) -> None:
    """A commit publishes its message, and a rollback publishes nothing."""
    simple = Simple(topic, group)
    sender = mq.Producer(configuration, (topic,), checker=checking(mq.TransactionResolution.COMMIT))
    sender.startup()
    begun(sender, topic, b"no").rollback()
    transaction = begun(sender, topic, b"yes")
    assert not simple.consumer.receive(16, 10), "a half message came"
    transaction.commit()
    [got] = simple.take(1)
    assert got.body == b"yes", got
    simple.ack(got)
    simple.consumer.shutdown()
    sender.shutdown()


def orphans(producer: Any, topic: str, group: str) -> None:
    """A half message of a producer that is gone is checked at another one of the topic, whose answer ends it."""
    simple = Simple(topic, group)
    gone = mq.Producer(configuration, (topic,), checker=checking(mq.TransactionResolution.ROLLBACK))
    gone.startup()
    begun(gone, topic, b"orphan")
    gone.shutdown()
    checker = checking(mq.TransactionResolution.COMMIT)
    other = mq.Producer(configuration, (topic,), checker=checker)
    other.startup()
    [got] = simple.take(1)
    assert (got.body, checker.asked) == (b"orphan", [b"orphan"]), (got, checker.asked)
    simple.ack(got)
    simple.consumer.shutdown()
    other.shutdown()


FEATURES: tuple[tuple[str, str, Callable[[Any, str, str], None]], ...] = (
    ("send, and properties", "NORMAL", send_and_properties),
    ("body of 4 MiB", "NORMAL", large_body),
    ("unknown topic refused", "NORMAL", unknown_topic),
    ("delay", "DELAY", delay),
    ("recall", "DELAY", recall),
    ("simple: acknowledged once", "NORMAL", acknowledge),
    ("simple: redelivered", "NORMAL", comes_again),
    ("simple: longer invisible", "NORMAL", change_invisible),
    ("simple: empty receive", "NORMAL", empty_receive),
    ("tags", "NORMAL", tags),
    ("push", "NORMAL", push),
    ("push: retry", "NORMAL", retry),
    ("push: two members share", "NORMAL", two_members),
    ("push: FIFO in order", "FIFO", fifo),
    ("transaction: commit, rollback", "TRANSACTION", transactions),
    ("transaction: checked elsewhere", "TRANSACTION", orphans),
)


def print_fields() -> None:
    """Print the fields of all messages of the protocol: message, number, name, type of a message or a number, list."""
    for name in ("definition_pb2", "service_pb2"):
        module = importlib.import_module(f"rocketmq.grpc_protocol.{name}")
        for message in module.DESCRIPTOR.message_types_by_name.values():
            for field in message.fields:
                kind = field.message_type.name if field.message_type is not None else field.type
                line = (message.name, field.number, field.name, kind, field.is_repeated)
                sys.stdout.write("\t".join(map(str, line)) + "\n")


def main() -> None:
    """Run the features, and print the outcome of each in a line."""
    if "--list" in sys.argv:
        for number, (_, kind, _) in enumerate(FEATURES):
            sys.stdout.write(f"{prefix}-{number}\t{kind}\n")
        return
    if "--fields" in sys.argv:
        print_fields()
        return
    chosen = {
        f"{prefix}-{number}": (name, run)
        for number, (name, _, run) in enumerate(FEATURES)
        if name in sys.argv[5:] or not sys.argv[5:]
    }
    producer = mq.Producer(configuration, list(chosen))
    producer.startup()
    for topic, (name, run) in chosen.items():
        outcome = " ".join(error_of(run, producer, topic, f"{topic}-g").split())[:170] or "ok"
        sys.stdout.write(f"feature\t{name}\t{outcome}\n")
        sys.stdout.flush()
    producer.shutdown()


main()
