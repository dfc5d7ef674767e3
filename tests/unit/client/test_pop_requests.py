"""What a broker answers to a pop."""

from __future__ import annotations

import msgpack
import pytest

from client.pop_requests import decode_batches
from model.message import Message, encode_payload
from model.message_queue import MessageQueue
from model.record import RecordCorrupt, encode_record


def records(*offsets: int, failed: int = 0) -> bytes:
    payload = encode_payload(Message("orders", b"x"), 900, "id")
    return b"".join(encode_record(1, 2, offset, 1000, 0, 0, failed, payload) for offset in offsets)


def test_each_batch_gives_its_messages_their_queue_token_and_attempts() -> None:
    body = msgpack.packb(
        [
            ["orders", 2, 77, 5000, [1, 3], records(4, 6)],
            ["%RETRY%g", 0, 78, 6000, [2], records(0, failed=1)],
        ]
    )
    messages = decode_batches("broker-a", body)
    first, retry = MessageQueue("orders", "broker-a", 2), MessageQueue("%RETRY%g", "broker-a", 0)
    assert [(m.queue, m.offset, m.token, m.visible_ms, m.attempts) for m in messages] == [
        (first, 4, 77, 5000, 1),
        (first, 6, 77, 5000, 3),
        (retry, 0, 78, 6000, 2),
    ]


@pytest.mark.parametrize(
    "batches",
    [
        [["orders", 2, 77, 5000, [1], records(4, 6)]],
        [["orders", 2, 77, 5000, [1, 1], records(4, 6)[:-1]]],
        [["orders", 2, 77, 5000]],
        [5],
        7,
    ],
    ids=["too few attempts", "half a record", "too short", "no batch", "no batches"],
)
def test_a_damaged_answer_is_an_error_that_names_the_broker(batches: object) -> None:
    with pytest.raises(RecordCorrupt, match="broker-a"):
        decode_batches("broker-a", msgpack.packb(batches))
