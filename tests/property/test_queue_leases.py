"""Queue locks against a naive twin: one list of leases, which every question scans."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.leases.table import FreedLease, QueueKey, QueueLeases

FOREVER = float("inf")


@dataclass
class NaiveLease:
    owner: str
    token: int
    held: bool = True
    frees_at: float = FOREVER
    refused: list[str] = field(default_factory=list)


class Twin:
    def __init__(self) -> None:
        self.leases: dict[tuple[str, QueueKey], NaiveLease] = {}
        self.tokens = 0

    def acquire(self, group: str, client_id: str, queue: QueueKey) -> int | None:
        lease = self.leases.get((group, queue))
        if lease is not None and lease.held and lease.owner != client_id:
            if client_id not in lease.refused:
                lease.refused.append(client_id)
            return None
        if lease is None or not lease.held:
            self.tokens += 1
            lease = self.leases[(group, queue)] = NaiveLease(client_id, self.tokens)
        lease.frees_at = FOREVER
        return lease.token

    def free(self, group: str, queue: QueueKey) -> FreedLease:
        lease = self.leases[(group, queue)]
        reported, lease.refused = tuple(lease.refused), []
        lease.held, lease.frees_at = False, FOREVER
        return FreedLease(group, queue, lease.owner, lease.token, reported)

    def held(self) -> dict[tuple[str, str], list[QueueKey]]:
        held: dict[tuple[str, str], list[QueueKey]] = {}
        for (group, queue), lease in sorted(self.leases.items(), key=lambda item: item[0]):
            if lease.held:
                held.setdefault((group, lease.owner), []).append(queue)
        return held

    def due(self, now: float) -> list[tuple[str, QueueKey]]:
        return sorted(key for key, lease in self.leases.items() if lease.frees_at <= now)

    def next_event(self) -> float:
        return min((lease.frees_at for lease in self.leases.values()), default=FOREVER)


groups, clients = st.sampled_from("gh"), st.sampled_from("ABC")
queues = st.builds(QueueKey, st.sampled_from("tu"), st.integers(0, 1))
programs = st.lists(
    st.one_of(
        st.tuples(st.just("acquire"), groups, clients, queues),
        st.tuples(st.just("acquire"), groups, clients, queues),
        st.tuples(st.just("release"), groups, clients, queues, st.integers(0, 1)),
        st.tuples(st.just("revoke"), groups, queues),
        st.tuples(st.just("orphan"), groups, clients, st.sampled_from([0.0, 2.0, 5.0])),
        st.tuples(st.just("sleep"), st.sampled_from([1.0, 3.0])),
        st.tuples(st.just("forget"), st.sampled_from("tu")),
    ),
    max_size=50,
)


@settings(max_examples=400)
@given(programs)
def test_queue_locks_equal_their_naive_twin(program: list[tuple[object, ...]]) -> None:
    locks, twin, now = QueueLeases(), Twin(), 0.0
    for step in program:
        match step:
            case "acquire", str(group), str(client_id), QueueKey() as queue:
                lease = locks.acquire(group, client_id, queue)
                assert (None if lease is None else lease.token) == twin.acquire(group, client_id, queue)
            case "release", str(group), str(client_id), QueueKey() as queue, int(stale_by):
                own = twin.leases.get((group, queue), NaiveLease("nobody", 0, held=False))
                legal = own.held and own.owner == client_id and not stale_by
                freed = locks.release(group, client_id, queue, own.token - stale_by)
                assert freed == (twin.free(group, queue) if legal else None)
            case "revoke", str(group), QueueKey() as queue:
                had = twin.leases.get((group, queue))
                freed = locks.revoke(group, queue)
                assert freed == (twin.free(group, queue) if had is not None and had.held else None)
                twin.leases.pop((group, queue), None)
                for token in range(twin.tokens + 2):
                    assert not any(locks.check(group, queue, client_id, token) for client_id in "ABC")
            case "orphan", str(group), str(client_id), float(grace_s):
                freed_now = locks.owner_left(group, client_id, now=now, grace_s=grace_s)
                for queue in twin.held().get((group, client_id), []):
                    twin.leases[(group, queue)].frees_at = now + grace_s
                assert by_queue(freed_now) == [twin.free(*key) for key in twin.due(now)]
                if grace_s == 0:
                    assert locks.held_by(group, client_id) == []
            case "sleep", float(seconds):
                now = sleep_until(now + seconds, locks, twin, now)
            case "forget", str(topic):
                locks.forget_topic(topic)
                twin.leases = {key: lease for key, lease in twin.leases.items() if key[1].topic != topic}
        check(locks, twin)
    sleep_until(now + 10, locks, twin, now)
    assert locks.next_deadline() is None


def sleep_until(end: float, locks: QueueLeases, twin: Twin, now: float) -> float:
    while (deadline := locks.next_deadline()) is not None and deadline <= end:
        assert deadline <= twin.next_event()
        now = max(now, deadline)
        assert by_queue(locks.expire(now)) == [twin.free(*key) for key in twin.due(now)]
        later = locks.next_deadline()
        assert later is None or later > now, "a driver would spin at one moment for ever"
    assert twin.next_event() > end
    return end


def by_queue(freed: list[FreedLease]) -> list[FreedLease]:
    return sorted(freed, key=lambda one: (one.group, one.queue))


def check(locks: QueueLeases, twin: Twin) -> None:
    held = twin.held()
    assert locks.owners() == sorted(held)
    for group in "gh":
        owned = [queue for client_id in "ABC" for queue in locks.held_by(group, client_id)]
        assert len(owned) == len(set(owned)), "a queue has two holders"
        for client_id in "ABC":
            assert locks.held_by(group, client_id) == held.get((group, client_id), [])
    for (group, queue), lease in twin.leases.items():
        shown = locks.owner_of(group, queue)
        assert (None if shown is None else (shown.owner, shown.token)) == (
            (lease.owner, lease.token) if lease.held else None
        )
        for client_id in "ABC":
            # Only the newest grant passes, and only its owner.
            passes = [token for token in range(twin.tokens + 2) if locks.check(group, queue, client_id, token)]
            assert passes == ([lease.token] if lease.owner == client_id else [])
