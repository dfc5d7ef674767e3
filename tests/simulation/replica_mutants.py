"""Bugs in replica sets; each breaks an invariant of `testbed/simulation/checks/replicas.py`, which has to name it."""

from __future__ import annotations

from functools import partial

from tests.simulation.planted import Mutant
from tests.simulation.quirk_programmes import MASTER_IS_PAUSED, MASTER_IS_STOPPED, MEMBER_IS_CUT_OFF

_COMMIT, _IN_SYNC = "replica/stream/commit_point.py", "replica/stream/in_sync.py"
_GREETING, _APPLYING, _LEASES = "replica/stream/greeting.py", "replica/stream/applying.py", "broker/leases/service.py"
_LEASE = "replica/lease/master_lease.py"
_of_sets = partial(Mutant, kind="replicas")

_BEFORE_THE_WRITE = """\
        self._applied.acknowledge(Acknowledgement(self._following.number, crc, self._following.n))
        if self._scheduled is None:
            self._scheduled = self._loop.call_later(0.3, self._apply)
"""

REPLICA_MUTANTS = (
    _of_sets(
        name="answered-without-the-replicas",
        file=_COMMIT,
        old="        n = min(self._acked.values(), default=self.n)",
        new="        n = self.n",
        shown=("committed-cut", "missing-copy", "seen-and-lost", "went-back"),
    ),
    _of_sets(
        name="in-sync-before-the-master-waits",
        file=_IN_SYNC,
        old="        ids = {*self.row.in_sync, *writing, *self._maybe, self.candidate} - {0, self._replica_id}",
        new="        ids = {*self.row.in_sync} - {0, self._replica_id}",
        shown=("not-waited-for",),
    ),
    _of_sets(
        name="dead-replica-stays-in-sync",
        file=_IN_SYNC,
        old="        ids = {*self.row.in_sync, *writing, *self._maybe, self.candidate} - {0, self._replica_id}",
        new="        ids = {*(writing or self._maybe or self.row.in_sync), self.candidate} - {0, self._replica_id}",
        shown=("not-waited-for",),
    ),
    _of_sets(
        name="cut-at-the-committed-position",
        file=_GREETING,
        old='common_epoch(epochs, request.header["end_position"], store.epochs, store.written_position)',
        new='min(request.header["end_position"], self._source.commit.committed_position)',
        shown=("committed-cut", "logs-differ"),
    ),
    _of_sets(
        name="cut-at-the-own-end",
        file=_GREETING,
        old='common_epoch(epochs, request.header["end_position"], store.epochs, store.written_position)',
        new='min(request.header["end_position"], store.written_position)',
        shown=("logs-differ",),
    ),
    _of_sets(
        name="acknowledged-before-the-write",
        file=_APPLYING,
        old="        if not more:\n            self._apply()\n        elif self._scheduled is None:\n"
        "            self._scheduled = self._loop.call_soon(self._apply)\n",
        new=_BEFORE_THE_WRITE,
        shown=("committed-cut", "missing-copy", "seen-and-lost", "went-back"),
    ),
    _of_sets(
        name="last-token-not-read",
        wrong_clocks=True,
        file=_LEASES,
        old="max(int(core.clock_ms()) * 1000, self._last_token.read() + tokens_ahead)",
        new="int(core.clock_ms()) * 1000",
        shown=("went-back",),
    ),
    _of_sets(
        name="shown-before-committed",
        file="broker/durability/replication.py",
        old="        waiting.n, waiting.position = self._last_n, self._store.written_position\n",
        new="        waiting.n, waiting.position = self._last_n, self._store.written_position\n"
        "        self._store.show(waiting.position)\n",
        shown=("went-back", "seen-and-lost"),
    ),
    _of_sets(
        name="changes-not-made",
        file=_APPLYING,
        old="                self._metadata.apply(changes)",
        new="                self._metadata.apply(changes[1:])",
        shown=("tables-differ",),
    ),
    _of_sets(
        name="offsets-not-copied",
        file=_LEASES,
        old='Table(core.metadata, "offsets", replicated=True)',
        new='Table(core.metadata, "offsets", replicated=False)',
        shown=("handover-cost", "duplicate"),
    ),
    _of_sets(
        name="epoch-not-raised-at-a-start",
        file="replica/sets.py",
        old="epoch=row.epoch + is_master,",
        new="epoch=row.epoch,",
        shown=("bad-start",),
    ),
    _of_sets(
        name="old-directory-accepted",
        file="replica/directory.py",
        old="    if identity.incarnation < member.incarnation:",
        new="    if identity.incarnation < 0:",
        shown=("bad-start",),
    ),
    _of_sets(
        name="members-not-copied",
        file="broker/groups/members.py",
        old='Table(core.metadata, "members", replicated=True)',
        new='Table(core.metadata, "members", replicated=False)',
        shown=("handover-cost",),
    ),
    _of_sets(
        name="grace-shorter-than-the-lease",
        file=_LEASE,
        old="GRACE = 1.1\n",
        new="GRACE = 0.4\n",
        shown=("two-masters", "deposed-answer", "double-owner"),
    ),
    _of_sets(
        name="lease-without-an-end",
        file=_LEASE,
        old="self._confirmed.get(each, NEVER) + self.lease_s for",
        new="self._confirmed.get(each, NEVER) + 1e6 for",
        shown=("two-masters",),
    ),
    _of_sets(
        name="election-looks-like-a-handover",
        file="replica/sets.py",
        old="stopped_epoch = _stopped_with(row) if row.master == NO_MASTER else row.stopped_epoch",
        new="stopped_epoch = row.epoch",
        shown=("two-masters", "deposed-answer", "double-owner"),
    ),
    _of_sets(
        name="start-settles-an-election",
        file="replica/sets.py",
        old="return row.epoch if row.has_settled else row.stopped_epoch",
        new="return row.epoch",
        shown=("two-masters", "deposed-answer", "double-owner"),
    ),
    _of_sets(
        name="answered-without-a-lease",
        text=MASTER_IS_STOPPED,
        file="replica/stream/sender.py",
        old="if n > self._announced and not self._is_deposed and self.lease.holds():",
        new="if n > self._announced and not self._is_deposed:",
        shown=("deposed-answer",),
    ),
    _of_sets(
        name="lease-counted-from-the-confirmation",
        text=MASTER_IS_STOPPED,
        file="replica/stream/sender.py",
        old="self.lease.confirmed(replica.replica_id, replica.confirmed_beacon)",
        new="self.lease.confirmed(replica.replica_id, self.lease.clock())",
        shown=("two-masters", "deposed-answer"),
    ),
    _of_sets(
        name="dispatched-under-ended-leases",
        text=MEMBER_IS_CUT_OFF,
        file="client/instance/lease_session.py",
        old="        return now < self._good_until and not self._connection.closed",
        new="        return True",
        shown=("double-owner",),
    ),
    _of_sets(
        name="lease-outlives-a-pause",
        text=MASTER_IS_PAUSED,
        file="replica/lease/held.py",
        old="        if self._watch.looked(now, self._wall_ms()):",
        new="        if False:",
        shown=("deposed-answer",),
    ),
    _of_sets(
        name="never-stands-for-election",
        kind="replicas-live",
        file="replica/lease/promise.py",
        old="return self.given_at + GRACE * lease_s if self._released_at is None else self._released_at",
        new='return float("inf") if self._released_at is None else self._released_at',
        shown=("stuck",),
    ),
    _of_sets(
        name="lost-candidate-is-waited-for",
        kind="replicas-live",
        file=_IN_SYNC,
        old="                or departure_of(candidate).at <= now\n",
        new="",
        shown=("stuck",),
    ),
)
