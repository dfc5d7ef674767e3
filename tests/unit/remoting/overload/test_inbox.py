from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from model.limits import COMMANDS_PER_ITERATION, MAX_INBOX_BYTES, MAX_INBOX_COMMANDS, MAX_WAITING_OF_ONE
from remoting.command import REQUEST, Command, request_cost
from remoting.overload.inbox import Inbox


def commands(n: int, first: int = 0) -> list[Command]:
    return [Command(REQUEST, 10, first + k, {}, None) for k in range(n)]


@given(st.lists(st.integers(0, 2 * COMMANDS_PER_ITERATION), max_size=6))
def test_every_command_is_handed_out_once_and_in_order_a_few_at_a_time(batches: list[int]) -> None:
    inbox, handled, n_received = Inbox(), list[Command](), 0
    for n in [*batches, *[0] * 20]:
        inbox.receive(commands(n, n_received), 10 * n)
        n_received += n
        before = len(handled)
        inbox.hand_out(handled.append)
        costs = [request_cost(command) for command in handled[before:]]
        assert sum(costs[:-1]) < COMMANDS_PER_ITERATION
        assert not inbox or sum(costs) >= COMMANDS_PER_ITERATION
    assert [command.opaque for command in handled] == list(range(n_received))


def test_commands_that_are_put_aside_cost_nothing_until_the_connection_has_its_share() -> None:
    inbox = Inbox()
    inbox.receive(commands(3 * MAX_WAITING_OF_ONE), 1)

    def put_aside(_: Command) -> bool:
        inbox.aside += 1
        return True

    inbox.hand_out(put_aside)
    assert (inbox.aside, len(inbox)) == (MAX_WAITING_OF_ONE, 2 * MAX_WAITING_OF_ONE)
    assert inbox.is_full
    inbox.hand_out(put_aside)
    assert len(inbox) == 2 * MAX_WAITING_OF_ONE


def test_it_is_full_past_its_limits_of_commands_and_of_bytes_and_empty_again_when_all_are_handed_out() -> None:
    inbox = Inbox()
    inbox.receive(commands(MAX_INBOX_COMMANDS), MAX_INBOX_BYTES)
    assert not inbox.is_full
    inbox.receive(commands(1), 0)
    assert inbox.is_full
    while inbox:
        inbox.hand_out(lambda _: None)
    inbox.receive(commands(1), MAX_INBOX_BYTES)
    assert not inbox.is_full
    inbox.receive([], 1)
    assert inbox.is_full
