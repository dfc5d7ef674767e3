"""What servers of RocketMQ write as JSON, and is none."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rocketmq.frame import Frame
from rocketmq.outward.answers import index_by_queue, parse_json_body, run_calls
from rocketmq.outward.edge import Calls, StockCall

MINE = '{"brokerName":"b","queueId":3,"topic":"t"}'
QUOTED = MINE.replace('"', '\\"')


@pytest.mark.parametrize("key", [MINE, f'"{QUOTED}"'])
def test_queues_and_numbers_as_keys_are_read_with_and_without_quotation_marks(key: str) -> None:
    text = f'{{"a":{{0:"x",-1:"y"}},"offsetTable":{{{key}:{{"n":1}},{key.replace("3", "4")}:{{"n":2}}}}}}'
    found = parse_json_body(Frame(0, 1, 1, {}, text.encode()))
    assert found["a"] == {"0": "x", "-1": "y"}
    assert index_by_queue(found["offsetTable"]) == {("t", 3): {"n": 1}, ("t", 4): {"n": 2}}


def test_standard_json_is_read_as_it_is() -> None:
    assert parse_json_body(Frame(0, 1, 1, {}, b'{"a":"{b}:{c}:,3:4"}')) == {"a": "{b}:{c}:,3:4"}
    assert parse_json_body(Frame(0, 1, 1, {})) == {}


def test_many_calls_are_made_some_at_a_time_and_answered_in_their_order() -> None:
    made: list[int] = []

    def asking() -> Calls[None]:
        answers = yield from run_calls([StockCall(n) for n in range(600)])
        assert [each.code for each in answers] == list(range(600))

    steps, answers = asking(), None
    with suppress(StopIteration):
        while True:
            asked = next(steps) if answers is None else steps.send(answers)
            made.append(len(asked))
            answers = [Frame(call.code, 1, 1, {}) for call in asked]
    assert (len(made), max(made)) == (3, 256)
