"""The rule about brokers with copies: one without a master, too few copies, all on one machine, no register. Pure.

A replica that is back in sync at the second observation is not reported, nor one that is about to be: that connected
between the two, or came one step further.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from metrics.doctor.problems import Diagnosis, Problem, make_diagnosis
from metrics.doctor.snapshot import Snapshot
from model.replica_info import ReplicaInfo, ReplicaSetInfo
from model.replica_limits import REPLICA_MAX_LAG_BYTES
from model.replica_set import NO_MASTER
from remoting.address import parse_address

_MASTER: Final = "master"
LEASE_MARGIN: Final = 0.25
"""Share of a lease that should be left when it is renewed; on a sound machine and network four fifths are."""
_STEPS: Final = ("catching up", "snapshot", "following")
"""States of a replica that is connected and not in sync, in the order in which they come."""


def copies(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Find the problems of the replicas of each broker that has copies."""
    for name, (first, second) in sorted(snapshot.sets.items()):
        yield from _master(name, first, second)
        yield from _in_sync(name, first, second)
        yield from _machines(name, second)
        yield from _register(name, first, second)
        yield from _lease(name, second)


def another_copy(snapshot: Snapshot, broker: str) -> int:
    """The first replica of a broker that is in sync, answers and is not the master; 0 without one."""
    if broker not in snapshot.sets:
        return 0
    now = snapshot.sets[broker][1]
    able = [each.replica_id for each in now.replicas if each.in_sync and not each.failure]
    return min((each for each in able if each != now.row.master), default=0)


def _master(name: str, first: ReplicaSetInfo, second: ReplicaSetInfo) -> Iterator[Diagnosis]:
    if _serves(first) or _serves(second):
        return
    row = second.row
    if row.master == NO_MASTER:
        evidence = "no replica is the master, so nothing can be sent or consumed"
    else:
        [master] = [each for each in second.replicas if each.replica_id == row.master]
        evidence = (
            f"replica {row.master} at {master.address} is the master, and "
            f"{f'does not answer: {master.failure}' if master.failure else 'does not serve yet'}"
        )
    able = [each.replica_id for each in second.replicas if each.in_sync and not each.failure]
    able = [each for each in able if each != row.master]
    if able:
        evidence += f"; {_numbers(able)} in sync and can take over without loss"
    else:
        evidence += f"; no other replica is in sync and answers (in sync: {', '.join(map(str, row.in_sync))})"
    yield make_diagnosis(
        Problem.MASTER_AWAY,
        f"broker {name}",
        evidence,
        broker=name,
        replica=str(able[0]) if able else "ID --accept-loss, which loses messages",
    )


def _serves(snapshot: ReplicaSetInfo) -> bool:
    return any(each.role == _MASTER and each.replica_id == snapshot.row.master for each in snapshot.replicas)


def _in_sync(name: str, first: ReplicaSetInfo, second: ReplicaSetInfo) -> Iterator[Diagnosis]:
    row = second.row
    earlier = {each.replica_id: each for each in first.replicas}
    returning = [each for each in second.replicas if not each.in_sync and _returns(earlier.get(each.replica_id), each)]
    n = max(len(first.row.in_sync), len(row.in_sync))
    if n + len(returning) >= row.copies:
        return
    evidence = [f"of {row.copies} copies, {_numbers(row.in_sync)} in sync"]
    evidence += [_why_not(each) for each in second.replicas if not each.in_sync]
    if len(second.replicas) < row.copies:
        evidence.append(f"only {len(second.replicas)} joined the set")
    if n < row.min_in_sync:
        evidence.append(f"sends are refused, because min_in_sync is {row.min_in_sync}")
    problem = Problem.ONE_COPY if n == 1 else Problem.COPIES_MISSING
    yield make_diagnosis(problem, f"broker {name}", "; ".join(evidence), broker=name)


def _returns(first: ReplicaInfo | None, second: ReplicaInfo) -> bool:
    """Whether a replica that is close behind has come nearer to being in sync."""
    if (
        first is None
        or second.failure
        or second.state not in _STEPS
        or not 0 <= second.lag_bytes <= REPLICA_MAX_LAG_BYTES
    ):
        return False
    return first.state not in _STEPS or _STEPS.index(first.state) < _STEPS.index(second.state)


def _why_not(replica: ReplicaInfo) -> str:
    text = f"replica {replica.replica_id} at {replica.address} "
    if replica.failure:
        return text + f"does not answer: {replica.failure}"
    if replica.state and replica.lag_bytes >= 0:
        return text + f"is {replica.state}, {replica.lag_bytes / 2**20:.1f} MiB behind"
    return text + f"is {replica.role}"


def _machines(name: str, now: ReplicaSetInfo) -> Iterator[Diagnosis]:
    hosts = {parse_address(each.address)[0] for each in now.replicas}
    if len(hosts) == 1 < len(now.replicas):
        yield make_diagnosis(
            Problem.COPIES_TOGETHER,
            f"broker {name}",
            f"all {len(now.replicas)} replicas are at {hosts.pop()}",
            broker=name,
        )


def _register(name: str, first: ReplicaSetInfo, second: ReplicaSetInfo) -> Iterator[Diagnosis]:
    cut_off = sorted(_without_register(first) & _without_register(second))
    if cut_off:
        yield make_diagnosis(
            Problem.REGISTER_AWAY,
            f"broker {name}",
            f"the register of the set does not answer replica {', '.join(map(str, cut_off))}",
        )

    for each in second.replicas:
        hosts = {parse_address(address)[0] for address in each.register_at}
        host = parse_address(each.address)[0]
        if each.role == _MASTER and hosts == {host} and len(second.replicas) > 1:
            evidence = f"the master, replica {each.replica_id}, and the register of the set are both at {host}"
            yield make_diagnosis(Problem.REGISTER_TOGETHER, f"broker {name}", evidence, broker=name)


def _lease(name: str, now: ReplicaSetInfo) -> Iterator[Diagnosis]:
    lease_s = now.row.lease_ms / 1000
    for each in now.replicas:
        if each.role == _MASTER and 0 <= each.lease_margin_s < LEASE_MARGIN * lease_s:
            evidence = (
                f"{each.lease_margin_s:.2f} s of the lease of {lease_s:g} s were left when the master renewed it last "
                "minute: without any, another replica takes over although the master runs"
            )
            yield make_diagnosis(Problem.LEASE_SHORT, f"broker {name}", evidence)


def _without_register(snapshot: ReplicaSetInfo) -> set[int]:
    return {each.replica_id for each in snapshot.replicas if not each.failure and not each.register_answers}


def _numbers(replica_ids: tuple[int, ...] | list[int]) -> str:
    if len(replica_ids) == 1:
        return f"replica {replica_ids[0]} is"
    return f"replicas {', '.join(map(str, replica_ids))} are"
