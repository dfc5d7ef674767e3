"""Acknowledgements on their way: who shares a request, and what becomes of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.config import ClientConfig
from client.instance.background import BackgroundTasks
from client.instance.instance import ClientInstance
from client.pop.acks import PopAcks
from client.pop.message import AckedOffsets
from client.pop.requests import AckedByDelivery, Dead, PopRequests
from model.errors import ConnectionLost, IllegalOperation, NotMaster, RlabError
from model.limits import MAX_ACK_BATCH, PULL_RETRY_ERROR_S, REQUEST_TIMEOUT_S
from model.message_queue import MessageQueue
from testbed.simulation.kernel.run import Simulation, run_simulation

A, B = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 1)


class Brokers:
    """Answers acknowledgements as it is told: with the dead offsets, or an error; over an open connection, or none."""

    client_id = "c1"
    config = ClientConfig(name_servers="n:1")

    def __init__(self, *answers: list[int] | RlabError, connected: bool = True, is_set: bool = False) -> None:
        self.connected, self.is_set = connected, is_set
        self.asked: list[tuple[str, dict[tuple[str, int, int], list[int]]]] = []
        self.answers = list(answers)
        self.broker_returned = anyio.Event()

    async def pause(self, broker_name: str) -> None:
        with anyio.move_on_after(PULL_RETRY_ERROR_S):
            await self.broker_returned.wait()

    def is_worth_waiting(self, broker_name: str, error: RlabError, *, repeats: bool) -> bool:
        return self.is_set and repeats

    async def wait_for_master(self, broker_name: str, until: float) -> bool:
        await anyio.sleep(0.1)
        return anyio.current_time() < until

    def start_ack(self, broker_name: str, acked: AckedByDelivery, answered: Callable[[Dead | RlabError], None]) -> bool:
        if self.connected:
            asyncio.get_running_loop().call_soon(answered, self.answer(broker_name, acked))
        return self.connected

    async def ack(self, broker_name: str, acked: AckedByDelivery) -> Dead:
        outcome = self.answer(broker_name, acked)
        if isinstance(outcome, RlabError):
            raise outcome
        return outcome

    def answer(self, broker_name: str, acked: AckedByDelivery) -> Dead | RlabError:
        self.asked.append((broker_name, {key: list(offsets) for key, offsets in acked.items()}))
        answer = self.answers.pop(0) if self.answers else []
        return answer if isinstance(answer, RlabError) else [("t", 0, offset) for offset in answer]


def run(brokers: Brokers, scenario: Callable[[PopAcks], Awaitable[None]], retry_s: float = 0.0) -> None:
    async def main(simulation: Simulation) -> None:
        background = BackgroundTasks("test")
        await background.start()
        instance, requests = cast(ClientInstance, brokers), cast(PopRequests, brokers)
        try:
            await scenario(PopAcks(instance, requests, background, retry_s))
        finally:
            await background.stop()

    run_simulation(main)


def test_those_of_one_turn_share_a_request_to_each_broker() -> None:
    brokers = Brokers()

    async def scenario(acks: PopAcks) -> None:
        batches = {acks.add(handle) for handle in ((A, 1, 7), (A, 2, 7), (A, 3, 8), (B, 1, 7), (A, 1, 7))}
        assert len(batches) == 2
        await acks.wait_idle()
        acks.add((A, 9, 9))
        await acks.wait_idle()

    run(brokers, scenario)
    assert brokers.asked == [
        ("broker-a", {("t", 0, 7): [1, 2], ("t", 0, 8): [3]}),
        ("broker-b", {("t", 1, 7): [1]}),
        ("broker-a", {("t", 0, 9): [9]}),
    ]


def test_two_deliveries_of_a_message_never_share_a_request_because_the_answer_names_no_tokens() -> None:
    brokers = Brokers([1], [])

    async def scenario(acks: PopAcks) -> None:
        old, new = acks.add((A, 1, 7)), acks.add((A, 1, 8))
        await acks.wait_idle()
        assert (list(old.dead), list(new.dead)) == ([(A, 1, 7)], [])
        assert acks.late == 1

    run(brokers, scenario)


def test_a_request_has_no_more_than_its_limit() -> None:
    brokers = Brokers()

    async def scenario(acks: PopAcks) -> None:
        for offset in range(MAX_ACK_BATCH + 1):
            acks.add((A, offset, 7))
        await acks.wait_idle()

    run(brokers, scenario)
    assert [sum(map(len, acked.values())) for _, acked in brokers.asked] == [MAX_ACK_BATCH, 1]


runs = st.lists(
    st.tuples(
        st.sampled_from([A, A._replace(queue_id=1), B]), st.integers(1, 3), st.lists(st.integers(0, 9), min_size=1)
    ),
    max_size=8,
)


@given(runs)
def test_runs_are_acknowledged_like_their_messages_one_by_one(
    given_runs: list[tuple[MessageQueue, int, list[int]]],
) -> None:
    together, alone = Brokers(), Brokers()

    async def by_run(acks: PopAcks) -> None:
        for queue, token, offsets in given_runs:
            batches = acks.add_offsets(AckedOffsets(queue, token, offsets))
            for offset in offsets:
                assert any(batch.tokens.get(queue, {}).get(offset) == token for batch in batches)
        await acks.wait_idle()

    async def one_by_one(acks: PopAcks) -> None:
        for queue, token, offsets in given_runs:
            for offset in offsets:
                acks.add((queue, offset, token))
        await acks.wait_idle()

    run(together, by_run)
    run(alone, one_by_one)
    assert together.asked == alone.asked


@pytest.mark.parametrize("connected", [True, False])
def test_a_lost_answer_is_asked_for_again_and_a_handle_that_is_dead_then_is_not_late(
    connected: bool, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers(ConnectionLost("gone"), [1], connected=connected)

    async def scenario(acks: PopAcks) -> None:
        batch = acks.add((A, 1, 7))
        await acks.wait_idle()
        assert batch.error is None
        assert acks.late == 0

    run(brokers, scenario, retry_s=60.0)
    assert len(brokers.asked) == 2


@pytest.mark.parametrize("error", [ConnectionLost("gone"), IllegalOperation("no")])
def test_what_cannot_be_asked_again_ends_with_its_error(error: RlabError, caplog: pytest.LogCaptureFixture) -> None:
    brokers = Brokers(error)

    async def scenario(acks: PopAcks) -> None:
        batch = acks.add((A, 1, 7))
        await batch.done.wait()
        assert batch.error is error

    caplog.set_level(logging.CRITICAL)
    run(brokers, scenario, retry_s=0.0 if isinstance(error, ConnectionLost) else 60.0)
    assert len(brokers.asked) == 1


def test_at_a_set_of_replicas_it_is_asked_for_again_for_the_time_of_a_request(caplog: pytest.LogCaptureFixture) -> None:
    refusals = [NotMaster("broker-a hands over") for _ in range(1000)]
    short, for_ever = Brokers(*refusals[:2], is_set=True), Brokers(*refusals, is_set=True)

    async def acknowledged(acks: PopAcks) -> None:
        batch = acks.add((A, 1, 7))
        await batch.done.wait()
        assert batch.error is None

    async def refused(acks: PopAcks) -> None:
        batch = acks.add((A, 1, 7))
        await batch.done.wait()
        assert isinstance(batch.error, NotMaster)
        assert anyio.current_time() == pytest.approx(REQUEST_TIMEOUT_S, abs=0.2)

    run(short, acknowledged)
    assert len(short.asked) == 3
    run(for_ever, refused)


def test_after_the_end_of_the_consumer_nothing_is_sent_and_no_one_waits() -> None:
    brokers = Brokers()

    async def scenario(acks: PopAcks) -> None:
        batch = acks.add((A, 1, 7))
        await acks._background.stop()
        await batch.done.wait()
        assert batch.error is not None

    run(brokers, scenario)
    assert brokers.asked == []
