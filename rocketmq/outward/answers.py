"""Reads the answers of RocketMQ's servers, and packs our client's form of them. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

import msgpack

from rocketmq.frame import Frame
from rocketmq.outward.edge import Calls, RefusedByServer, StockCall

_NUMBER_AS_KEY = re.compile(r"([{,])(-?\d+):")
_TOGETHER = 256
"""Calls at a time; far fewer than may be outstanding on a connection."""
_OBJECT_AS_KEY = re.compile(r"([{,])(\{[^{}]*\}):")


def check_answer(frame: Frame, *others: int) -> Frame:
    """The answer, if its code is success or one of the others."""
    if frame.code and frame.code not in others:
        raise RefusedByServer(frame)
    return frame


def run_calls(calls: list[StockCall]) -> Calls[list[Frame]]:
    """Make many calls, a limited number at a time: a broker with thousands of topics is asked about each."""
    answers: list[Frame] = []
    for first in range(0, len(calls), _TOGETHER):
        answers += yield calls[first : first + _TOGETHER]
    return answers


def parse_json_body(frame: Frame) -> Any:
    """The body of an answer, whose keys may lack quotation marks.

    Servers write {"brokerAddrs":{0:"h:1"}} and {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{...}}}.
    """
    text = (check_answer(frame).body or b"{}").decode()
    try:
        return json.loads(text)
    except ValueError:
        text = _OBJECT_AS_KEY.sub(lambda match: f"{match[1]}{json.dumps(match[2])}:", text)
        return json.loads(_NUMBER_AS_KEY.sub(r'\1"\2":', text))


def index_by_queue(table: dict[str, Any]) -> dict[tuple[str, int], Any]:
    """A table whose keys are queues, by topic and queue id."""
    queues = {name: json.loads(name) for name in table}
    return {(queue["topic"], queue["queueId"]): table[name] for name, queue in queues.items()}


def pack_body(value: object) -> bytes:
    """A body in our form."""
    written: bytes = msgpack.packb(value)
    return written


def unpack_body(body: bytes) -> Any:
    """The value in a body of our form."""
    return msgpack.unpackb(body)
