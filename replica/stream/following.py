"""Following: the rules of a replica for the frames that it gets, and the order in which it applies them. Pure.

    frame 1   log 1000..1900             written
    frame 2   tables, part 0             a transaction begins
    frame 3   tables, part 1, the last   it ends: all parts together have replaced the replicated tables
    frame 4   changes, log 1900..2000    the changes are made in one transaction, then the log is written: flush 8

All frames of one event-loop iteration are applied together: one transaction, one write, one acknowledgement. The order
is the master's own, so a crash of a replica has the same effects as one of a master, and the same recovery repairs it.

A frame that does not follow the one before it is refused: of another epoch, of another number, at another position, or
with changes before there were tables to change.
"""

from __future__ import annotations

from typing import NamedTuple

from replica.stream.frames import NO_BASE, FrameDamaged, LogFrame, TableFrame


class MakeChanges(NamedTuple):
    """Make these changes of the tables, in one transaction."""

    changes: list[bytes]


class WriteLog(NamedTuple):
    """Write bytes of one segment at a log position."""

    position: int
    base: int
    data: bytes


class LoadTables(NamedTuple):
    """Load a part of the tables; all parts, from the first to the last, replace them in one transaction."""

    chunk: bytes
    is_first: bool
    is_last: bool


Act = MakeChanges | WriteLog | LoadTables


class Acknowledgement(NamedTuple):
    """The acknowledgement of all frames for which `collect` returned acts: it names the newest of them."""

    number: int
    crc: int
    n: int


class Following:
    """See the module header.

    Attributes:
        epoch: of the master.
        end_position: where the log ends, with all frames that were accepted.
        n: newest flush that is complete with them; -1 before there are tables.
        number: of the newest frame; 0 before the first.
        committed, committed_position: newest flush that all replicas in sync have, and the log position of it.
        min_position, master_position: where the master's log begins and ends.
    """

    def __init__(self, epoch: int, end_position: int) -> None:
        self.epoch = epoch
        self.end_position = end_position
        self.n = -1
        self.number = 0
        self.committed = -1
        self.committed_position = 0
        self.min_position = self.master_position = 0
        self._crc = 0
        self._acts: list[Act] = []
        self._changes: list[bytes] = []
        self._logs: list[LogFrame] = []
        self._parts = 0  # of the tables, while they come

    def accept(self, frame: LogFrame | TableFrame, crc: int) -> None:
        """Take the next frame.

        Raises:
            FrameDamaged: it does not follow the one before it; nothing of it is taken.
        """
        if frame.epoch != self.epoch:
            raise FrameDamaged(f"frame {frame.number} is of epoch {frame.epoch}, and the stream of {self.epoch}")
        if frame.number != self.number + 1:
            raise FrameDamaged(f"frame {frame.number} came after frame {self.number}")
        if isinstance(frame, LogFrame):
            self._accept_log(frame)
        else:
            self._accept_tables(frame)
        self.number, self._crc = frame.number, crc

    def _accept_log(self, frame: LogFrame) -> None:
        begins_segment = frame.base == frame.position > self.end_position
        if frame.position != self.end_position and not (frame.log and begins_segment):
            raise FrameDamaged(
                f"frame {frame.number} is for position {frame.position}, the log ends at {self.end_position}"
            )
        if (frame.log and not 0 <= frame.base <= frame.position) or (not frame.log and frame.base != NO_BASE):
            raise FrameDamaged(f"frame {frame.number} is for position {frame.position} of a segment at {frame.base}")
        if frame.n < self.n and frame.n != -1:
            raise FrameDamaged(f"frame {frame.number} goes back from flush {self.n} to {frame.n}")
        if self.n < 0 and (frame.n >= 0 or frame.changes):
            raise FrameDamaged(f"frame {frame.number} changes tables that were not sent")
        if frame.changes:
            self._changes.append(frame.changes)
        if frame.log:
            self._logs.append(frame)
            self.end_position = frame.end_position
        self.n = frame.n  # -1 again, if the tables are sent again
        self.committed, self.committed_position = frame.committed, frame.committed_position
        self.min_position, self.master_position = frame.min_position, frame.master_position

    def _accept_tables(self, frame: TableFrame) -> None:
        if frame.part not in (0, self._parts):
            raise FrameDamaged(f"part {frame.part} of the tables came after {self._parts} parts")
        self._end_group()
        self._acts.append(LoadTables(frame.chunk, frame.part == 0, frame.is_last))
        self._parts = 0 if frame.is_last else frame.part + 1
        self.n = frame.n if frame.is_last else -1

    def _end_group(self) -> None:
        """Changes first, in one transaction, then the log, in one write for each segment."""
        if self._changes:
            self._acts.append(MakeChanges(self._changes))
            self._changes = []
        logs, self._logs = self._logs, []
        start = 0
        for index in range(1, len(logs) + 1):
            if index == len(logs) or logs[index].base != logs[start].base:
                parts = [frame.log for frame in logs[start:index]]
                data = parts[0] if len(parts) == 1 else b"".join(parts)
                self._acts.append(WriteLog(logs[start].position, logs[start].base, data))
                start = index

    def collect(self) -> tuple[list[Act], Acknowledgement]:
        """Return the acts for all frames since the last call, in order, and the acknowledgement that they allow."""
        self._end_group()
        acts, self._acts = self._acts, []
        return acts, Acknowledgement(self.number, self._crc, self.n)
