"""ReplicaPhases: one replica as its master sees it, from the connection to the acknowledgement of each frame. Pure.

    AWAY            no connection
    CATCHING_UP     it gets the log from the files, at any lag
    SNAPSHOT        it has the log up to a position, and gets the replicated tables as they are at that position
    FOLLOWING       it gets the changes and the log of each flush

    connected at 0, lag 10 GB     CATCHING_UP
    all of the log is sent        SNAPSHOT of flush n = 7
    all of the tables are sent    FOLLOWING; n = 8, 9, ... as they are flushed
    flush 9 acknowledged          it has everything up to 9

Whether the replica is *in sync* is another question: the row of the set records it, and `in_sync.py` decides it. This
object reports when a replica that the master waits for has to leave the set (`leaves_at`), and when one that it does
not wait for may enter it (`may_join_at`).

Every frame has a number, and an acknowledgement names the newest number that was applied, with the checksum of that
frame: an acknowledgement of something else does not move anything (a peer that sends garbage must not make a send count
as copied; RocketMQ issues 1155, 3015).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from model.replica_limits import (
    BEACON_SHARE,
    LEASE_S,
    REPLICA_BEACON_S,
    REPLICA_FRAME_TIMEOUT_S,
    REPLICA_JOIN_LAG_BYTES,
    REPLICA_MAX_LAG_BYTES,
    REPLICA_RECONNECT_S,
    REPLICA_REJOIN_MAX_S,
    REPLICA_REJOIN_S,
    REPLICA_SILENCE_S,
    REPLICA_START_S,
    SILENCE_SHARE,
)

NEVER = float("inf")
NO_BEACON = float("-inf")


class Phase(StrEnum):
    """What a replica gets now; see the module header."""

    AWAY = "away"
    CATCHING_UP = "catching up"
    SNAPSHOT = "snapshot"
    FOLLOWING = "following"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProgress:
    """One other replica of a set.

    Attributes:
        replica_id: its id.
        address: where it listens, as the row has it.
        state: "in sync", or the phase that it is in (`phases.py`).
        position: log position up to which it has the log.
        lag_bytes: bytes of the log that it has not confirmed.
        lag_s: age of the oldest flush that it has not confirmed, in seconds; 0 without one.
        connected: whether it follows this master now.
    """

    replica_id: int
    address: str
    state: str
    position: int
    lag_bytes: int
    lag_s: float
    connected: bool


class SentFrame(NamedTuple):
    """A frame that is not acknowledged yet, and the state of the replica once it is."""

    number: int
    n_bytes: int
    n: int  # flush that is complete with it
    position: int  # log position that is reached with it
    crc: int
    sent_at: float
    beacon: float


class Departure(NamedTuple):
    """When a replica has to leave the in-sync set unless something changes before, and why."""

    at: float
    reason: str


STAYS = Departure(NEVER, "")


class ReplicaPhases:
    """One replica of a set, at its master; times are the loop's, in seconds.

    Attributes:
        phase: of its stream.
        acked_n: newest flush that it has, with every older one; -1 while that is not known.
        acked_position: log position up to which it has the log.
        sent_n, sent_position: the same, of the frames that were sent on this connection.
        unacked_bytes: bytes of frames that were sent and not acknowledged.
        heard_at: when it last sent something.
        confirmed_beacon: send time of the newest frame that it has, by the clock of leases; `NO_BEACON` without one.
    """

    def __init__(self, replica_id: int, now: float, lease_s: float = LEASE_S) -> None:
        self.replica_id = replica_id
        self.phase = Phase.AWAY
        self.acked_n = -1
        self.acked_position = 0
        self.sent_n = -1
        self.sent_position = 0
        self.unacked_bytes = 0
        self.last_received_at = now
        self.confirmed_beacon = NO_BEACON
        self._confirmed_sent_at = now
        self._beacon_s = min(REPLICA_BEACON_S, BEACON_SHARE * lease_s)
        self._silence_s = min(REPLICA_SILENCE_S, SILENCE_SHARE * lease_s)
        self._frames: deque[SentFrame] = deque()
        self._number = 0
        self._sent_at = now
        self._disconnected_at = (
            now - REPLICA_RECONNECT_S + REPLICA_START_S
        )  # a master that starts gives it time to connect
        self._lacks = False
        self._following_since = NEVER
        self._rejoin_s = 0.0
        self._incarnation = 0  # of its newest process
        self._incarnation_left = 0  # of the process in which it last had to leave the in-sync set

    # --- events ------------------------------------------------------------------------------------------------------

    def connected(self, now: float, position: int, incarnation: int = 0) -> None:
        """Record that the replica has connected, and has the log up to a position that both logs have in common.

        `incarnation` is the number of starts of its process; a new process has not been slow yet.
        """
        self._incarnation = incarnation
        if incarnation != self._incarnation_left:
            self._rejoin_s = min(self._rejoin_s, REPLICA_REJOIN_S)
        # An in-sync replica that came back with less than it had acknowledged lacks messages that were answered.
        self._lacks = position < self.acked_position
        if self._lacks:
            self.acked_n = -1
        self.phase = Phase.CATCHING_UP
        self.acked_position = self.sent_position = position
        self.sent_n = -1
        self.last_received_at = self._sent_at = self._confirmed_sent_at = now
        self._begin_stream()

    def disconnected(self, now: float) -> None:
        """Record that its connection is closed."""
        if self.phase is not Phase.AWAY:
            self.phase = Phase.AWAY
            self._disconnected_at = now
            self._begin_stream()

    def _begin_stream(self) -> None:
        self._frames.clear()
        self._number = self.unacked_bytes = 0
        self._following_since = NEVER

    def next_number(self) -> int:
        """The number of the next frame."""
        return self._number + 1

    def sent(self, now: float, n_bytes: int, n: int, position: int, crc: int, *, beacon: float = NO_BEACON) -> None:
        """A frame was sent, after which the replica has flush `n` (-1 while it has no snapshot) and this position.

        `beacon` is the time of the clock of leases, before it was sent.
        """
        self._number += 1
        self._frames.append(SentFrame(self._number, n_bytes, n, position, crc, now, beacon))
        self.unacked_bytes += n_bytes
        self.sent_n, self.sent_position, self._sent_at = n, position, now

    def acknowledged(self, now: float, number: int, crc: int, received: int = 0) -> bool:
        """Record that the replica has applied all frames up to a number; False if it names no such frame.

        `received` is the newest frame that it has, applied or not: a disk that is slow must not end a lease. The number
        of the last acknowledgement again is a sign of life.
        """
        frames = self._frames
        acked = self._number - len(frames)
        if received > self._number:
            return False
        newest = max(received, number) - acked
        if number != acked and (not acked < number <= self._number or frames[number - acked - 1].crc != crc):
            return False
        if newest > 0:
            frame = frames[newest - 1]
            self._confirmed_sent_at = max(self._confirmed_sent_at, frame.sent_at)
            self.confirmed_beacon = max(self.confirmed_beacon, frame.beacon)
        if number != acked:
            frame = frames[0]
            while frame.number < number:
                self.unacked_bytes -= frame.n_bytes
                frames.popleft()
                frame = frames[0]
            self.unacked_bytes -= frame.n_bytes
            frames.popleft()
            self.acked_position = frame.position
            if frame.n > self.acked_n:
                self.acked_n = frame.n
                self._lacks = False
        self.last_received_at = now
        return True

    def snapshot_begins(self) -> None:
        """All of the log is sent; the tables are sent next."""
        self.phase = Phase.SNAPSHOT

    def snapshot_ends(self, now: float) -> None:
        """The tables are sent; each flush is sent next."""
        self.phase = Phase.FOLLOWING
        self._following_since = now

    def falls_back(self) -> None:
        """Changes are no longer kept for it: it needs the log from the files, and the tables again."""
        self.phase = Phase.CATCHING_UP
        self.sent_n = -1
        self._following_since = NEVER

    def left_in_sync_set(self, now: float, in_sync_since: float) -> None:
        """Record that the replica left the in-sync set. It has to be stable for some time before it is added again.

        Each time for longer, as long as it is the same process: one that was stopped or killed is not a slow one.
        """
        if self._incarnation != self._incarnation_left or now - in_sync_since >= REPLICA_REJOIN_MAX_S:
            self._rejoin_s = 0.0
        self._incarnation_left = self._incarnation
        self._rejoin_s = min(max(REPLICA_REJOIN_S, 2 * self._rejoin_s), REPLICA_REJOIN_MAX_S)
        if self.phase is Phase.FOLLOWING:
            self._following_since = now

    def progress(
        self, now: float, address: str, written_position: int, waiting_since: float, *, is_in_sync: bool
    ) -> ReplicaProgress:
        """The progress of the replica; `waiting_since` as for `leaves_at`."""
        return ReplicaProgress(
            replica_id=self.replica_id,
            address=address,
            state="in sync" if is_in_sync else str(self.phase),
            position=self.acked_position,
            lag_bytes=max(written_position - self.acked_position, 0),
            lag_s=0.0 if waiting_since == NEVER else now - waiting_since,
            connected=self.phase is not Phase.AWAY,
        )

    # --- decisions ---------------------------------------------------------------------------------------------------

    @property
    def beacon_at(self) -> float:
        """When it gets a frame without content, because nothing else was sent."""
        return NEVER if self.phase is Phase.AWAY else self._sent_at + self._beacon_s

    def leaves_at(self, written_position: int, waiting_since: float) -> Departure:
        """When it has to leave the in-sync set, if nothing changes.

        `waiting_since` is when the oldest flush was made that this replica has not acknowledged; `NEVER` without one.
        """
        if self.phase is Phase.AWAY:
            return Departure(self._disconnected_at + REPLICA_RECONNECT_S, "its connection is closed")
        if self._lacks:
            return Departure(0.0, "it has lost a part of the log that it had acknowledged")
        if written_position - self.acked_position > REPLICA_MAX_LAG_BYTES:
            return Departure(0.0, f"it is more than {REPLICA_MAX_LAG_BYTES} bytes behind")
        # Counted from the sending of the frame, as the lease is, which has to be kept by this compare-and-set. A master
        # that stood still has sent nothing: a replica that has confirmed everything is not silent, and the others get
        # the time between two beacons.
        asked_at = self._frames[0].sent_at if self._frames else NEVER
        silent = Departure(
            max(self._confirmed_sent_at + self._silence_s, asked_at + self._beacon_s),
            f"it has confirmed no frame for {self._silence_s:g} s",
        )
        late = Departure(
            waiting_since + REPLICA_FRAME_TIMEOUT_S, f"it has not confirmed a flush for {REPLICA_FRAME_TIMEOUT_S} s"
        )
        return min(silent, late)

    def may_join_at(self, written_position: int) -> float:
        """When it may enter the in-sync set, if nothing changes; `NEVER` while it is not close behind."""
        if self.acked_n < 0 or self.sent_n < 0 or self.phase is not Phase.FOLLOWING:
            return NEVER
        if written_position - self.acked_position > REPLICA_JOIN_LAG_BYTES:
            return NEVER
        return self._following_since + self._rejoin_s
