"""SegmentReader: serves ranges of finished segments to replicas: of their index files, and of the log to repair it.

A replica asks for one range after the other, so the index file that was read last is kept until its end is sent.
"""

from __future__ import annotations

from broker.store.message_store import MessageStore
from model.errors import QueryNotFound
from remoting.command import Command, Reply


class SegmentReader:
    """See the module header."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._index: tuple[int, bytes] = (-1, b"")

    def read(self, request: Command) -> Reply:
        """Answer REPLICA_SEGMENT.

        Raises:
            QueryNotFound: there is no such segment, or it is not finished.
            StoreReadFailed: an I/O error.
        """
        header = request.header
        base, start, end = header["base"], header["start"], header["start"] + header["max_bytes"]
        if not header["index"]:
            return self._log(base, start, header["max_bytes"])
        if self._index[0] != base:
            data = self._store.index_bytes(base)
            if data is None:
                raise QueryNotFound(f"segment {base} has no index file: it is written, or gone")
            self._index = (base, data)
        data = self._index[1]
        if end >= len(data):
            self._index = (-1, b"")
        return Reply({"size": len(data)}, data[start:end])

    def _log(self, base: int, start: int, max_bytes: int) -> Reply:
        spans = {span.base_position: span for span in self._store.spans()[:-1]}
        span = spans.get(base)
        if span is None:
            raise QueryNotFound(f"there is no finished segment {base}")
        size = span.end_position - base
        data = b"" if start >= size else self._store.log_bytes(base + start, min(max_bytes, size - start))[0]
        return Reply({"size": size}, data)
