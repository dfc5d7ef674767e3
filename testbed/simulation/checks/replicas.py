"""The promises of replica sets, checked while a run goes on and whenever its cluster is whole and at rest. Pure.

Each violation begins with the kind of the finding, and then the number of the invariant:

    two-masters    I1  an epoch has one master, each master of a set a higher epoch than the one before, and no two of
                       them may serve at the same moment
    double-owner   I2  no queue is dispatched by two owners: the history check finds it (`traces/check`)
    committed-cut  I3  what every replica in sync had is never cut, unless an operator accepted a loss
    missing-copy   I4  an acknowledged message is in the log of every replica that is in sync later
    logs-differ    I5  the logs of a set are equal, byte for byte, up to what all replicas in sync have
    tables-differ  I6  replicas that have the same flush have the same replicated tables
    seen-and-lost  I7  a message that a consumer got is in the log for good; only committed messages can be read
    went-back      I8  versions, epochs, tokens, ends of queues never go back, and no offset is given to two messages
    deposed-answer I9  a master answers nothing after a later one has begun
    not-waited-for I10 a master waits for every other replica that the register has in sync
    bad-start      I11 each start finds a legal state, whenever the process was killed; an old directory is refused
    handover-cost  I12 a handover alone causes no second delivery and moves no queue

"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.counted import plural
from model.message_queue import MessageQueue
from model.replica_set import NO_MASTER, Acks, ReplicaSet


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingMaster:
    """A replica that serves as the master, as it is now."""

    replica_id: int
    epoch: int
    waits_for: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOfLog:
    """The log of one replica at rest: the bytes of its files by log position, and the content of its tables."""

    replica_id: int
    in_sync: bool
    segments: Mapping[int, bytes]
    tables: Mapping[str, Sequence[tuple[object, ...]]]

    @property
    def end_position(self) -> int:
        """Log position after the last byte."""
        return max((base + len(data) for base, data in self.segments.items()), default=0)


class ReplicaCheck:
    """The check of one run; `violations` has a line for each promise that was broken."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._masters: dict[tuple[str, int], int] = {}  # (set, epoch) -> replica id
        self._epochs: dict[str, int] = {}
        self._rows: dict[str, ReplicaSet] = {}
        self._ends: dict[MessageQueue, int] = {}
        self._tokens: dict[str, int] = {}
        self._committed: dict[str, dict[int, int]] = {}  # set -> epoch -> log position
        self._bodies: dict[tuple[MessageQueue, int], bytes] = {}
        self._seen: dict[tuple[MessageQueue, int], bytes] = {}
        self._accepts_loss: dict[str, None] = {}

    # --- events ------------------------------------------------------------------------------------------------------

    def elected(self, name: str, replica_id: int, epoch: int) -> None:
        """A replica begins to serve as the master."""
        other = self._masters.setdefault((name, epoch), replica_id)
        if other != replica_id:
            self._find("two-masters", f"I1: epoch {epoch} of {name} has the masters {other} and {replica_id}")
        elif epoch <= self._epochs.get(name, 0):
            old_epoch = self._epochs[name]
            self._find(
                "two-masters", f"I1: replica {replica_id} of {name} begins epoch {epoch} after epoch {old_epoch}"
            )
        self._epochs[name] = max(epoch, self._epochs.get(name, 0))

    def may_serve(self, name: str, replica_ids: Sequence[int]) -> None:
        """The replicas that may serve as masters of a set at this moment."""
        if len(replica_ids) > 1:
            self._find("two-masters", f"I1: the replicas {list(replica_ids)} of {name} may serve at the same moment")

    def answered(self, name: str, replica_id: int, epoch: int, code: str) -> None:
        """A master answers a request without an error, in its epoch."""
        if epoch < self._epochs.get(name, 0):
            newest = self._epochs[name]
            text = f"replica {replica_id} of {name} answers {code} in epoch {epoch}, after epoch {newest} has begun"
            self._find("deposed-answer", f"I9: {text}")

    def accepted_loss(self, name: str) -> None:
        """An operator elected a replica that may lack messages: I3, I4 and I7 no longer hold for the set."""
        self._accepts_loss[name] = None

    def cut(self, name: str, replica_id: int, position: int, epoch: int) -> None:
        """A replica has cut its log, whose end was of an epoch; what later epochs committed was not in it."""
        positions = self._committed.get(name, {})
        committed = max(
            (committed_position for number, committed_position in positions.items() if number <= epoch), default=0
        )
        if position < committed and name not in self._accepts_loss:
            text = f"I3: replica {replica_id} of {name} has cut its log at {position}, and {committed} was committed"
            self._find("committed-cut", text)

    def committed(self, name: str, position: int, epoch: int) -> None:
        """Every replica in sync has the log up to a position, in an epoch."""
        positions = self._committed.setdefault(name, {})
        positions[epoch] = max(position, positions.get(epoch, 0))

    def placed(self, queue: MessageQueue, offset: int, body: bytes, *, seen: bool) -> None:
        """A message was acknowledged with an offset, or seen by a consumer at one."""
        if seen:
            self._seen[queue, offset] = body
        old_body = self._bodies.setdefault((queue, offset), body)
        if old_body != body and queue.broker_name not in self._accepts_loss:
            self._find("went-back", f"I8: offset {offset} of {queue} was given to {old_body!r} and to {body!r}")

    def started_badly(self, name: str, replica_id: int, reason: str) -> None:
        """The start of a replica has had a wrong outcome."""
        self._find("bad-start", f"I11: replica {replica_id} of {name}: {reason}")

    # --- checks ------------------------------------------------------------------------------------------------------

    def check(self, row: ReplicaSet, masters: Sequence[ServingMaster]) -> None:
        """The row of the register, and the replicas that serve, at one moment."""
        old_row = self._rows.get(row.name)
        if old_row is not None and (row.version < old_row.version or row.epoch < old_row.epoch):
            self._find("went-back", f"I8: the register had {old_row}, and has {row}")
        self._rows[row.name] = row
        for master in masters:
            if (master.replica_id, master.epoch) != (row.master, row.epoch):
                continue
            left_out = sorted({*row.in_sync} - {*master.waits_for, master.replica_id})
            if left_out:
                text = f"I10: {row.name} has {left_out} in sync, and master {master.replica_id} does not wait for them"
                self._find("not-waited-for", text)

    def ended(self, queue: MessageQueue, end_offset: int) -> None:
        """The end of a queue that readers see at the master."""
        old_end = self._ends.get(queue, 0)
        if end_offset < old_end and queue.broker_name not in self._accepts_loss:
            self._find("went-back", f"I8: {queue} ended at {old_end}, and ends at {end_offset}")
        self._ends[queue] = max(end_offset, old_end)

    def shown(self, row: ReplicaSet, shown_position: int, committed_position: int) -> None:
        """The log positions up to which readers see messages at the master, and every replica in sync has them."""
        if row.acks is Acks.ALL and shown_position > committed_position:
            text = (
                f"I7: readers of {row.name} see the log up to {shown_position}, and {committed_position} is committed"
            )
            self._find("seen-and-lost", text)

    def granted(self, name: str, newest_token: int) -> None:
        """The newest token of a lease at the master."""
        old_token = self._tokens.get(name, 0)
        if newest_token < old_token:
            self._find(
                "went-back", f"I8: {name} had granted token {old_token}, and has {newest_token} as its newest one"
            )
        self._tokens[name] = max(newest_token, old_token)

    # --- at rest -----------------------------------------------------------------------------------------------------

    def rested(self, row: ReplicaSet, copies: Sequence[CopyOfLog]) -> None:
        """The set is whole, and nothing is written: every replica in sync has everything."""
        if row.master == NO_MASTER:
            return
        master = next((copy for copy in copies if copy.replica_id == row.master), None)
        if master is None:
            return
        for copy in copies:
            if copy is master or not copy.in_sync:
                continue
            if copy.end_position != master.end_position:
                ends = f"{copy.end_position}, and the log of master {row.master} at {master.end_position}"
                self._find("missing-copy", f"I4: the log of replica {copy.replica_id} of {row.name} ends at {ends}")
            elif (position := _difference(master.segments, copy.segments)) is not None:
                self._find(
                    "logs-differ",
                    f"I5: replicas {row.master} and {copy.replica_id} of {row.name} differ at position {position}",
                )
            for table in sorted({*master.tables, *copy.tables}):
                rows, others = (
                    sorted(map(repr, master.tables.get(table, ()))),
                    sorted(map(repr, copy.tables.get(table, ()))),
                )
                if rows != others:
                    differ = [*set(rows) ^ set(others)][:2]
                    text = (
                        f"table {table} of replicas {row.master} and {copy.replica_id} of {row.name}: {sorted(differ)}"
                    )
                    self._find("tables-differ", f"I6: {text}")

    def stored(self, bodies: Mapping[tuple[MessageQueue, int], bytes]) -> None:
        """The messages at the masters, by their place; those that consumers have seen have to be among them."""
        for queue_and_offset, body in self._seen.items():
            queue, offset = queue_and_offset
            if queue.broker_name not in self._accepts_loss and bodies.get(queue_and_offset) != body:
                self._find("seen-and-lost", f"I7: a consumer got {body!r} at offset {offset} of {queue}, which is gone")

    def handovers_only(self, n_redelivered: int, moved: int) -> None:
        """A run in which nothing happened but handovers has ended."""
        if n_redelivered or moved:
            self._find(
                "handover-cost",
                f"I12: handovers caused {n_redelivered} second deliveries, and moved {plural(moved, 'queue')}",
            )

    def _find(self, kind: str, text: str) -> None:
        line = f"{kind}: {text}"
        if line not in self.violations:
            self.violations.append(line)


def _difference(segments: Mapping[int, bytes], other_segments: Mapping[int, bytes]) -> int | None:
    """The first log position at which two logs differ where both have bytes; None if they do not."""
    for base in sorted({*segments} & {*other_segments}):
        ours, theirs = segments[base], other_segments[base]
        if ours != theirs:
            length = min(len(ours), len(theirs))
            return base + next((index for index in range(length) if ours[index] != theirs[index]), length)
    start = max(min(segments, default=0), min(other_segments, default=0))
    alone = [base for base in sorted({*segments} ^ {*other_segments}) if base >= start]
    return alone[0] if alone else None
