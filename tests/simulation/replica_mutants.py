"""Bugs in replica sets; each breaks an invariant of `testbed/simulation/checks/replicas.py`, which has to name it."""

from __future__ import annotations

from tests.simulation.planted import Mutant

_COMMIT, _IN_SYNC = "replica/stream/commit_point.py", "replica/stream/in_sync.py"
_GREETING, _APPLYING, _LEASES = "replica/stream/greeting.py", "replica/stream/applying.py", "broker/leases/service.py"

_BEFORE_THE_WRITE = """\
        self._applied.acknowledge(Acknowledgement(self._following.number, crc, self._following.n))
        if self._scheduled is None:
            self._scheduled = self._loop.call_later(0.3, self._apply)
"""

REPLICA_MUTANTS = (
    Mutant(
        name="answered-without-the-replicas",
        kind="replicas",
        file=_COMMIT,
        old="        n = min(self._acked.values(), default=self.n)",
        new="        n = self.n",
        shown=("committed-cut", "missing-copy", "seen-and-lost", "went-back"),
    ),
    Mutant(
        name="in-sync-before-the-master-waits",
        kind="replicas",
        file=_IN_SYNC,
        old="        ids = {*self.row.in_sync, *writing, *self._maybe, self.candidate} - {0, self._replica_id}",
        new="        ids = {*self.row.in_sync} - {0, self._replica_id}",
        shown=("not-waited-for",),
    ),
    Mutant(
        name="dead-replica-stays-in-sync",
        kind="replicas",
        file=_IN_SYNC,
        old="        ids = {*self.row.in_sync, *writing, *self._maybe, self.candidate} - {0, self._replica_id}",
        new="        ids = {*(writing or self._maybe or self.row.in_sync), self.candidate} - {0, self._replica_id}",
        shown=("not-waited-for",),
    ),
    Mutant(
        name="cut-at-the-committed-position",
        kind="replicas",
        file=_GREETING,
        old='common_epoch(epochs, request.header["end_position"], store.epochs, store.written_position)',
        new='min(request.header["end_position"], self._source.commit.committed_position)',
        shown=("committed-cut", "logs-differ"),
    ),
    Mutant(
        name="cut-at-the-own-end",
        kind="replicas",
        file=_GREETING,
        old='common_epoch(epochs, request.header["end_position"], store.epochs, store.written_position)',
        new='min(request.header["end_position"], store.written_position)',
        shown=("logs-differ",),
    ),
    Mutant(
        name="acknowledged-before-the-write",
        kind="replicas",
        file=_APPLYING,
        old="        if not more:\n            self._apply()\n        elif self._scheduled is None:\n"
        "            self._scheduled = self._loop.call_soon(self._apply)\n",
        new=_BEFORE_THE_WRITE,
        shown=("committed-cut", "missing-copy", "seen-and-lost", "went-back"),
    ),
    Mutant(
        name="last-token-not-read",
        kind="replicas",
        wrong_clocks=True,
        file=_LEASES,
        old="max(int(core.clock_ms()) * 1000, self._last_token.read() + tokens_ahead)",
        new="int(core.clock_ms()) * 1000",
        shown=("went-back",),
    ),
    Mutant(
        name="shown-before-committed",
        kind="replicas",
        file="broker/durability/replication.py",
        old="        waiting.n, waiting.position = self._last_n, self._store.written_position\n",
        new="        waiting.n, waiting.position = self._last_n, self._store.written_position\n"
        "        self._store.show(waiting.position)\n",
        shown=("went-back", "seen-and-lost"),
    ),
    Mutant(
        name="changes-not-made",
        kind="replicas",
        file=_APPLYING,
        old="                self._metadata.apply(changes)",
        new="                self._metadata.apply(changes[1:])",
        shown=("tables-differ",),
    ),
    Mutant(
        name="offsets-not-copied",
        kind="replicas",
        file=_LEASES,
        old='Table(core.metadata, "offsets", replicated=True)',
        new='Table(core.metadata, "offsets", replicated=False)',
        shown=("handover-cost", "duplicate"),
    ),
    Mutant(
        name="epoch-not-raised-at-a-start",
        kind="replicas",
        file="replica/sets.py",
        old="epoch=row.epoch + is_master,",
        new="epoch=row.epoch,",
        shown=("bad-start",),
    ),
    Mutant(
        name="old-directory-accepted",
        kind="replicas",
        file="replica/directory.py",
        old="    if identity.incarnation < member.incarnation:",
        new="    if identity.incarnation < 0:",
        shown=("bad-start",),
    ),
    Mutant(
        name="members-not-copied",
        kind="replicas",
        file="broker/groups/members.py",
        old='Table(core.metadata, "members", replicated=True)',
        new='Table(core.metadata, "members", replicated=False)',
        shown=("handover-cost",),
    ),
)
