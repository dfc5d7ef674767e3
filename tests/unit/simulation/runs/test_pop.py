"""One short run, what it says of itself, and that brokers which do wrong are caught."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from broker.pop.ledger import GroupQueue, PopLedger
from client.pop.requests import Acked, Dead, PopRequests
from model.errors import ConnectionLost, RlabError
from model.message_queue import MessageQueue
from simulation.checks.pop import PopCheck
from simulation.runs.pop import PopRunOptions, PopVerdict, main, pop_figures, run_pop, watch_acknowledgements

SHORT = PopRunOptions(seed=1, messages=60, chaos_s=8.0, pushers=2, poppers=1)


QUEUE = MessageQueue("t", "broker-a", 0)
ACKED: Acked = {("t", 0, 7): [1, 2]}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)


def rules(verdict: PopVerdict) -> set[str]:
    return {violation.partition(":")[0] for violation in verdict.violations}


def test_equal_options_give_equal_runs_in_which_everything_is_ended() -> None:
    first, second = run_pop(SHORT), run_pop(SHORT)
    assert first == second
    assert first.violations == []
    assert first.sent == 60
    assert first.deliveries > 60
    assert first.again == first.deliveries - 60 > 0
    assert first.dead > 0


def test_a_broker_that_forgets_acknowledgements_when_it_starts_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(self: PopLedger, queue: GroupQueue, token: int, offsets: Sequence[int]) -> list[int]:
        return queue.window.ack(token, offsets)  # and notes nothing

    monkeypatch.setattr(PopLedger, "ack", forgets)
    assert rules(run_pop(PopRunOptions(seed=4, messages=60, chaos_s=20.0))) & {"again", "broken"}


def test_a_broker_that_is_late_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = PopLedger.next_deadline

    def late(self: PopLedger) -> float | None:
        deadline = shipped(self)
        return None if deadline is None else deadline + 0.5

    monkeypatch.setattr(PopLedger, "next_deadline", late)
    assert "hidden" in rules(run_pop(SHORT))


def test_the_figures_of_runs_add_up() -> None:
    total = PopVerdict(-1)
    for seed in (1, 2):
        total.add(PopVerdict(seed, sent=5, deliveries=7, again=2, dead=1))
    assert pop_figures(total) == "10 sent, 14 delivered, 4 again, 2 dead"


def test_the_command_says_what_came_of_all_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first-seed", "1", "--messages", "30", "--chaos", "3", "--processes", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("seed 1: passed")
    assert lines[-1].startswith("2 seeds, 0 failed; 60 sent")


# ------------------------------------------------------------------------------------------------ acknowledgements


class Requests:
    """Finds offset 2 dead, or loses its answer."""

    def __init__(self) -> None:
        self.is_lost = False

    async def ack(self, broker_name: str, acked: Acked) -> Dead:
        return [("t", 0, 2)]

    def start_ack(self, broker_name: str, acked: Acked, answered: Callable[[Dead | RlabError], None]) -> bool:
        answered(ConnectionLost("gone") if self.is_lost else [("t", 0, 2)])
        return True


def delivered_again(check: PopCheck) -> list[str]:
    for offset in (1, 2):
        check.delivered("c", QUEUE, offset, b"%d" % offset, 9.0)
    return check.violations


def watched() -> tuple[Requests, PopCheck]:
    requests, check = Requests(), PopCheck()
    for offset in (1, 2):
        check.delivered("c", QUEUE, offset, b"%d" % offset, 0.0)
    loop = asyncio.new_event_loop()
    loop.close()
    watch_acknowledgements(cast(PopRequests, requests), check, loop)
    return requests, check


def test_what_was_acknowledged_may_not_come_again_and_what_was_dead_may() -> None:
    requests, check = watched()
    outcomes: list[Dead | RlabError] = []
    assert requests.start_ack("broker-a", ACKED, outcomes.append)
    assert outcomes == [[("t", 0, 2)]]
    [violation] = delivered_again(check)
    assert f"{QUEUE} 1 at" in violation

    requests, check = watched()
    asyncio.run(requests.ack("broker-a", ACKED))
    assert len(delivered_again(check)) == 1


def test_what_may_have_been_acknowledged_may_come_again() -> None:
    requests, check = watched()
    requests.is_lost = True
    requests.start_ack("broker-a", ACKED, lambda outcome: None)
    assert delivered_again(check) == []
