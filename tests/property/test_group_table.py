"""The group table against a naive twin that scans everything, driven as a broker drives it, deadline by deadline."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.groups.group import RESTORED
from broker.groups.outcomes import Leave, LeaveReason
from broker.groups.table import GroupTable
from model.heartbeat import ConsumeFrom, ConsumerData, ConsumeType, MessageModel
from model.limits import MAX_GROWTH_WAIT_S, MAX_NEW_GROUP_WAIT_S, MAX_PAUSE_S
from model.quirks import Quirk
from model.subscription import SubscriptionData

WINDOW_S, GRACE_S = 0.125, 0.375  # exact in binary, as all times here are
FOREVER = float("inf")


@dataclass
class NaiveMember:
    connection: int
    topics: frozenset[str]
    timeout_s: float
    expires_at: float
    clustering: bool
    grace_ends_at: float = FOREVER

    @property
    def leaves_at(self) -> float:
        return min(self.expires_at, self.grace_ends_at)


@dataclass
class Twin:
    """What is due is found by looking at everybody; a group's next notification is a function of its last."""

    silent_expiry: bool
    members: dict[str, dict[str, NaiveMember]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    pending_at: dict[str, float] = field(default_factory=dict)
    notified_at: dict[str, float] = field(default_factory=dict)
    group_began_at: dict[str, float] = field(default_factory=lambda: defaultdict(lambda: -FOREVER))
    joins: dict[str, list[float]] = field(default_factory=dict)
    pending: dict[str, list[tuple[float, bool]]] = field(default_factory=dict)  # changes since the last notification

    def heartbeat(self, group: str, client_id: str, new: NaiveMember, now: float) -> None:
        members = self.members.setdefault(group, {})
        old = members.get(client_id)
        if not members:
            self.group_began_at[group] = now
        members[client_id] = new
        if old is None or old.topics != new.topics:
            self._changed(group, now, joined=old is None)

    def touch(self, group: str, client_id: str, connection: int, now: float) -> None:
        member = self.members.get(group, {}).get(client_id)
        if member is not None and member.connection == connection:
            member.expires_at = max(member.expires_at, now + member.timeout_s)

    def leave(self, group: str, client_id: str, now: float, *, notify: bool = True) -> set[tuple[str, str]]:
        if self.members.get(group, {}).pop(client_id, None) is None:
            return set()
        self._changed(group, now, notify=notify)
        return {(group, client_id)}

    def on_connection(self, connection: int) -> set[tuple[str, str]]:
        return {
            (g, c)
            for g, members in self.members.items()
            for c, m in members.items()
            if m.connection == connection and m.grace_ends_at == FOREVER
        }

    def due(self, now: float) -> dict[tuple[str, str], LeaveReason]:
        due = [(g, c, m) for g, members in self.members.items() for c, m in members.items() if m.leaves_at <= now]
        return {(g, c): LeaveReason.CLOSE if m.grace_ends_at <= now else LeaveReason.EXPIRY for g, c, m in due}

    def tell(self, now: float) -> set[tuple[str, int]]:
        due = {group for group, moment in self.pending_at.items() if moment <= now}
        for group in due:
            del self.pending_at[group]
            del self.pending[group]
            self.notified_at[group] = now
        return {(group, self.versions[group]) for group in due}

    def next_event(self) -> float:
        expiries = [member.leaves_at for members in self.members.values() for member in members.values()]
        return min([*expiries, *self.pending_at.values()], default=FOREVER)

    def _changed(self, group: str, now: float, *, joined: bool = False, notify: bool = True) -> None:
        self.versions[group] = self.versions.get(group, 0) + 1
        if joined:
            self.joins.setdefault(group, []).append(now)
        else:
            self.joins[group] = []
        if not any(member.clustering for member in self.members[group].values()):
            self.pending_at.pop(group, None)
            self.pending.pop(group, None)
        elif notify:
            pending = self.pending.setdefault(group, [])
            pending.append((now, joined))
            window_ends_at = self.notified_at.get(group, -FOREVER) + WINDOW_S
            due = self.pending_at.get(group, FOREVER)
            growth, pause_s = self._growth(group)
            grows = growth >= max(8, len(self.members[group]) / 4)
            if all(each for _, each in pending) and grows and due > now:
                latest = max(pending[0][0] + MAX_GROWTH_WAIT_S, self.group_began_at[group] + MAX_NEW_GROUP_WAIT_S)
                self.pending_at[group] = max(window_ends_at, min(now + pause_s, latest))
            else:
                self.pending_at[group] = min(due, max(now, window_ends_at))

    def _growth(self, group: str) -> tuple[int, float]:
        """How many joined in a row, and how long nobody joins when they have paused."""
        joins, gaps = self.joins.get(group, []), list[float]()
        for sooner, later in itertools.pairwise(joins):
            gaps = [*gaps, later - sooner] if later - sooner <= MAX_PAUSE_S else []
        growth = len(gaps) + 1 if joins else 0
        return growth, max(WINDOW_S / 2, min(2 * max(gaps[1:], default=0.0), MAX_PAUSE_S))


groups, clients, connections = st.sampled_from("gh"), st.sampled_from("ABC"), st.integers(1, 3)
programs = st.lists(
    st.one_of(
        st.tuples(
            st.just("heartbeat"),
            groups,
            clients,
            connections,
            st.frozensets(st.sampled_from("tu"), min_size=1),
            st.sampled_from([0.25, 1.0, 4.0]),
            st.booleans(),
        ),
        st.tuples(st.just("touch"), groups, clients, connections),
        st.tuples(st.just("unregister"), groups, clients),
        st.tuples(st.just("close"), connections),
        st.tuples(st.just("sleep"), st.sampled_from([1 / 64, 1 / 16, 1 / 4, 1.0])),
    ),
    max_size=40,
)


class Pair:
    """Both tables, driven as a broker drives its own: at `next_deadline`, and after every request.

    Args:
        silent_expiry: whether the quirk is on.
        restored: members of `g` that an earlier run knew, with the moment until which they may come back.
    """

    def __init__(self, silent_expiry: bool, restored: dict[str, float]) -> None:
        quirks = frozenset({Quirk.SILENT_EXPIRY}) if silent_expiry else frozenset[Quirk]()
        self.table = GroupTable(quirks=quirks, notify_window_s=WINDOW_S, close_grace_s=GRACE_S)
        self.twin = Twin(silent_expiry)
        self.now = 0.0
        self.moments: dict[str, list[float]] = {"g": [], "h": []}
        if restored:
            self.table.restore("g", 0, 0)
            self.twin.versions["g"] = 0
        for client_id, expires_at in restored.items():
            topics, timeout_s = frozenset("t"), 0.25
            data = consumer_data("g", topics, timeout_s, MessageModel.CLUSTERING)
            self.table.restore_member(client_id, data, expires_at)
            member = NaiveMember(RESTORED, topics, timeout_s, expires_at, clustering=True)
            self.twin.members.setdefault("g", {})[client_id] = member

    def run(self, verb: str, *values: object) -> None:
        table, twin, now = self.table, self.twin, self.now
        match verb, *values:
            case "heartbeat", str(group), str(client_id), int(connection), frozenset() as topics, timeout_s, clustering:
                assert isinstance(timeout_s, float)
                model = MessageModel.CLUSTERING if clustering else MessageModel.BROADCASTING
                data = consumer_data(group, topics, timeout_s, model)
                known = client_id in twin.members.get(group, {})
                outcome = table.heartbeat(client_id, data, connection=connection, cause="", now=now, now_ms=0)
                assert outcome.joined is not known
                member = NaiveMember(connection, topics, timeout_s, now + timeout_s, bool(clustering))
                twin.heartbeat(group, client_id, member, now)
            case "touch", str(group), str(client_id), int(connection):
                table.touch(group, client_id, connection, now)
                twin.touch(group, client_id, connection, now)
            case "unregister", str(group), str(client_id):
                left = table.unregister(group, client_id, cause="", now=now)
                assert pairs([left] if left else [], LeaveReason.UNREGISTER) == twin.leave(group, client_id, now)
            case "close", int(connection):
                expected = twin.on_connection(connection)
                assert table.connection_closed(connection, now) == len(expected)
                for group, client_id in expected:
                    twin.members[group][client_id].grace_ends_at = now + GRACE_S
            case "sleep", float(seconds):
                self.sleep_until(now + seconds)
        self.tell()

    def sleep_until(self, end: float) -> None:
        """Act whenever the table wants to; something real must never be due before it wants to."""
        wakes = 0
        while (deadline := self.table.next_deadline()) is not None and deadline <= end:
            assert deadline <= self.twin.next_event()
            self.now = max(self.now, deadline)
            self.expire()
            self.tell()
            later = self.table.next_deadline()
            assert later is None or later > self.now, "a driver would spin at one moment for ever"
            wakes += 1
        assert self.twin.next_event() > end
        assert wakes <= 64 * (end - self.now + 1)
        self.now = end

    def expire(self) -> None:
        expected = self.twin.due(self.now)
        leaves = self.table.expire(self.now, cause="")
        assert {(leave.group.group, leave.member.client_id): leave.reason for leave in leaves} == expected
        for (group, client_id), reason in sorted(expected.items()):
            silent = self.twin.silent_expiry and reason is LeaveReason.EXPIRY
            self.twin.leave(group, client_id, self.now, notify=not silent)

    def tell(self) -> None:
        reported = {(info.group, info.version) for info in self.table.collect_notifications(self.now)}
        assert reported == self.twin.tell(self.now)
        for group, _ in reported:
            self.moments[group].append(self.now)

    def check(self) -> None:
        listed = {info.group: sorted(info.members) for info in self.table.groups()}
        assert listed == {group: sorted(members) for group, members in self.twin.members.items()}
        assert {info.group: info.version for info in self.table.groups()} == self.twin.versions
        scanned: dict[int, set[tuple[str, str]]] = {}
        for group, members in self.twin.members.items():
            for client_id, member in members.items():
                if member.connection != RESTORED and member.grace_ends_at == FOREVER:
                    scanned.setdefault(member.connection, set()).add((group, client_id))
        assert {connection: set(found) for connection, found in self.table._by_connection.items()} == scanned
        next_deadline = self.table.next_deadline()
        assert (FOREVER if next_deadline is None else next_deadline) <= self.twin.next_event()
        for moments in self.moments.values():
            assert all(later - sooner >= WINDOW_S for sooner, later in itertools.pairwise(moments))


def consumer_data(group: str, topics: frozenset[str], timeout_s: float, model: MessageModel) -> ConsumerData:
    return ConsumerData(
        group=group,
        consume_type=ConsumeType.PASSIVELY,
        model=model,
        consume_from=ConsumeFrom.LAST_OFFSET,
        strategy="AVG",
        subscriptions=tuple(SubscriptionData(topic) for topic in sorted(topics)),
        session_timeout_s=timeout_s,
    )


def pairs(leaves: list[Leave], reason: LeaveReason) -> set[tuple[str, str]]:
    assert all(leave.reason is reason for leave in leaves)
    return {(leave.group.group, leave.member.client_id) for leave in leaves}


@pytest.mark.parametrize("silent_expiry", [False, True])
@settings(max_examples=300)
@given(restored=st.dictionaries(clients, st.sampled_from([0.5, 2.0])), program=programs)
def test_the_group_table_equals_its_naive_twin(
    silent_expiry: bool, restored: dict[str, float], program: list[tuple[object, ...]]
) -> None:
    pair = Pair(silent_expiry, restored)
    for verb, *values in program:
        pair.run(str(verb), *values)
        pair.check()
    pair.run("sleep", 16.0)
    pair.check()
    assert all(not members for members in pair.twin.members.values())
    assert pair.table.next_deadline() is None
