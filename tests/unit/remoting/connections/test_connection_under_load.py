"""A connection of a process that has too much to do: it reads before it gives up, and does not read too much."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from model.errors import RequestTimeout
from model.limits import MAX_WAITING_OF_ONE, REQUEST_TIMEOUT_S
from remoting.command import REQUEST, RESPONSE, Command
from remoting.connection import Connection
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.remoting.test_connection import Rig, on_virtual_loop, turn


def test_a_busy_process_reads_the_answers_that_have_come_before_it_gives_up() -> None:
    async def main(_: Simulation) -> None:
        rig = Rig()
        answered, unanswered = rig.connection.request(10), rig.connection.request(10)
        timer = rig.connection._timer
        assert timer is not None
        timer.cancel()
        await anyio.sleep(REQUEST_TIMEOUT_S + 1.0)
        rig.connection._expire()  # as if the process had been busy all the time
        rig.receive(Command(RESPONSE, 17, 1, {}, None))
        assert (await answered).code == 17
        with pytest.raises(RequestTimeout):
            await unanswered
        assert asyncio.get_running_loop().time() == pytest.approx(REQUEST_TIMEOUT_S + 1.0, abs=0.01)

    run_simulation(main)


@on_virtual_loop
async def test_a_peer_is_not_read_while_many_of_its_requests_are_put_aside() -> None:
    rig = Rig()

    def put_aside(connection: Connection, command: Command) -> bool:
        rig.requests.append(command)
        connection.inbox.aside += 1
        return True

    rig.connection._on_request = put_aside
    rig.receive(*(Command(REQUEST, 10, n, {}, None) for n in range(3 * MAX_WAITING_OF_ONE)))
    await turn()
    assert (len(rig.requests), rig.transport.reading) == (MAX_WAITING_OF_ONE, False)
    for n in range(MAX_WAITING_OF_ONE // 2):
        assert (len(rig.requests), rig.transport.reading) == (MAX_WAITING_OF_ONE, False), n
        rig.connection.leave_queue()
        await turn()
    assert len(rig.requests) == MAX_WAITING_OF_ONE * 3 // 2
    for _ in range(len(rig.requests) * 3):
        if rig.connection.inbox.aside:
            rig.connection.leave_queue()
        await turn()
    assert [command.opaque for command in rig.requests] == list(range(3 * MAX_WAITING_OF_ONE))
    assert rig.transport.reading
