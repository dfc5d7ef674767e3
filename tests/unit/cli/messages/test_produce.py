from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.messages.produce import MAX_FAILURES_IN_A_ROW, Sending, open_input
from client.produce.producer import Producer
from model.errors import ConfigError, ConnectFailed, InvalidParameter, SystemError_, TopicNotExist
from model.message import MESSAGE_GROUP, Message, SendResult
from model.message_queue import MessageQueue
from testbed.simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation


class FakeProducer(Producer):
    """Takes messages after a moment; fails those that a rule names."""

    def __init__(self, simulation: Simulation, fails: Callable[[Message], Exception | None]) -> None:
        super().__init__("nobody:1")
        self._simulation = simulation
        self._fails = fails
        self.got: list[tuple[float, Message, str | None]] = []
        self.under_way = self.most_under_way = 0

    async def send(
        self,
        message: Message,
        *,
        key: str | None = None,
        queue: MessageQueue | None = None,
        delay_ms: int | None = None,
    ) -> SendResult:
        self.got.append((self._simulation.loop.time(), message, key))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await anyio.sleep(0.01)
        self.under_way -= 1
        error = self._fails(message)
        if error is not None:
            raise error
        return SendResult(MessageQueue(message.topic, "broker-a", 0), 0, "")

    async def queues(self, topic: str) -> list[MessageQueue]:
        if topic == "unknown":
            raise TopicNotExist("topic 'unknown' does not exist")
        return [MessageQueue(topic, "broker-a", 0)]

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for _, message, _ in self.got]


def produce(
    lines: bytes | None = None,
    *,
    topic: str = "t",
    in_flight: int = 4,
    fails: Callable[[Message], Exception | None] = lambda _: None,
    **given: Any,
) -> FakeProducer:
    """Send lines, or generated messages when there are none, in virtual time."""

    async def main(simulation: Simulation) -> None:
        producers.append(FakeProducer(simulation, fails))
        with tempfile.TemporaryFile() as file:
            file.write(lines or b"")
            file.seek(0)
            fd = None if lines is None else file.fileno()
            await Sending(producers[0], topic, fd, **given).run(in_flight, as_json=True)

    producers: list[FakeProducer] = []
    try:
        run_simulation(main)
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return producers[0]


def result(capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["sent", "failed", "seconds"]
    return document["sent"], document["failed"]


def test_each_line_is_a_message_and_empty_ones_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert produce(b"one\n\ntwo\nthree").bodies == [b"one", b"two", b"three"]
    assert result(capsys) == (3, 0)


def test_of_the_lines_only_so_many_are_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert produce(b"one\ntwo\nthree\n", count=2).bodies == [b"one", b"two"]
    assert result(capsys) == (2, 0)


def test_in_a_topic_of_fifo_messages_the_key_is_the_message_group() -> None:
    sent = produce(b"one\n", key="k", fifo=True).got + produce(b"two\n", key="k").got
    assert [(dict(message.properties), key) for _, message, key in sent] == [({MESSAGE_GROUP: "k"}, "k"), ({}, "k")]
    assert produce(b"three\n", fifo=True).got[0][1].properties == {}


def test_generated_messages_are_numbered_and_padded(capsys: pytest.CaptureFixture[str]) -> None:
    assert produce(count=2, size=12).bodies == [b"message 1...", b"message 2..."]
    assert produce(count=1, size=3).bodies == [b"message 1"]


def test_so_many_are_under_way_at_once_and_begin_in_order() -> None:
    producer = produce(count=50, in_flight=8)
    assert producer.most_under_way == 8
    assert producer.bodies == [f"message {n}".encode() for n in range(1, 51)]


def test_the_rate_is_kept_over_the_whole_run() -> None:
    times = [time_s for time_s, _, _ in produce(count=201, rate=50).got]
    assert times[-1] - times[0] == pytest.approx(200 / 50, abs=0.001)
    assert times[100] - times[0] == pytest.approx(100 / 50, abs=0.001)


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({}, [None, None]),
        ({"key": "k"}, ["k", "k"]),
        ({"key_regex": re.compile(b"[0-9]+")}, ["17", None]),
        ({"key_regex": re.compile(b"user=([a-z]+)|[0-9]+")}, [None, "eve"]),
        ({"key_regex": re.compile(b"[0-9]+"), "key": "none"}, ["17", "none"]),
    ],
)
def test_a_key_is_fixed_or_found_in_the_line(given: dict[str, Any], keys: list[str | None]) -> None:
    producer = produce(b"order 17\nuser=eve\n", tag="x", **given)
    assert [key for _, _, key in producer.got] == keys
    assert [list(message.keys) for _, message, _ in producer.got] == [[key] if key else [] for key in keys]
    assert {message.tags for _, message, _ in producer.got} == {"x"}


def test_messages_that_fail_are_counted_and_the_others_sent(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemError_, match=r"2 messages could not be sent; the last one: broker is away"):
        produce(count=20, fails=lambda m: ConnectFailed("broker is away") if m.body.endswith(b"7") else None)
    assert result(capsys) == (18, 2)


def test_an_error_that_would_hit_every_message_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidParameter, match=r"^message 3: no such queue"):
        produce(
            b"a\n\nb\nc\n", in_flight=1, fails=lambda m: InvalidParameter("no such queue") if m.body == b"b" else None
        )
    assert result(capsys) == (1, 1)


def test_a_topic_that_cannot_be_sent_to_is_reported_before_anything_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TopicNotExist):
        produce(b"a\nb\n", topic="unknown")
    assert result(capsys) == (0, 0)


def test_after_many_failures_in_a_row_the_rest_is_not_tried(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConnectFailed, match=f"stopped after {MAX_FAILURES_IN_A_ROW} failures in a row: away"):
        produce(count=10_000, fails=lambda _: ConnectFailed("away"))
    assert result(capsys) == (0, MAX_FAILURES_IN_A_ROW)


def test_lines_come_from_the_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("x")
    with open_input(tmp_path / "lines", None) as fd:
        assert fd not in (None, 0)
    with open_input(Path("-"), 3) as fd:
        assert fd == 0
    with open_input(None, None) as fd:
        assert fd == 0
    with open_input(None, 3) as fd:
        assert fd is None
    with pytest.raises(ConfigError, match=r"cannot read .*nope: No such file"), open_input(tmp_path / "nope", None):
        pass


@pytest.mark.parametrize(
    "arguments", [["t", "--count", "0"], ["t", "--rate", "0"], ["t", "--key-regex", "("], [], ["t", "f", "extra"]]
)
def test_wrong_usage_is_reported_before_anything_is_sent(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["produce", *arguments]).exit_code == 2
