"""Popped messages between the pop and the acknowledgement."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from client.pop.message import PopMessage, make_popped
from client.pop.process_queue import PopProcessQueue, apply_renewal, retry_renewal
from model.message import MessageExt
from model.message_queue import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 2)
INVISIBLE_S = 9.0


def popped(offset: int, token: int = 1) -> PopMessage:
    message = MessageExt(QUEUE, offset, 1000, 0, "orders", b"%d" % offset, "", (), {}, 900, "id")
    return make_popped(message, 0, token, 5000)


class Queue:
    """A queue that counts what has left it."""

    def __init__(self, *offsets: int, in_order: bool = False, now: float = 0.0) -> None:
        self.queue = PopProcessQueue(QUEUE, in_order=in_order)
        self.gone = 0
        self.put(*offsets, now=now)

    def put(self, *offsets: int, now: float = 0.0, token: int = 1) -> None:
        self.queue.put([popped(offset, token) for offset in offsets], now, INVISIBLE_S, self.left)

    def left(self) -> None:
        self.gone += 1

    def batch(self, n: int = 1, now: float = 0.0) -> list[MessageExt]:
        return self.queue.next_batch(n, now)


def offsets(messages: list[MessageExt]) -> list[int]:
    return [message.offset for message in messages]


def test_messages_are_handed_out_in_the_order_in_which_they_came_and_end_in_any() -> None:
    it = Queue(5, 6, 7)
    first, second = it.batch(2), it.batch(2)
    assert (offsets(first), offsets(second)) == ([5, 6], [7])
    assert not it.queue.ready(0.0)
    assert [each.message.offset for each in it.queue.end(second)] == [7]
    assert [each.message.offset for each in it.queue.end(first)] == [5, 6]
    assert (len(it.queue), it.queue.in_flight, it.gone) == (0, 0, 3)


def test_a_message_whose_time_is_over_is_not_handed_out_any_more() -> None:
    it = Queue(5, 6)
    assert it.queue.ready(INVISIBLE_S)
    assert it.batch(2, now=INVISIBLE_S) == []
    assert (len(it.queue), it.gone) == (0, 2)


def test_messages_that_wait_and_those_with_a_listener_are_due_after_two_thirds_of_their_time() -> None:
    it = Queue(5, 6)
    it.batch()
    assert it.queue.next_deadline() == 6.0
    assert it.queue.due(5.9) == []
    due = it.queue.due(6.0)
    assert [each.message.offset for each in due] == [5, 6]
    assert it.queue.due(6.0) == []  # the request is under way
    assert it.queue.next_deadline() is None
    apply_renewal(due[0], 77, 9000, 6.0, INVISIBLE_S)
    retry_renewal(due[1], 6.5)
    assert it.queue.next_deadline() == 7.5
    assert (due[0].message.token, due[0].message.visible_ms, due[0].renew_at, due[0].expires_at) == (77, 9000, 12, 15)
    assert (due[1].message.token, due[1].expires_at) == (1, 9)


def test_a_result_finds_nothing_once_the_handle_has_died() -> None:
    it = Queue(5)
    batch = it.batch()
    (due,) = it.queue.due(6.0)
    assert it.queue.lost(due)
    assert not it.queue.lost(due)
    assert it.queue.end(batch) == []
    assert (it.queue.in_flight, it.gone) == (0, 1)


def test_a_message_that_is_redelivered_while_an_older_delivery_is_with_a_listener_is_another_one() -> None:
    it = Queue(5)
    older = it.batch()
    it.put(5, token=2)
    newer = it.batch()
    assert it.queue.end(older) == []
    (ended,) = it.queue.end(newer)
    assert ended.message.token == 2
    assert (len(it.queue), it.queue.in_flight, it.gone) == (0, 0, 2)


def test_in_order_a_batch_waits_for_the_one_before_it_and_for_a_failure_where_it_stands() -> None:
    it = Queue(5, 6, 7, in_order=True)
    first = it.batch(2)
    assert not it.queue.ready(0.0)
    it.queue.end(first[:1])
    it.queue.requeue(first[1:], 3.0)
    assert (it.queue.ready(2.9), it.queue.next_retry_deadline()) == (False, 3.0)
    again = it.batch(9, now=3.0)
    assert [(message.offset, message.times_delivered) for message in again] == [(6, 1), (7, 0)]
    assert it.queue.end(first) == []  # what was given back is no longer this delivery
    assert [each.message.token for each in it.queue.end(again)] == [1, 1]


def test_at_the_end_what_waits_can_be_taken_apart_from_what_listeners_have() -> None:
    it = Queue(5, 6, 7)
    first = it.batch()
    assert [each.message.offset for each in it.queue.remove_all(dispatched=False)] == [6, 7]
    assert not it.queue.ready(0.0)
    assert it.queue.in_flight == 1
    assert [each.message.offset for each in it.queue.remove_all(dispatched=True)] == [5]
    assert it.queue.end(first) == []
    assert (it.queue.in_flight, it.gone) == (0, 3)


class AgainstATwin(RuleBasedStateMachine):
    """Any order of pops, hand-outs, results, renewals and deaths, against a dict of what waits and one of the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.it = Queue()
        self.now, self.token, self.put_in = 0.0, 0, 0
        self.waiting: dict[int, float] = {}  # offset -> when its time is over
        self.handed: dict[int, MessageExt] = {}

    @rule(offsets=st.sets(st.integers(0, 5), min_size=1))
    def pop(self, offsets: set[int]) -> None:
        self.token += 1
        for offset in sorted(offsets):
            self.waiting.pop(offset, None)
            self.handed.pop(offset, None)
            self.waiting[offset] = self.now + INVISIBLE_S
        self.put_in += len(offsets)
        self.it.put(*sorted(offsets), now=self.now, token=self.token)

    @rule(n=st.integers(1, 4))
    def hand_out(self, n: int) -> None:
        got = self.it.batch(n, self.now)
        for offset, expires_at in list(self.waiting.items()):
            if n:
                del self.waiting[offset]
                if expires_at > self.now:
                    n -= 1
                    assert got[0].offset == offset
                    self.handed[offset] = got.pop(0)
        assert not got

    @precondition(lambda self: self.handed)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        message = self.handed.pop(data.draw(st.sampled_from(sorted(self.handed))))
        assert [each.message for each in self.it.queue.end([message])] == [message]
        assert self.it.queue.end([message]) == []

    @rule(fate=st.sampled_from(["renewed", "failed", "dead"]), later=st.sampled_from([0.0, 3.0, 6.0]))
    def renew(self, fate: str, later: float) -> None:
        self.now += later
        for due in self.it.queue.due(self.now):
            offset = due.message.offset
            if fate == "renewed":
                self.token += 1
                apply_renewal(due, self.token, 0, self.now, INVISIBLE_S)
                if offset in self.waiting:
                    self.waiting[offset] = self.now + INVISIBLE_S
            elif fate == "failed":
                retry_renewal(due, self.now)
            else:
                assert self.it.queue.lost(due)
                self.waiting.pop(offset, None)
                self.handed.pop(offset, None)

    @invariant()
    def agree(self) -> None:
        assert len(self.it.queue) == len(self.waiting) + len(self.handed)
        assert self.it.queue.in_flight == len(self.handed)
        assert self.it.gone == self.put_in - len(self.it.queue)
        assert self.it.queue.ready(self.now) or not self.waiting


TestAgainstATwin = AgainstATwin.TestCase
TestAgainstATwin.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
