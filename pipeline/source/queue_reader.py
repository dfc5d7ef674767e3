"""Reads a range of one queue by pulls, like a consumer, but without joining a group or acquiring a lease.

The next pull is outstanding while the caller decodes the last one, which saves a fifth of the time. After a restart of
the broker, its address is looked up again by name, and the read continues at the same offset, because the log does not
change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from model.errors import NegativeAnswer, NetworkError, NotMaster, ServerError, TopicNotExist
from model.message import tag_hash
from model.response_code import ResponseCode
from pipeline.source.offsets import Range
from pipeline.source.options import SourceOptions
from pipeline.wire import WireClient, WireConnection, raise_refusal
from remoting.command import Command
from remoting.request_code import RequestCode

logger = logging.getLogger(__name__)

HINT = "set option failOnDataLoss to false to continue without them"

_FOUND = int(ResponseCode.SUCCESS)
_SKIPPED = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_AT_END = int(ResponseCode.PULL_NOT_FOUND)
_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)


class PulledRecords(NamedTuple):
    """The result of a pull.

    Attributes:
        end: offset of the next pull. In a read without tags and filter there is a record for each offset from `start`,
            unless it is damaged.
    """

    body: bytes  # concatenated records
    start: int  # requested offset
    end: int


class MessagesLost(NegativeAnswer):
    """Messages of a planned range were deleted, or records of it are not decodable."""


class QueueReader:
    """Reads one range; on errors it drops the connection of `client` to the broker."""

    def __init__(self, client: WireClient, queue_range: Range, options: SourceOptions) -> None:
        self.skipped = 0  # messages of the range that were found to be deleted
        self._client = client
        self.queue = queue_range.queue
        self.end = queue_range.end
        self._offset = queue_range.start
        self._options = options
        self._sent: tuple[WireConnection, int] | None = None
        self._sql = options.broker_filter
        self._hashes = None if options.tags is None else sorted({tag_hash(tag) for tag in options.tags})

    def pulls(self, following: QueueReader | None = None) -> Iterator[PulledRecords]:
        """Yield pulls that together hold every message of the range that is still stored.

        A pull may reach beyond the end of the range; with tags set, it may hold messages of other tags. The first pull
        of `following`, which is read next with the same client, is outstanding while the caller decodes the last pull
        here.

        Raises:
            MessagesLost: messages of the range were deleted, and `fail_on_data_loss` is set.
            RlabError: the broker cannot be reached, or refuses.
        """
        failures = 0
        while self._offset < self.end:
            try:
                connection, opaque = self._sent or self._send()
                answer = connection.receive(opaque)
            except (NetworkError, ServerError) as error:
                self._sent = None
                self._client.forget_broker(self.queue.broker_name)
                failures += 1
                self._client.wait_before_retry(failures, error)
                continue
            self._sent = None
            if (code := answer.code) in (_FOUND, _SKIPPED):
                failures = 0
                start, self._offset = self._offset, answer.header["next_offset"]
                self._send_ahead(following)
                yield PulledRecords((answer.body or b"") if code == _FOUND else b"", start, self._offset)
            else:
                failures = self._not_found(answer, failures)

    def _send(self) -> tuple[WireConnection, int]:
        connection = self._client.connect_broker(self.queue.broker_name)
        header: dict[str, object] = {
            "group": self._options.group,
            "topic": self.queue.topic,
            "queue_id": self.queue.queue_id,
            "offset": self._offset,
            "max_n": min(self._options.pull_batch, self.end - self._offset),
            "suspend_ms": 0,
        }
        code = RequestCode.PULL_MESSAGE
        if self._sql is not None:
            code, header["sql"] = RequestCode.PULL_MESSAGE_BY_SQL, self._sql
        elif self._hashes is not None:
            header["tag_hashes"] = self._hashes
        self._sent = connection, connection.send(code, header)
        return self._sent

    def _send_ahead(self, following: QueueReader | None) -> None:
        reader = self if self._offset < self.end else following
        if reader is None or reader._sent is not None:
            return
        try:
            reader._send()
        except (NetworkError, ServerError):
            # The pull that has arrived is returned first; the next iteration handles and counts the failure.
            reader._sent = None
            self._client.forget_broker(reader.queue.broker_name)

    def _not_found(self, answer: Command, failures: int) -> int:
        """Handle an answer without messages; returns the number of failures in a row."""
        if answer.code in (_AT_END, _MOVED):
            self._lost(answer.header["next_offset"], answer.header["min_offset"], answer.header["max_offset"])
            return 0
        try:
            raise_refusal(answer)
        except ServerError as error:
            if isinstance(error, NotMaster):
                self._client.failed(self.queue.broker_name, error)
            self._client.wait_before_retry(failures + 1, error)
        except TopicNotExist as error:
            if self._options.fail_on_data_loss:
                raise MessagesLost(f"{self._range()}: {error}; {HINT}") from error
            self._skip_to(self.end, "the topic was deleted")
        return failures + 1

    def _lost(self, next_offset: int, begin: int, end: int) -> None:
        text = f"offset {self._offset} was requested, and the broker has {begin} to before {end}"
        if self._options.fail_on_data_loss:
            raise MessagesLost(f"{self._range()}: {text}: messages were deleted before they were read; {HINT}")
        # If the queue ends before this offset, no message of the range is left.
        self._skip_to(min(next_offset, self.end) if next_offset > self._offset else self.end, text)

    def _skip_to(self, offset: int, why: str) -> None:
        self.skipped += offset - self._offset
        logger.warning("%s: skipping %d messages: %s", self._range(), offset - self._offset, why)
        self._offset = offset

    def _range(self) -> str:
        return f"queue {self.queue} up to offset {self.end}"
