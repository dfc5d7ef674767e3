"""ReplicaSession: one connected replica at its master; it builds the frames and pushes them.

The bytes of the log come from the files only, at any lag: `pread` of the page cache costs less than memory that is kept
for the slowest replica. A replica that follows gets a frame with each flush, at once. A replica that catches up gets a
frame per event-loop iteration. While messages are written it gets frames each `REPLICA_PAUSE_S` only, so that sends
have their turn, but at least `REPLICA_CATCH_UP_SHARE` times the bytes that were written since, so that it catches up.

Acknowledgements pace the stream, and not the transport: the unacknowledged bytes are limited to a window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from broker.durability.metadata import MetadataStore
from broker.store.message_store import MessageStore
from model.errors import RlabError
from model.replica_limits import (
    REPLICA_CATCH_UP_SHARE,
    REPLICA_CATCH_UP_WINDOW_BYTES,
    REPLICA_CHANGES_BYTES,
    REPLICA_FRAME_BYTES,
    REPLICA_PAUSE_S,
    REPLICA_WINDOW_BYTES,
)
from remoting.connection import Connection
from replica.lease.held import HeldLease
from replica.stream.commit_point import CommitPoint
from replica.stream.frames import NO_BASE, LogFrame, TableFrame
from replica.stream.kept import KeptChanges
from replica.stream.phases import Phase, ReplicaPhases


class HasEnded(Protocol):
    """Called when a session cannot go on; its connection is closed with it."""

    def __call__(self, session: ReplicaSession, reason: str) -> None:
        """See the class."""


@dataclass(frozen=True, slots=True)
class StreamSource:
    """The parts of a master that its sessions read."""

    epoch: int
    loop: asyncio.AbstractEventLoop
    store: MessageStore
    metadata: MetadataStore
    commit: CommitPoint
    kept: KeptChanges
    lease: HeldLease
    ended: HasEnded


class ReplicaSession:
    """See the module header.

    Attributes:
        connection: to the replica.
        replica: its phases; attached when the stream begins.
        incarnation: the start of the replica's process.
        position: log position at which the replica's log has to end when the stream begins.
        has_begun: whether the replica's log ends there, so that frames are sent.
    """

    def __init__(
        self, source: StreamSource, connection: Connection, replica: ReplicaPhases, incarnation: int, position: int
    ) -> None:
        self.connection = connection
        self.replica = replica
        self.incarnation = incarnation
        self.position = position
        self.has_begun = False
        self._source = source
        self._changes_n = -1  # newest flush whose changes are sent
        self._chunks: Iterator[bytes] = iter(())
        self._chunk: bytes | None = None
        self._part = 0
        self._snapshot_n = -1
        self._next_turn: asyncio.Handle | None = None
        self._turn_n = source.commit.n  # at the last turn of catching up
        self._turn_position = source.store.written_position

    @property
    def kept_from(self) -> int | None:
        """Newest flush whose changes need not be kept for this replica; None while it gets the log from the files."""
        if self.replica.phase is Phase.FOLLOWING:
            return self.replica.sent_n
        return self._snapshot_n if self.replica.phase is Phase.SNAPSHOT else None

    def begin(self) -> None:
        """Begin the stream: the replica's log ends at the common position."""
        self.has_begun = True
        self.replica.connected(self._source.loop.time(), self.position, self.incarnation)
        self.pump()

    def fall_back(self) -> None:
        """Send the tables again, after the log: too many changes wait for it."""
        self.replica.falls_back()
        self._chunks, self._chunk = iter(()), None

    def send_beacon(self) -> None:
        """Send a frame without content, with the current commit point."""
        self._send_log(self.replica.sent_n, self.replica.sent_position, NO_BASE, b"", b"")

    def pump(self) -> None:
        """Send as much as the window allows; when catching up, nothing before its next turn."""
        if not self.has_begun or self.connection.closed or self._next_turn is not None:
            return
        try:
            while self.replica.phase is Phase.FOLLOWING and self._send_next():
                pass
            if self.replica.phase is not Phase.FOLLOWING:
                self._take_turn()
        except RlabError as error:  # of the disk: the flush that called this must not fail because of it
            self._source.ended(self, str(error))
            return
        self.connection.flush()

    def _take_turn(self) -> None:
        source, replica = self._source, self.replica
        n, written = source.commit.n, source.store.written_position
        is_loaded = n != self._turn_n
        enough = replica.sent_position + REPLICA_CATCH_UP_SHARE * (written - self._turn_position)
        self._turn_n, self._turn_position = n, written
        while has_sent := self._send_next():
            if replica.sent_position >= enough or replica.phase is not Phase.CATCHING_UP:
                break
        if has_sent:
            pause_s = REPLICA_PAUSE_S if is_loaded and replica.phase is Phase.CATCHING_UP else 0.0
            self._next_turn = source.loop.call_later(pause_s, self._begin_turn)

    def _begin_turn(self) -> None:
        self._next_turn = None
        self.pump()

    def _send_next(self) -> bool:
        """Send the next frame; False if there is none now, or the window is full."""
        replica = self.replica
        if replica.phase is Phase.FOLLOWING:
            return replica.unacked_bytes < REPLICA_WINDOW_BYTES and self._send_flushes()
        if replica.unacked_bytes >= REPLICA_CATCH_UP_WINDOW_BYTES:
            return False
        return self._send_chunk() if replica.phase is Phase.SNAPSHOT else self._send_files()

    # --- catching up -------------------------------------------------------------------------------------------------

    def _send_files(self) -> bool:
        log, base = self._read(self._source.store.written_position)
        if base == NO_BASE:
            return False
        if log:
            self._send_log(-1, max(self.replica.sent_position, base), base, log, b"")
            return True
        self._chunks, self._part = iter(self._source.metadata.snapshot()), 0
        self._chunk = next(self._chunks, b"")
        self._snapshot_n = self._changes_n = self._source.commit.n
        self.replica.snapshot_begins()
        return True

    def _read(self, end: int) -> tuple[bytes, int]:
        """The next bytes of the log, before `end`, and their segment; `NO_BASE` if the session has ended."""
        source, position = self._source, self.replica.sent_position
        if position < source.store.min_position:
            source.ended(self, f"the log before {source.store.min_position} was removed")
            return b"", NO_BASE
        return source.store.log_bytes(position, min(REPLICA_FRAME_BYTES, max(end - position, 0)))

    # --- the tables --------------------------------------------------------------------------------------------------

    def _send_chunk(self) -> bool:
        chunk, self._chunk = self._chunk, next(self._chunks, None)
        assert chunk is not None, "the last part ends the phase"
        replica, is_last = self.replica, self._chunk is None
        frame = TableFrame(
            epoch=self._source.epoch,
            number=replica.next_number(),
            n=self._snapshot_n,
            part=self._part,
            is_last=is_last,
            chunk=chunk,
        )
        self._part += 1
        self._send(frame, self._snapshot_n if is_last else -1, replica.sent_position)
        if is_last:
            replica.snapshot_ends(self._source.loop.time())
        return True

    # --- following ---------------------------------------------------------------------------------------------------

    def _send_flushes(self) -> bool:
        """Send the flushes after the last one that was sent, as many as fit, or the next part of a large one."""
        kept, replica = self._source.kept, self.replica
        flush = kept.flush(replica.sent_n + 1)
        if flush is None:
            return False
        if self._changes_n < flush.n and len(flush.changes) > REPLICA_CHANGES_BYTES:
            self.fall_back()
            return True
        end = flush.end
        while (following := kept.flush(flush.n + 1)) is not None and following.end - replica.sent_position <= (
            REPLICA_FRAME_BYTES
        ):
            flush, end = following, following.end
        log, base = self._read(end) if end > replica.sent_position else (b"", 0)
        if base == NO_BASE:
            return False
        position = max(replica.sent_position, base) if log else replica.sent_position
        n, changes = self._flushes_until(position + len(log))
        self._send_log(n, position, base if log else NO_BASE, log, changes)
        return True

    def _flushes_until(self, reached: int) -> tuple[int, bytes]:
        """The newest flush that is complete at a log position, and all changes of the flushes that began before it."""
        kept, n = self._source.kept, self.replica.sent_n
        parts: list[bytes] = []
        size = 0
        while (flush := kept.flush(n + 1)) is not None and (flush.end <= reached or flush.start < reached):
            if flush.n > self._changes_n:
                size += len(flush.changes)
                if size > REPLICA_CHANGES_BYTES:
                    break
                self._changes_n = flush.n
                if flush.changes:
                    parts.append(flush.changes)
            if flush.end > reached:
                break
            n = flush.n
        return n, b"".join(parts)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send_log(self, n: int, position: int, base: int, log: bytes, changes: bytes) -> None:
        source = self._source
        frame = LogFrame(
            epoch=source.epoch,
            number=self.replica.next_number(),
            n=n,
            position=position,
            base=base,
            log=log,
            changes=changes,
            committed=source.commit.committed,
            committed_position=source.commit.committed_position,
            min_position=source.store.min_position,
            master_position=source.store.written_position,
        )
        self._send(frame, n, frame.end_position)

    def _send(self, frame: LogFrame | TableFrame, n: int, position: int) -> None:
        parts, crc = frame.encode()
        beacon = self._source.lease.clock()  # read before the frame is sent: the lease counts from this time
        self.connection.send_parts(frame.code, parts)
        self.replica.sent(self._source.loop.time(), sum(map(len, parts)), n, position, crc, beacon=beacon)
