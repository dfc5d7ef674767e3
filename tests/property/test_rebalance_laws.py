"""Laws of the rebalance decisions: the plan, the target of a whole group, and the schedule against a naive twin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from client.allocate import AllocateMessageQueueAveragely
from client.instance.schedule import RebalanceSchedule
from client.rebalance.plan import allocate_target, plan_rebalance
from client.trigger import Trigger
from model.heartbeat import GroupView, MessageModel
from model.message_queue import MessageQueue

queues = st.builds(MessageQueue, st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 5))
queue_sets = st.sets(queues, max_size=20)


@given(queue_sets, queue_sets)
def test_a_plan_leads_from_owned_to_target_and_touches_no_more_than_it_must(
    owned: set[MessageQueue], target: set[MessageQueue]
) -> None:
    plan = plan_rebalance(owned, target)
    assert (owned - set(plan.revoke)) | set(plan.acquire) == target
    assert [*plan.revoke] == sorted(q for q in owned if q not in target)
    assert [*plan.keep] == sorted(q for q in owned if q in target)
    assert [*plan.acquire] == sorted(q for q in target if q not in owned)


@given(
    st.dictionaries(st.sampled_from("mnopqr"), st.sets(st.sampled_from("ab")).map(sorted).map(tuple)),
    queue_sets.map(sorted),
    st.randoms(use_true_random=False),
)
def test_members_of_one_view_own_every_queue_of_a_subscribed_topic_once_however_inputs_are_ordered(
    subscriptions: dict[str, tuple[str, ...]], all_queues: list[MessageQueue], random: object
) -> None:
    view = GroupView(group="g", version=1, members=dict(sorted(subscriptions.items())))
    shuffled = sorted(all_queues, key=lambda _: random.random())  # type: ignore[attr-defined]
    queues_of = {topic: [queue for queue in shuffled if queue.topic == topic] for topic in "ab"}
    owned = [
        queue
        for cid, topics in view.members.items()
        for queue in allocate_target(
            AllocateMessageQueueAveragely(), "g", cid, MessageModel.CLUSTERING, topics, queues_of, view
        )
    ]
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    assert sorted(owned) == [queue for queue in all_queues if queue.topic in wanted]


class NaiveSchedule:
    """One group as a log: every wake-up since the last pass began, and when the timer runs out."""

    def __init__(self) -> None:
        self.log: list[tuple[Trigger, str]] = []
        self.timer_at = 20.0
        self.running = False

    def take(self, now: float) -> tuple[tuple[Trigger, ...], str] | None:
        if self.running or (not self.log and now < self.timer_at):
            return None
        seen = [trigger for trigger, _ in self.log] + ([Trigger.TIMER] if now >= self.timer_at else [])
        causes = [cause for _, cause in self.log if cause]
        self.log, self.running = [], True
        return tuple(sorted(set(seen), key=seen.index)), (causes or [""])[0]


steps = st.one_of(
    st.tuples(st.just("wake"), st.sampled_from(list(Trigger)), st.sampled_from(["", "c1", "c2"])),
    st.tuples(st.just("take"), st.just(None), st.just("")),
    st.tuples(st.just("finish"), st.booleans(), st.just("")),
    st.tuples(st.just("sleep"), st.integers(0, 25), st.just("")),
)


@given(st.lists(steps, max_size=40))
def test_the_schedule_equals_its_naive_twin(program: list[tuple[str, object, str]]) -> None:
    schedule, twin, now = RebalanceSchedule(), NaiveSchedule(), 0.0
    schedule.add("g", now)
    for verb, value, cause in program:
        if verb == "wake":
            assert isinstance(value, Trigger)
            schedule.wake("g", value, cause, now=now)
            twin.log.append((value, cause))
        elif verb == "take":
            expected = twin.take(now)
            assert [(one.triggers, one.cause) for one in schedule.begin_due(now)] == ([expected] if expected else [])
        elif verb == "finish" and twin.running:
            schedule.finished("g", bool(value), now)
            twin.running, twin.timer_at = False, now + (20.0 if value else 1.0)
        elif verb == "sleep":
            now += value  # type: ignore[operator]
        deadline = schedule.next_deadline()
        if twin.running:
            assert deadline is None
        else:
            assert deadline is not None
            assert (deadline <= now) == (bool(twin.log) or twin.timer_at <= now)
            assert deadline <= twin.timer_at
