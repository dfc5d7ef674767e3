"""Records are unpacked one by one, and what is missing or is no message is told."""

from __future__ import annotations

import logging

import pytest

from model.message import Message
from model.message_queue import MessageQueue
from model.record import RecordCorrupt
from pipeline.source.options import parse_options
from pipeline.source.queue_reader import MessagesLost, PulledRecords
from pipeline.source.records import Records, add_records, unpack_records
from tests.unit.pipeline.fake_cluster import record

QUEUE = MessageQueue("t", "a", 0)
STRICT = {"nameServer": "n:1", "subscribe": "t"}
BODY = b"".join(record(QUEUE, offset, Message("t", b"%d" % offset)) for offset in (0, 2))


def test_the_headers_and_payloads_of_whole_records_are_unpacked() -> None:
    into = Records([], [], [])
    unpack_records(QUEUE, BODY, into)
    assert into.numbers()["offset"].tolist() == [0, 2]
    assert [payload[1] for payload in into.payloads] == [b"0", b"2"]


@pytest.mark.parametrize("body", [BODY[:-1], BODY + b"x", BODY[:20]])
def test_bytes_that_are_not_whole_records_are_refused(body: bytes) -> None:
    with pytest.raises(RecordCorrupt, match="t@a:0"):
        unpack_records(QUEUE, body, Records([], [], []))


def test_a_record_that_is_missing_from_a_pull_is_an_error_or_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    pulled = PulledRecords(BODY, 0, 3)
    with pytest.raises(MessagesLost, match="1 of the messages from offset 0 to before 3 are damaged"):
        add_records(QUEUE, 3, pulled, Records([], [], []), parse_options(STRICT, streaming=False))
    careless = parse_options({**STRICT, "failOnDataLoss": "false"}, streaming=False)
    with caplog.at_level(logging.WARNING):
        add_records(QUEUE, 3, pulled, Records([], [], []), careless)
    assert "skipping them" in caplog.text
