from __future__ import annotations

import pytest

from broker.store.segments import control_record
from broker.store.segments.control_record import (
    QUEUE_TABLE,
    TOPIC_DROPPED,
    decode_queue_table,
    encode_queue_table,
    encode_topic_dropped,
)
from model.record import CONTROL_FLAG, HEADER, check_record, iter_records


@pytest.mark.parametrize("rows_per_record", [1, 2, 3, 100])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_queue_table_is_read_back_also_when_it_takes_several_records(
    monkeypatch: pytest.MonkeyPatch, count: int, rows_per_record: int
) -> None:
    monkeypatch.setattr(control_record, "_TABLE_ROWS_PER_RECORD", rows_per_record)
    ends = {(1, queue_id): queue_id * 10**12 for queue_id in range(count)}
    records = list(iter_records(encode_queue_table(ends, 5), check_crc=True))
    assert len(records) == max(1, -(-count // rows_per_record))
    assert all(record.flags == QUEUE_TABLE and record.stored_ms == 5 for record in records)
    assert {key: end for record in records for key, end in decode_queue_table(record.payload)} == ends


def test_the_end_of_a_topic_names_it() -> None:
    record = encode_topic_dropped(42, 5)
    check_record(record)
    _, _, topic_id, _, _, stored_ms, _, flags, _ = HEADER.unpack_from(record)
    assert (topic_id, stored_ms, flags) == (42, 5, TOPIC_DROPPED)
    assert QUEUE_TABLE & TOPIC_DROPPED & CONTROL_FLAG
