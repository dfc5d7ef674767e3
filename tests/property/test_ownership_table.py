"""The table of a member's queues against a naive twin, with a broker whose answers are lost and slow listeners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from client.rebalance import ownership_acts as acts
from client.rebalance import ownership_events as events
from client.rebalance.ownership_events import OwnershipEvent
from client.rebalance.ownership_table import (
    ABSENT,
    DRAINING,
    LOST,
    OWNED,
    RELEASING,
    REQUESTED,
    TRANSITIONS,
    WANTED,
    OwnershipState,
    OwnershipTable,
)
from model.message_queue import MessageQueue

QUEUES = [MessageQueue("t", "broker-a", n) for n in range(2)]


@dataclass(eq=False)
class Held:
    queue: MessageQueue
    token: int
    commit_offset: int = 0
    busy: bool = False


@dataclass
class World:
    """A member that carries the acts out, its broker, and the twin: facts from which `expected` derives each state."""

    table: OwnershipTable[Held] = field(default_factory=OwnershipTable)
    leases: dict[MessageQueue, int] = field(default_factory=dict)  # of this member, at the broker: tokens
    others: set[MessageQueue] = field(default_factory=set)  # queues that another member has a lease of
    offsets: dict[MessageQueue, int] = field(default_factory=dict)
    tokens: int = 0
    live: list[Held] = field(default_factory=list)  # started and not stopped
    ended: list[Held] = field(default_factory=list)
    drains: list[Sequence[Held]] = field(default_factory=list)  # not reported yet
    releases: list[Sequence[Held]] = field(default_factory=list)
    leaving: dict[MessageQueue, OwnershipState] = field(default_factory=dict)
    asks: dict[MessageQueue, list[str]] = field(default_factory=dict)  # requests that may be granted yet
    open: list[MessageQueue] = field(default_factory=list)  # asked for, no answer reported yet
    confirmed: dict[MessageQueue, int] = field(default_factory=dict)
    target: list[MessageQueue] = field(default_factory=list)
    passing: bool = False
    closed: bool = False

    def on(self, event: OwnershipEvent[Held]) -> list[Any]:
        """Report an event, carry the acts out as a member does, and compare."""
        done = list(self.table.on(event))
        for act in done:
            self.carry_out(act)
        self.compare()
        return done

    def carry_out(self, act: Any) -> None:
        match act:
            case acts.StartQueue(held):
                assert held not in self.live + self.ended
                assert held.queue in self.target, "what another member should own is given back"
                self.live.append(held)
            case acts.RestartQueue(old, again):
                self.stop(old)
                self.live.append(again)
            case acts.RenewQueue(held, grant):
                assert held in self.live
                held.token = grant.token
            case acts.StopQueue(held):
                self.stop(held)
                self.leaving[held.queue] = DRAINING
            case acts.DropQueue(held):
                self.stop(held)
                if held.busy:
                    self.leaving[held.queue] = LOST
            case acts.DrainQueues(holdings):
                for held in holdings:
                    self.leaving.setdefault(held.queue, DRAINING)
                self.drains.append(holdings)
            case acts.FinishQueues(holdings):
                self.drains.append(holdings)
            case acts.ReleaseQueues(holdings):
                self.leaving |= {held.queue: RELEASING for held in holdings}
                self.releases.append(holdings)
            case acts.RequestLeases(wanted, again):
                assert not {*wanted, *again} & self.leaving.keys()
                assert sorted({*wanted, *again}) == sorted([*wanted, *again])
                self.open = [*wanted, *again]
                self.confirmed = {queue: self.offsets.get(queue, 0) for queue in self.open}
                for queue in self.open:
                    self.asks.setdefault(queue, []).append("open")

    def stop(self, held: Held) -> None:
        self.live.remove(held)
        self.ended.append(held)

    def expected(self, queue: MessageQueue) -> OwnershipState:
        if any(held.queue == queue for held in self.live):
            return OWNED
        if queue in self.leaving:
            return self.leaving[queue]
        if self.asks.get(queue) and not self.closed:
            return REQUESTED
        return WANTED if queue in self.target and not self.closed else ABSENT

    def compare(self) -> None:
        for queue in QUEUES:
            assert self.table.state(queue) is self.expected(queue)
        assert sorted(self.table.owned) == sorted(held.queue for held in self.live)
        assert all(held is self.table.owned[held.queue] for held in self.live), "only what is owned is dispatched"
        assert self.table.leaving.keys() == self.leaving.keys()
        assert not (self.closed and self.live)
        assert self.table.balanced == (not self.closed and self.table.owned.keys() == set(self.target))

    # --- steps -------------------------------------------------------------------------------------------------------

    def find(self, target: list[MessageQueue]) -> None:
        if self.passing:
            return
        self.passing = True
        if not self.closed:
            self.target = target
        was_idle = self.table.balanced and self.table.settled(target)
        done = self.on(events.TargetFound(target))
        assert not (done and was_idle)

    def ask(self, unconfirmed: set[MessageQueue]) -> None:
        if self.passing and not self.open:
            self.on(events.LeasesDue([queue for queue in self.table.owned if queue in unconfirmed]))
            self.passing = bool(self.open)

    def answer(self, how: str) -> None:
        """Report what became of the first open request."""
        if not self.open:
            return
        queue = self.open.pop(0)
        self.passing = bool(self.open)
        past = self.asks.setdefault(queue, [])
        if how == "definite":  # the request did not leave
            past.remove("open")
            self.on(events.RequestFailed(queue, definite=True))
            return
        if how != "not executed" and queue not in self.others and queue not in self.leases:
            self.tokens += 1
            self.leases[queue] = self.tokens
        if how in ("lost", "not executed"):
            past[:] = ["lost"]
            self.on(events.RequestFailed(queue, definite=False))
            return
        past.clear()
        if queue not in self.leases:
            self.on(events.QueueRefused(queue))
            return
        if queue in self.leaving:
            past.append("lost")  # granted, and not of use yet: it is asked for again
        owned = next((held for held in self.live if held.queue == queue), None)
        grant, confirmed = Held(queue, self.leases[queue], self.offsets.get(queue, 0)), self.confirmed[queue]
        may_go_on = owned is not None and confirmed <= grant.commit_offset <= owned.commit_offset
        done = self.on(events.QueueGranted(grant, confirmed))
        assert any(isinstance(act, acts.RenewQueue) for act in done) == may_go_on

    def report_drained(self) -> None:
        if self.drains:
            holdings = self.drains.pop(0)
            for held in holdings:
                if self.leaving.get(held.queue) is LOST:
                    del self.leaving[held.queue]
            self.on(events.QueuesDrained(holdings))

    def report_released(self) -> None:
        if self.releases:
            holdings = self.releases.pop(0)
            for held in holdings:
                if self.leases.get(held.queue) == held.token:
                    del self.leases[held.queue]
                    self.offsets[held.queue] = max(self.offsets.get(held.queue, 0), held.commit_offset)
                del self.leaving[held.queue]
            self.on(events.QueuesReleased(holdings))

    def step(self, verb: str, queues: set[MessageQueue], how: str, number: int) -> None:
        own = next((held for held in self.live if held.queue in queues), None)
        match verb:
            case "find":
                self.find(sorted(queues))
            case "again":
                self.find(self.target)
            case "ask":
                self.ask(queues)
            case "own":
                self.find(QUEUES)
                self.ask(queues)
                while self.open:
                    self.answer("answered")
            case "answer":
                self.answer(how)
            case "drained":
                self.report_drained()
            case "released":
                self.report_released()
            case "busy" if own is not None:
                own.busy = not own.busy
            case "progress" if own is not None:
                own.commit_offset += 1
            case "commit" if own is not None and self.leases.get(own.queue) == own.token:
                self.offsets[own.queue] = own.commit_offset
            case "taken":  # the session ended at the broker, and another member asked first
                for queue in queues:
                    self.leases.pop(queue, None)
                    self.others.add(queue)
                    self.offsets[queue] = self.offsets.get(queue, 0) + number
            case "freed":
                self.others -= queues
            case "lost" if own is not None:
                if self.leases.get(own.queue) == own.token:
                    del self.leases[own.queue]
                done = self.on(events.QueueLost(own))
                assert acts.WakePass(recompute=True) in done
                assert self.on(events.QueueLost(own)) == [], "an answer to a pull from before"
            case "reset":
                token = self.tokens
                for queue in queues & self.leases.keys():
                    del self.leases[queue]
                    self.offsets[queue] = number
                self.on(events.QueuesReset(sorted(queues), token))
            case "restart" if own is not None:
                self.on(events.QueueRestarted(own, Held(own.queue, own.token, number)))
            case "outdated" if own is not None:
                self.on(events.QueueOutdated(own))
            case "close" if not self.closed:
                self.closed = True
                alone = number == 0
                if alone:  # the tasks of the member have ended
                    self.leaving = {queue: at for queue, at in self.leaving.items() if at is DRAINING}
                    self.drains, self.releases = [], []
                self.on(events.MemberClosed(alone))

    def come_to_rest(self) -> None:
        """Answer everything, with a target of no queues."""
        for _ in range(3):
            while self.open:
                self.answer("answered")
            while self.drains or self.releases:
                self.report_drained()
                self.report_released()
            self.find([])
            self.ask(set())


OF_PASSES = [
    "own",
    "find",
    "find",
    "again",
    "ask",
    "ask",
    "answer",
    "answer",
    "answer",
    "drained",
    "drained",
    "released",
]
OF_QUEUES = ["busy", "busy", "progress", "commit", "taken", "freed", "lost", "reset", "restart", "outdated"]
verbs = st.sampled_from([*OF_PASSES, *OF_QUEUES])
hows = st.sampled_from(["answered", "answered", "answered", "lost", "not executed", "definite"])
steps = st.tuples(verbs, st.sets(st.sampled_from(QUEUES), min_size=1), hows, st.integers(0, 3))


@settings(max_examples=250)
@given(st.lists(steps, min_size=10, max_size=40))
def test_the_table_equals_its_naive_twin_and_no_lease_that_was_granted_stays_unused(
    program: list[tuple[str, set[MessageQueue], str, int]],
) -> None:
    world = World()
    for step in program:
        world.step(*step)
    world.come_to_rest()
    assert world.leases == {}, "granted, and neither owned nor released"
    assert (world.live, world.leaving, world.table.settled([])) == ([], {}, True)


@settings(max_examples=100)
@given(st.lists(steps, max_size=40), st.integers(0, 1), st.lists(steps, max_size=20))
def test_after_the_close_nothing_is_owned_whatever_is_reported_then(
    program: list[tuple[str, set[MessageQueue], str, int]],
    alone: int,
    later: list[tuple[str, set[MessageQueue], str, int]],
) -> None:
    world = World()
    for step in program:
        world.step(*step)
    world.step("close", set(), "", alone)
    for step in later:
        world.step(*step)
        assert not world.table.owned
    while world.drains or world.releases:
        world.report_drained()
        world.report_released()
    assert not world.table.leaving


@given(st.sampled_from(sorted(TRANSITIONS, key=str)))
def test_each_state_has_a_way_to_absent_and_none_but_grants_leads_to_owned(at: tuple[OwnershipState, Any]) -> None:
    assert (TRANSITIONS[at] is OWNED) == (at[1] == "grant")
    reached, before = {at[0]}, set[OwnershipState]()
    while reached != before:
        before = set(reached)
        for (state, _), after in TRANSITIONS.items():
            if state in before:
                reached |= {after} if after is not None else {REQUESTED, WANTED, ABSENT}
    assert ABSENT in reached
