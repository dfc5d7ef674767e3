"""Decodes pulled records to rows, one message after another: the naive twin of `pipeline/source/columns.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from pyspark.sql.types import StructType

from model.decode import decode_or_keep
from model.message import MessageExt
from model.message_queue import MessageQueue
from model.record import StoredRecord, iter_records
from pipeline.source.columns import SCHEMA, UNFIT
from pipeline.source.options import SourceOptions
from pipeline.source.queue_reader import PulledRecords
from pipeline.source.records import report_damaged, report_no_message


def rows(
    queue: MessageQueue, end: int, pulls: Iterable[PulledRecords], options: SourceOptions, schema: StructType = SCHEMA
) -> Iterator[tuple[object, ...]]:
    """Decode pulls to one tuple per message; arguments and errors are as in `arrow_batches`."""
    names = schema.fieldNames()
    all_columns = names == SCHEMA.fieldNames()
    for pulled in pulls:
        kept = decode_or_keep(queue, pulled.body)
        if not options.is_filtered and len(kept) < pulled.end - pulled.start:
            report_damaged(queue, end, pulled, [message.offset for message, _ in kept], options)
        for (message, reason), record in zip(kept, iter_records(pulled.body), strict=True):
            if message.offset >= end or (not reason and options.tags is not None and message.tags not in options.tags):
                continue
            row, unfit = _row_or_reason(queue, message, reason, options)
            if row is None:
                report_no_message(queue, message.offset, unfit, options)
                if options.tags is not None:
                    continue
                row = _row_of_bytes(queue, record, options)
            yield row if all_columns else tuple(row[_COLUMN_INDEX[name]] for name in names)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_COLUMN_INDEX = {name: index for index, name in enumerate(SCHEMA.fieldNames())}


def _row_or_reason(
    queue: MessageQueue, message: MessageExt, reason: str, options: SourceOptions
) -> tuple[tuple[object, ...] | None, str]:
    """Return the row of a message, or the reason why it has no row: some messages do not fit into columns."""
    if reason:
        return None, reason
    try:
        return _row(queue, message, options), ""
    except UNFIT as error:
        return None, str(error)


def _row_of_bytes(queue: MessageQueue, record: StoredRecord, options: SourceOptions) -> tuple[object, ...]:
    body = record.payload if options.include_body else None
    stored = _time(record.stored_ms)
    place = (queue.topic, queue.broker_name, queue.queue_id, record.queue_offset)
    return (*place, None, None, body, None, None, stored, record.times_delivered, None)


def _row(queue: MessageQueue, message: MessageExt, options: SourceOptions) -> tuple[object, ...]:
    return (
        queue.topic,
        queue.broker_name,
        queue.queue_id,
        message.offset,
        " ".join(message.keys) if message.keys else None,
        message.tags or None,
        message.body if options.include_body else None,
        message.message_id,
        _time(message.born_ms),
        _time(message.stored_ms),
        message.times_delivered,
        dict(message.properties) if options.include_properties else None,
    )


def _time(milliseconds: int) -> datetime | None:
    """Return a time, exact to the millisecond; None outside of the range of dates (a producer's wrong clock)."""
    try:
        return _EPOCH + _MILLISECOND * milliseconds
    except OverflowError:
        return None
