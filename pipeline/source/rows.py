"""Decodes pulled records to rows, one tuple per message.

Used if an option turns Arrow off. The Arrow batches of `pipeline/source/columns.py` are twice as fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from pyspark.sql.types import StructType

from model.decode import Undecodable, decode_messages
from model.message import MessageExt
from model.message_queue import MessageQueue
from pipeline.source.columns import SCHEMA, UNFIT, report_damaged, report_unfit
from pipeline.source.options import SourceOptions
from pipeline.source.queue_reader import Pulled


def rows(
    queue: MessageQueue, end: int, pulls: Iterable[Pulled], options: SourceOptions, schema: StructType = SCHEMA
) -> Iterator[tuple[object, ...]]:
    """Decode pulls to one tuple per message; arguments and errors are those of `arrow_batches`."""
    names = schema.fieldNames()
    all_columns = names == SCHEMA.fieldNames()
    for pulled in pulls:
        unfit: list[Undecodable] = []
        messages = decode_messages(queue, pulled.body, unfit)
        report_unfit(unfit, end, options)
        if options.tags is None and len(messages) + len(unfit) < pulled.end - pulled.start:
            offsets = [*(one.offset for one in messages), *(one.offset for one in unfit)]
            report_damaged(queue, end, pulled, offsets, options)
        for message in messages:
            if message.offset < end and (options.tags is None or message.tags in options.tags):
                try:
                    row = _row(queue, message, options)
                except (*UNFIT, OSError) as error:  # OSError: a time that datetime cannot represent
                    report_unfit([Undecodable(queue, message.offset, str(error), 0)], end, options)
                    continue
                yield row if all_columns else tuple(row[_COLUMN_INDEX[name]] for name in names)


_COLUMN_INDEX = {name: index for index, name in enumerate(SCHEMA.fieldNames())}


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
        datetime.fromtimestamp(message.born_ms / 1000, UTC),
        datetime.fromtimestamp(message.stored_ms / 1000, UTC),
        message.times_delivered,
        dict(message.properties) if options.include_properties else None,
    )
