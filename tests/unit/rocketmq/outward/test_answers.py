"""What servers of RocketMQ write as JSON, and is none."""

from __future__ import annotations

import pytest

from rocketmq.frame import Frame
from rocketmq.outward.answers import by_queue, json_of

MINE = '{"brokerName":"b","queueId":3,"topic":"t"}'
QUOTED = MINE.replace('"', '\\"')


@pytest.mark.parametrize("key", [MINE, f'"{QUOTED}"'])
def test_queues_and_numbers_as_keys_are_read_with_and_without_quotation_marks(key: str) -> None:
    text = f'{{"a":{{0:"x",-1:"y"}},"offsetTable":{{{key}:{{"n":1}},{key.replace("3", "4")}:{{"n":2}}}}}}'
    found = json_of(Frame(0, 1, 1, {}, text.encode()))
    assert found["a"] == {"0": "x", "-1": "y"}
    assert by_queue(found["offsetTable"]) == {("t", 3): {"n": 1}, ("t", 4): {"n": 2}}


def test_standard_json_is_read_as_it_is() -> None:
    assert json_of(Frame(0, 1, 1, {}, b'{"a":"{b}:{c}:,3:4"}')) == {"a": "{b}:{c}:,3:4"}
    assert json_of(Frame(0, 1, 1, {})) == {}
