"""The pull loop of one queue against a broker whose answers are written down beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import anyio
import pytest

from client.instance.heartbeats import Refusals
from client.instance.instance import ClientInstance
from client.pull.loop import PullCallbacks, PullLoop
from client.pull.owned_queue import OwnedQueue
from client.pull.process_queue import ProcessQueue
from model.errors import ConnectFailed, ConnectionLost, RequestTimeout, RlabError
from model.event_log import EventLog
from model.events import Event, EventKind
from model.limits import MAX_PULL_BYTES, PULL_RETRY_ERROR_S, PULL_SUSPEND_S
from model.message import Message, encode_payload
from model.message_queue import MessageQueue
from model.record import encode_record
from model.response_code import ResponseCode
from model.subscription import SubscriptionData, make_subscription
from remoting.command import RESPONSE, Command
from testbed.simulation.kernel.run import run_simulation

QUEUE = MessageQueue("t", "b", 3)

Answer = Command | Exception


def found(*offsets: int, tags: str = "", next_offset: int | None = None) -> Command:
    payload = encode_payload(Message("t", b"x", tags=tags), 0, "id")
    body = b"".join(encode_record(1, 3, offset, 0, 0, 0, 0, payload) for offset in offsets)
    last = offsets[-1] + 1 if next_offset is None else next_offset
    return Command(RESPONSE, 0, 0, {"next_offset": last}, body)


def answer(code: ResponseCode, next_offset: int = 0) -> Command:
    return Command(RESPONSE, int(code), 0, {"next_offset": next_offset, "remark": code.name}, None)


class ScriptedBroker:
    """Client instance, connection and broker in one: gives its answers in turn, and then holds every pull."""

    client_id = "c@1"
    ready = True

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.pulled: list[tuple[float, dict[str, Any]]] = []
        self.noted: list[Event] = []
        self.events = EventLog("c@1", lambda: 0, sink=self.noted.append)
        self.masters: dict[str, ScriptedBroker] = {}
        self.connects: list[float] = []
        self.broker_returned = anyio.Event()
        self.refusals = Refusals()
        self.in_between: Callable[[], None] = lambda: None

    async def pause(self, broker_name: str) -> None:
        with anyio.move_on_after(PULL_RETRY_ERROR_S):
            await self.broker_returned.wait()

    @property
    def offsets(self) -> list[int]:
        return [header["offset"] for _, header in self.pulled]

    @property
    def times_s(self) -> list[float]:
        return [time_s for time_s, _ in self.pulled]

    async def connect_master(self, broker_name: str, timeout_s: float) -> ScriptedBroker:
        self.connects.append(anyio.current_time())
        if self.answers and isinstance(self.answers[0], ConnectFailed):
            raise cast("ConnectFailed", self.answers.pop(0))
        self.masters[broker_name] = self
        return self

    async def wait_writable(self) -> None:
        pass

    def busy_wait_s(self, broker_name: str, error: RlabError) -> float:
        return 0.0

    def request(self, code: int, header: dict[str, Any], body: None, timeout_s: float) -> asyncio.Future[Command]:
        self.pulled.append((anyio.current_time(), dict(header)))
        assert len(self.pulled) < 100, "the loop spins"
        waiter: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        if self.answers:
            self.in_between()
            given = self.answers.pop(0)
            if isinstance(given, Exception):
                waiter.set_exception(given)
            else:
                waiter.set_result(given)
        return waiter


class Member:
    """What a consumer does around the loop: it writes down what it is told."""

    def __init__(self, broker: ScriptedBroker, expression: str | None = "*", **limits: int) -> None:
        self.broker = broker
        self.subscription: SubscriptionData | None = make_subscription("t", expression, 1) if expression else None
        self.owned = OwnedQueue(QUEUE, 9, ProcessQueue(5, **limits), "cause/1")
        self.reported: list[tuple[str, object]] = []
        callbacks = PullCallbacks(
            subscription_of=lambda topic: self.subscription,
            arrived=lambda owned: self.reported.append(("arrived", owned.process_queue.pull_offset)),
            lost=lambda owned: self.reported.append(("lost", owned.queue)),
            moved=lambda owned, offset: self.reported.append(("moved", offset)),
            recreated=lambda owned: self.reported.append(("created again", owned.queue)),
            damaged=lambda owned, n, offset: self.reported.append(("damaged", (n, offset))),
        )
        self.loop = PullLoop(cast("ClientInstance", broker), "g", self.owned, 32, callbacks)
        self.ended = False

    async def run(self) -> None:
        await self.loop.run()
        self.ended = True


def run(member: Callable[[], Member], for_s: float, in_between: Callable[[Member], None] | None = None) -> Member:
    """Run the loop for so long; halfway through, `in_between` happens."""

    async def main(simulation: object) -> Member:
        made = member()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.run)
            await anyio.sleep(for_s / 2)
            if in_between is not None:
                in_between(made)
            await anyio.sleep(for_s / 2)
            tasks.cancel_scope.cancel()
        return made

    return run_simulation(main)


def test_a_pull_says_who_asks_for_what_and_under_which_lease() -> None:
    member = run(lambda: Member(ScriptedBroker()), 1)
    ((_, header),) = member.broker.pulled
    assert header == {
        "group": "g",
        "topic": "t",
        "queue_id": 3,
        "offset": 5,
        "max_n": 32,
        "suspend_ms": PULL_SUSPEND_S * 1000,
        "client_id": "c@1",
        "token": 9,
    }


def test_a_queue_that_stays_empty_is_held_longer_and_longer_until_a_message_or_an_error_comes() -> None:
    empty = answer(ResponseCode.PULL_NOT_FOUND, 5)
    broker = ScriptedBroker(empty, empty, empty, found(5), empty, ConnectionLost("gone"))
    run(lambda: Member(broker), 10)
    assert [header["suspend_ms"] // 1000 for _, header in broker.pulled] == [15, 30, 45, 45, 15, 30, 15]


def asked(*answers: Answer, **limits: int) -> list[int]:
    broker = ScriptedBroker(*answers)
    run(lambda: Member(broker, "*", **limits), 1)
    return [header["max_n"] for _, header in broker.pulled]


def test_a_queue_that_lags_is_pulled_in_larger_and_larger_parts_until_it_has_no_more() -> None:
    full = [found(*range(5, 37)), found(*range(37, 101)), found(*range(101, 229)), found(*range(229, 357))]
    assert asked(*full, found(357)) == [32, 64, 128, 128, 128, 32]


def test_a_larger_part_leaves_flow_control_its_limits() -> None:
    full = [found(*range(5, 37)), found(*range(37, 101)), found(*range(101, 105))]
    assert asked(*full, max_count=100) == [32, 64, 32, 32]
    assert asked(*full, max_span=100) == [32, 64, 32, 32]
    assert asked(*full, max_bytes=MAX_PULL_BYTES) == [32, 32, 32, 32]


def test_each_pull_goes_on_where_the_last_one_ended() -> None:
    member = run(
        lambda: Member(
            ScriptedBroker(
                found(5, 6, 7),
                answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 20),
                answer(ResponseCode.PULL_NOT_FOUND, 20),
                found(20, 21, next_offset=30),
            )
        ),
        1,
    )
    assert member.broker.offsets == [5, 8, 20, 20, 30]
    assert member.reported == [("arrived", 8), ("arrived", 30)]
    batch = member.owned.process_queue.next_batch(99, 0)
    assert [message.offset for message in batch] == [5, 6, 7, 20, 21]
    assert {message.queue for message in batch} == {QUEUE}


def finish_on_arrival(member: Member) -> None:
    """Process every message at once."""

    def arrived(owned: OwnedQueue) -> None:
        owned.process_queue.finish(owned.process_queue.next_batch(99, 0))

    member.loop._callbacks = replace(member.loop._callbacks, arrived=arrived)


def test_a_pull_carries_what_was_finished_since_the_last_one_and_again_after_a_failure() -> None:
    lost = RequestTimeout("no answer")

    def member() -> Member:
        made = Member(ScriptedBroker(found(5, 6), answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 7), lost, found(7)))
        finish_on_arrival(made)
        return made

    made = run(member, 4)
    assert [header.get("commit") for _, header in made.broker.pulled] == [None, 7, None, 7, 8]


def test_a_queue_without_a_lease_is_pulled_without_commits() -> None:
    def member() -> Member:
        made = Member(ScriptedBroker(found(5, 6)))
        made.owned.token = -1
        finish_on_arrival(made)
        return made

    assert [header.get("commit") for _, header in run(member, 1).broker.pulled] == [None, None]


def test_the_first_pull_and_the_first_message_are_noted_once_with_the_cause_of_the_queue() -> None:
    member = run(lambda: Member(ScriptedBroker(answer(ResponseCode.PULL_NOT_FOUND, 5), found(5), found(6))), 1)
    noted = [(event.kind, event.offset, event.version, event.cause) for event in member.broker.noted]
    assert noted == [(EventKind.FIRST_PULL, 5, 9, "cause/1"), (EventKind.FIRST_MESSAGE, 5, 9, "cause/1")]


@pytest.mark.parametrize(
    ("failure", "pauses"),
    [
        (RequestTimeout("no answer"), True),
        (ConnectFailed("nobody there"), True),
        (answer(ResponseCode.TOPIC_NOT_EXIST), True),
        (answer(ResponseCode.NO_PERMISSION), True),
        (answer(ResponseCode.SYSTEM_BUSY), True),
        (answer(ResponseCode.PULL_NOT_FOUND, 5), False),
        (answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 5), False),
    ],
)
def test_after_a_failure_the_same_offset_is_asked_for_again_after_a_pause(failure: Answer, pauses: bool) -> None:
    member = run(lambda: Member(ScriptedBroker(failure)), 5)
    again_s = member.broker.times_s[-1]
    assert again_s == (PULL_RETRY_ERROR_S if pauses else 0.0)
    assert set(member.broker.offsets) == {5}
    assert member.reported == []


def test_a_connection_is_asked_for_again_only_when_the_one_it_had_is_gone() -> None:
    member = run(lambda: Member(ScriptedBroker(found(5), found(6))), 1)
    assert len(member.broker.connects) == 1
    member = run(lambda: Member(ScriptedBroker(RequestTimeout("x"))), 3, lambda made: made.broker.masters.clear())
    assert len(member.broker.connects) == 1, "the timeout of one pull is no reason"


def test_a_queue_that_is_another_members_by_now_ends_the_loop() -> None:
    member = run(lambda: Member(ScriptedBroker(found(5), answer(ResponseCode.LEASE_LOST), found(6))), 5)
    assert member.ended
    assert member.reported == [("arrived", 6), ("lost", QUEUE)]
    assert member.broker.offsets == [5, 6]


def test_an_answer_about_an_older_lease_says_nothing_about_the_one_that_was_granted_since() -> None:
    def make() -> Member:
        made = Member(ScriptedBroker(answer(ResponseCode.LEASE_LOST), found(5)))

        def granted_again() -> None:
            made.owned.token = 10

        made.broker.in_between = granted_again
        return made

    member = run(make, 5)
    assert [header["token"] for _, header in member.broker.pulled] == [9, 10, 10]
    assert member.reported == [("arrived", 6)]
    assert not member.ended


def test_an_offset_that_the_broker_does_not_have_is_left_to_the_consumer() -> None:
    member = run(lambda: Member(ScriptedBroker(answer(ResponseCode.PULL_OFFSET_MOVED, 100))), 1)
    assert member.reported == [("moved", 100)]


def test_damaged_messages_are_reported_with_the_messages_behind_them() -> None:
    behind = found(9)
    behind = behind._replace(header={**behind.header, "damaged": 4})
    member = run(lambda: Member(ScriptedBroker(behind)), 1)
    assert member.reported == [("damaged", (4, 10)), ("arrived", 10)]
    assert member.broker.offsets == [5, 10]


def test_a_queue_that_is_abandoned_during_a_pull_ends_the_loop_at_once() -> None:
    member = run(lambda: Member(ScriptedBroker()), 1, lambda made: made.owned.stop())
    assert member.ended
    assert len(member.broker.pulled) == 1


def test_what_comes_for_a_queue_that_was_dropped_in_between_is_ignored() -> None:
    async def main(simulation: object) -> Member:
        member = Member(ScriptedBroker(found(5)))
        member.broker.in_between = member.owned.process_queue.drop
        await member.run()
        return member

    member = run_simulation(main)
    assert member.reported == []
    assert member.owned.process_queue.commit_offset == 5


def test_records_that_were_damaged_on_their_way_are_pulled_again() -> None:
    damaged = found(5)._replace(body=b"nonsense")
    member = run(lambda: Member(ScriptedBroker(damaged, found(5))), 5)
    assert member.broker.offsets == [5, 5, 6]
    assert member.reported == [("arrived", 6)]


def test_a_record_that_is_not_a_message_is_reported_and_passed_over_and_its_neighbours_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = [(found(offset).body or b"") for offset in (5, 7)]
    mixed = found(5)._replace(
        header={"next_offset": 10},
        body=whole[0] + encode_record(1, 3, 6, 0, 0, 0, 0, b"{}") + whole[1] + encode_record(1, 3, 8, 0, 0, 0, 0, b"x"),
    )
    member = run(lambda: Member(ScriptedBroker(mixed)), 5)
    assert member.broker.offsets == [5, 10]
    process_queue = member.owned.process_queue
    batch = process_queue.next_batch(99, 0)
    assert [message.offset for message in batch] == [5, 7]
    assert process_queue.commit_offset == 5
    process_queue.finish(batch)
    assert process_queue.commit_offset == 10
    reported = [(entry.levelname, entry.getMessage()) for entry in caplog.records]
    assert [(level, "t@b:3+6" in text, "t@b:3+8" in text) for level, text in reported] == [
        ("ERROR", True, False),
        ("ERROR", False, True),
    ]
    (event,) = [event for event in member.broker.noted if event.kind == EventKind.MESSAGES_UNDECODABLE]
    assert (event.group, event.queue_id, event.offset, event.n, event.cause) == ("g", 3, 6, 2, "cause/1")


def test_a_full_queue_is_not_pulled_until_messages_are_finished() -> None:
    def finish_one(member: Member) -> None:
        process_queue = member.owned.process_queue
        process_queue.finish(process_queue.next_batch(1, 0))
        member.owned.notify_progress()

    member = run(lambda: Member(ScriptedBroker(found(5, 6, 7)), max_count=2), 5)
    assert member.broker.offsets == [5]
    member = run(lambda: Member(ScriptedBroker(found(5, 6, 7)), max_count=2), 5, finish_one)
    assert member.broker.offsets == [5, 8]
    assert member.broker.times_s[1] == 2.5


def test_the_broker_gets_the_hashes_of_the_tags_and_what_only_shares_a_hash_is_left_out() -> None:
    # "Aa" and "BB" have one hash.
    member = run(lambda: Member(ScriptedBroker(found(5, tags="BB"), found(6, tags="Aa")), "Aa"), 1)
    assert member.subscription is not None
    assert [header["tag_hashes"] for _, header in member.broker.pulled] == [
        list(member.subscription.tag_hashes or ())
    ] * 3
    process_queue = member.owned.process_queue
    assert [message.tags for message in process_queue.next_batch(99, 0)] == ["Aa"]
    assert process_queue.pull_offset == 7


def test_a_changed_subscription_counts_from_the_next_pull_on() -> None:
    def change(member: Member) -> None:
        member.subscription = make_subscription("t", "*", 2)

    class HoldsTheFirst(ScriptedBroker):
        def request(self, *args: Any) -> asyncio.Future[Command]:
            if self.pulled:
                return super().request(*args)
            self.pulled.append((0.0, dict(args[1])))
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[Command] = loop.create_future()
            loop.call_later(1.5, waiter.set_result, answer(ResponseCode.PULL_NOT_FOUND, 5))
            return waiter

    member = run(lambda: Member(HoldsTheFirst(), "a"), 2, change)
    assert ["tag_hashes" in header for _, header in member.broker.pulled] == [True, False]
