"""Bugs planted in the real code, each by a change of its text, and the search that has to find and to name them.

    python -m tests.simulation.mutants                  every bug, and every quirk, with up to 200 seeds each
    python -m tests.simulation.mutants lease-not-freed  some of them

A mutated module is compiled from the changed text when it is imported, in a process of its own: no file is changed.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from model.quirks import Quirk
from tests.simulation.planted import ROOT, Mutant, Planter
from tests.simulation.quirk_programmes import WRITTEN
from tests.simulation.replica_mutants import REPLICA_MUTANTS

MAX_SEEDS = 200
_LEASES, _WINDOW = "broker/leases/table.py", "broker/pop/window.py"
_QUEUE, _LEASED = "client/pull/process_queue.py", "client/rebalance/leased_queues.py"
_OWNERSHIP, _PULLED = "client/rebalance/ownership_table.py", "client/rebalance/pulled_queues.py"


MUTANTS = (
    Mutant(
        name="lease-not-freed",
        file=_LEASES,
        old="                if lease.frees_at <= now:",
        new="                if lease.frees_at <= now - 1e6:",
        shown=("orphan",),
    ),
    Mutant(
        name="lease-granted-twice",
        file=_LEASES,
        old="            if not self._overlapping:",
        new="            if self._overlapping:",
        shown=("double-owner",),
    ),
    Mutant(
        name="release-of-another",
        file=_LEASES,
        old="lease.owner != client_id or lease.token != token:",
        new="(lease.owner == client_id and lease.token != token):",
        shown=("double-owner", "out-of-order", "nonmonotonic-commit", "poll-skip", "lost-write", "orphan"),
    ),
    Mutant(
        name="notification-swallowed",
        file="broker/groups/notifications.py",
        old="        info.pending_joins_only = info.pending_joins_only and is_join",
        new="        if not is_join:\n            return",
        shown=("stale-view", "orphan"),
    ),
    Mutant(
        name="member-that-is-gone-stays",
        file="broker/groups/table.py",
        old="if member.leaves_at <= now]",
        new="if member.leaves_at <= now - 1e6]",
        shown=("orphan", "breakdown"),
    ),
    Mutant(
        name="commit-one-too-far",
        file=_QUEUE,
        old="        if self._order:\n            return self._order[0]\n",
        new="        if self._order:\n            return self._order[0] + 1\n",
        shown=("lost-write", "poll-skip", "duplicate"),
    ),
    Mutant(
        name="pull-one-too-far",
        file=_QUEUE,
        old="        self.pull_offset = max(self.pull_offset, next_offset)",
        new="        self.pull_offset = max(self.pull_offset, next_offset + 1)",
        shown=("poll-skip", "lost-write"),
    ),
    Mutant(
        name="start-one-too-far",
        file=_LEASED,
        old="process_queue = make_process_queue(self._options, grant.start_offset)",
        new="process_queue = make_process_queue(self._options, grant.start_offset + 1)",
        shown=("poll-skip", "lost-write"),
    ),
    Mutant(
        name="release-before-the-listener-is-done",
        file=_PULLED,
        old="        await self._drain(queues)\n        await self._release_drained(queues, cause)",
        new="        await self._release_drained(queues, cause)",
        shown=("out-of-order", "double-owner"),
    ),
    Mutant(
        name="failed-message-forgotten",
        file="client/pull/ordered_process_queue.py",
        old="            self._suspend(key, failed, not_before)",
        new="            pass",
        shown=("lost-write", "out-of-order"),
    ),
    Mutant(
        name="wake-up-lost",
        file="client/pull/loop.py",
        old="        self._callbacks.arrived(owned)",
        new="        pass",
        shown=("lost-write", "out-of-order"),
    ),
    Mutant(
        name="answered-before-the-sync",
        file="broker/durability/barrier.py",
        old="        if self._group_commit is None or not_stored is not None:",
        new="        if self._group_commit is None or not_stored is None:",
        shown=("lost-write", "out-of-order"),
    ),
    Mutant(
        name="acknowledgement-of-a-batch-forgotten",
        file=_WINDOW,
        old='                tokens[first:last] = array("Q", bytes(8 * n))\n',
        new="",
        shown=("duplicate", "lost-write", "orphan"),
    ),
    Mutant(
        name="dead-letter-not-copied",
        file="broker/pop/forwarder.py",
        old="        target = self._append(queue, records, is_dead=True)\n",
        new="        target = self._topics.ensure_dlq(key.group).config.topic, 0\n",
        shown=("lost-write",),
    ),
    Mutant(
        name="invisible-for-ever",
        file=_WINDOW,
        old="                    heapq.heappush(self._due, offset)\n                    became_due += 1",
        new="                    became_due += 1",
        shown=("orphan", "lost-write"),
    ),
    Mutant(
        name="delayed-message-forgotten",
        file="broker/retry/delay_table.py",
        old="            if entry[1] in self._pending:",
        new="            if entry[1] in self._pending and entry[1] % 3:",
        shown=("lost-write",),
    ),
    Mutant(
        name="share-one-too-small",
        file="client/allocate/averagely.py",
        old="list(mq_all[start : start + share + (index < remainder)])",
        new="list(mq_all[start : start + share + (index < remainder - 1)])",
        shown=("orphan", "lost-write"),
    ),
    Mutant(
        name="nothing-given-back",
        file="client/rebalance/plan.py",
        old="revoke=tuple(sorted(owned_set - target_set)),",
        new="revoke=(),",
        shown=("orphan", "stale-view"),
    ),
    Mutant(
        name="regranted-without-a-look",
        file=_OWNERSHIP,
        old="            if (confirmed or 0) <= grant.commit_offset <= owned.commit_offset:",
        new="            if grant.commit_offset >= 0:",
        shown=("out-of-order", "duplicate", "lost-write", "nonmonotonic-poll"),
    ),
    Mutant(
        name="dispatched-after-the-session",
        file="client/instance/lease_session.py",
        old="        return now < self._good_until and not self._connection.closed",
        new="        return True",
        shown=("double-owner", "out-of-order", "duplicate"),
    ),
    Mutant(
        name="lane-dispatched-twice",
        file="client/pull/ordered_process_queue.py",
        old="            if not lane.in_line and not lane.dispatched and lane.not_before is None:",
        new="            if not lane.in_line:",
        shown=("out-of-order", "breakdown"),
    ),
    Mutant(
        name="metadata-not-stored",
        file="broker/durability/barrier.py",
        old="            try:\n                self._metadata.commit()\n            except StorageFull:",
        new="            try:\n                pass\n            except StorageFull:",
        shown=(
            "breakdown",
            "lost-write",
            "duplicate",
            "poll-skip",
            "nonmonotonic-commit",
            "double-owner",
            "out-of-order",
        ),
    ),
    *REPLICA_MUTANTS,
)
QUIRKS = {
    Quirk.SILENT_EXPIRY: ("orphan", "stale-view"),
    Quirk.LOCKS_SURVIVE_CLOSE: ("orphan",),
    Quirk.RANDOM_VIEW: ("orphan", "flap", "stale-view"),
    Quirk.NOTIFY_WITHOUT_VERSION: ("thundering",),
    Quirk.OFFSETS_GO_BACK: ("nonmonotonic-commit",),
    Quirk.OVERLAPPING_HANDOVER: ("double-owner",),
    Quirk.UNSUBSCRIBE_STRANDS: ("orphan",),
    Quirk.DUPLICATE_MEMBERS: ("double-owner", "orphan", "duplicate", "poll-skip"),
    Quirk.GROUP_WIDE_SUBSCRIPTION: ("orphan", "flap", "thundering"),
    Quirk.ACK_BEFORE_REPLICATED: ("missing-copy", "committed-cut", "seen-and-lost", "went-back"),
    Quirk.ACK_WITHOUT_IDENTITY: ("missing-copy", "committed-cut", "seen-and-lost", "went-back"),
    Quirk.ELECT_OUT_OF_SYNC: ("missing-copy", "committed-cut", "seen-and-lost", "lost-write", "went-back"),
    Quirk.SLAVE_OFFSETS_GO_BACK: ("tables-differ", "went-back", "nonmonotonic-commit", "duplicate"),
    Quirk.SLAVE_SYNC_DELETES_TOPICS: ("seen-and-lost", "lost-write", "went-back", "tables-differ", "missing-copy"),
}


def search(name: str, seeds: int, *, wrong_clocks: bool = False) -> int:
    """Plant a bug, or switch a quirk on, and look for it; prints the seed that finds it. Call it in a new process.

    With wrong clocks, that seed runs once more with them, and has to name the bug as well.
    """
    logging.disable(logging.CRITICAL)
    mutant = next((each for each in MUTANTS if each.name == name), None)
    if mutant is not None:
        sys.meta_path.insert(0, Planter(mutant))
    from testbed.simulation.engine.sweep import Case, run_case  # noqa: PLC0415 - after the bug is planted

    shown = QUIRKS[Quirk(name)] if mutant is None else mutant.shown
    others: dict[str, None] = {}
    for seed in range(seeds):
        case = (
            Case(seed=seed, quirks=(name,), text=WRITTEN.get(Quirk(name), ""))
            if mutant is None
            else Case(seed=seed, kind=mutant.kind, text=mutant.text, wrong_clocks=mutant.wrong_clocks)
        )
        outcome = run_case(case)
        if named := [kind for kind in outcome.kinds if kind in shown]:
            sys.stdout.write(f"{name}: found by seed {seed} as {', '.join(named)}\n")
            return _search_again(name, replace(case, wrong_clocks=True), shown) if wrong_clocks else 0
        others |= dict.fromkeys(outcome.kinds)
    sys.stdout.write(f"{name}: NOT FOUND in {seeds} seeds; other findings: {', '.join(others) or 'none'}\n")
    return 1


def _search_again(name: str, case: Any, shown: Sequence[str]) -> int:
    from testbed.simulation.engine.sweep import run_case  # noqa: PLC0415 - after the bug is planted

    kinds = run_case(case).kinds
    named = [kind for kind in kinds if kind in shown]
    found = f"named {', '.join(named)}" if named else f"NOT NAMED; other findings: {', '.join(kinds) or 'none'}"
    sys.stdout.write(f"{name}: with wrong clocks {found}\n")
    return int(not named)


def main() -> int:
    """Search for the bugs that are named, or for all, each in a process of its own."""
    every = [*(mutant.name for mutant in MUTANTS), *QUIRKS]
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="bugs and quirks; all without one")
    parser.add_argument("--seeds", type=int, default=MAX_SEEDS)
    parser.add_argument("--wrong-clocks", action="store_true", help="each bug has to be named with wrong clocks, too")
    parser.add_argument("--here", action="store_true", help="in this process, which has imported nothing yet")
    chosen = parser.parse_args()
    if chosen.here:
        return search(chosen.names[0], chosen.seeds, wrong_clocks=chosen.wrong_clocks)

    def start(name: str) -> int:
        command = [sys.executable, "-m", "tests.simulation.mutants", name, "--here", "--seeds", str(chosen.seeds)]
        command += ["--wrong-clocks"] if chosen.wrong_clocks else []
        return subprocess.run(command, cwd=ROOT, check=False).returncode

    with ThreadPoolExecutor(2) as pool:
        return int(any(pool.map(start, chosen.names or every)))


if __name__ == "__main__":
    sys.exit(main())
