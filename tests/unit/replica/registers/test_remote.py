"""How a register is found among name servers, and what is reported when it is not, in virtual time.

Its rows are tested with those of all registers in test_contract.py.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import anyio
import msgpack
import pytest

from model.errors import ConfigError, IllegalOperation, RegisterUnavailable
from model.replica_limits import REGISTER_RETRY_S, REGISTER_TIMEOUT_S
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler, serve
from replica.register import write_until_answered
from replica.registers.remote import RemoteRegister
from replica.sets import create, with_options
from testbed.simulation.kernel.run import Simulation, run_simulation

ROW = create("broker-a", "h1:1", set_id=7, copies=2)
PLAIN, KEEPER, OTHER = "10.0.0.1:9876", "10.0.0.2:9876", "10.0.0.3:9876"


async def start(stack: AsyncExitStack, address: str, elections: Path | None = None, seed: int = 1) -> None:
    """Start a name server at an address."""
    await stack.enter_async_context(
        run_name_server(NameServerConfig(listen=address, elections=elections, rng=Random(seed)))
    )


def test_the_name_server_with_elections_is_found_whatever_its_place_in_the_list(tmp_path: Path) -> None:
    async def main(_: Simulation) -> None:
        async with AsyncExitStack() as stack:
            await start(stack, PLAIN)
            await start(stack, KEEPER, tmp_path / "e")
            for n, addresses in enumerate([(PLAIN, KEEPER), (KEEPER, PLAIN), (OTHER, PLAIN, KEEPER)]):
                async with RemoteRegister(addresses, rng=Random(1)) as register:
                    before = register.addresses
                    await register.write(create(f"broker-{n}", "h:1", set_id=7), 0)
                    assert len(await register.rows()) == n + 1
                    assert (before, register.addresses) == ((), (KEEPER,))

    run_simulation(main)


def test_name_servers_of_which_none_keeps_elections_are_named_with_the_remedy() -> None:
    async def main(_: Simulation) -> None:
        async with AsyncExitStack() as stack, RemoteRegister([PLAIN], rng=Random(1)) as register:
            await start(stack, PLAIN)
            with pytest.raises(ConfigError, match=f"none of the name servers {PLAIN} keeps elections: start one"):
                await register.read("broker-a")
            with pytest.raises(ConfigError, match="keeps elections"):
                await register.write(ROW, 0)

    run_simulation(main)


def test_as_long_as_a_name_server_is_away_it_may_be_the_one_with_elections() -> None:
    async def main(_: Simulation) -> None:
        async with AsyncExitStack() as stack, RemoteRegister([PLAIN, KEEPER], rng=Random(1)) as register:
            await start(stack, PLAIN)
            for act in (register.rows(), register.read("broker-a"), register.write(ROW, 0)):
                with pytest.raises(RegisterUnavailable, match=f"no name server answers for the register: {KEEPER}"):
                    await act

    run_simulation(main)


def test_a_write_is_never_tried_at_a_second_register(tmp_path: Path) -> None:
    async def main(_: Simulation) -> None:
        async with AsyncExitStack() as stack, RemoteRegister([KEEPER, OTHER], rng=Random(1)) as register:
            await start(stack, OTHER, tmp_path / "two", seed=2)
            async with AsyncExitStack() as first:
                await start(first, KEEPER, tmp_path / "one")
                await register.read("broker-a")
            with pytest.raises(RegisterUnavailable, match=f"the register at {KEEPER} may have changed set broker-a"):
                await register.write(ROW, 0)
            assert await register.rows() == [], "the other register"

    run_simulation(main)


def test_a_row_of_one_register_is_refused_by_another(tmp_path: Path) -> None:
    async def main(_: Simulation) -> None:
        async with AsyncExitStack() as stack:
            await start(stack, KEEPER, tmp_path / "one")
            await start(stack, OTHER, tmp_path / "two", seed=2)
            async with RemoteRegister([KEEPER], rng=Random(1)) as one, RemoteRegister([OTHER], rng=Random(1)) as two:
                row = await one.write(ROW, 0)
                await two.write(ROW, 0)
                with pytest.raises(IllegalOperation, match="it belongs to register"):
                    await two.write(with_options(row, copies=3), 1)

    run_simulation(main)


def test_a_keeper_that_does_not_answer_is_unavailable_within_the_time(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with AsyncExitStack() as stack, RemoteRegister([KEEPER], rng=Random(1)) as register:
            await start(stack, KEEPER, tmp_path / "e")
            row = await register.write(ROW, 0)
            with simulation.network.stall("10.0.0.2"):
                before = anyio.current_time()
                with pytest.raises(RegisterUnavailable, match="may have changed set broker-a, or not"):
                    await register.write(with_options(row, copies=3), 1)
                assert anyio.current_time() - before <= 2 * REGISTER_TIMEOUT_S

    run_simulation(main)


def test_a_register_that_was_away_for_long_is_reached_as_soon_as_it_is_back(tmp_path: Path) -> None:
    async def main(_: Simulation) -> None:
        async with RemoteRegister([KEEPER], rng=Random(1)) as register:
            written: list[float] = []

            async def write() -> None:
                await write_until_answered(register, ROW, 0, within_s=90.0)
                written.append(anyio.current_time())

            async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
                tasks.start_soon(write)
                await anyio.sleep(60.0)
                await start(stack, KEEPER, tmp_path / "e")
                await anyio.sleep(10.0)
            assert written[0] <= 60.0 + 2 * REGISTER_RETRY_S

    run_simulation(main)


async def garbage(connection: Connection, request: Command) -> Reply:
    return Reply({"register_id": 1}, msgpack.packb([b"\xc1"]))


async def empty(connection: Connection, request: Command) -> Reply:
    return Reply({"written": True})


def test_answers_that_cannot_be_read_are_reported_and_not_believed() -> None:
    async def main(_: Simulation) -> None:
        handlers: dict[RequestCode, Handler] = {
            RequestCode.GET_REPLICA_SET: garbage,
            RequestCode.PUT_REPLICA_SET: empty,
        }
        async with serve(handlers, KEEPER), RemoteRegister([KEEPER], rng=Random(1)) as register:
            with pytest.raises(RegisterUnavailable, match="answered with rows that cannot be read"):
                await register.read("broker-a")
            with pytest.raises(RegisterUnavailable, match="answered a write of set broker-a without it"):
                await register.write(ROW, 0)

    run_simulation(main)


def test_a_name_server_that_was_restarted_without_elections_is_not_asked_for_ever(tmp_path: Path) -> None:
    async def main(_: Simulation) -> None:
        async with AsyncExitStack() as stack, RemoteRegister([PLAIN, KEEPER], rng=Random(1)) as register:
            async with AsyncExitStack() as first:
                await start(first, PLAIN, tmp_path / "e")
                row = await register.write(ROW, 0)
            await start(stack, PLAIN)
            await start(stack, KEEPER, tmp_path / "e")
            with pytest.raises(RegisterUnavailable):
                await register.write(with_options(row, copies=3), 1)
            await anyio.sleep(1.0)
            with pytest.raises(RegisterUnavailable, match="no longer keeps elections"):
                await register.write(with_options(row, copies=3), 1)
            assert (await register.write(with_options(row, copies=3), 1)).version == 2

    run_simulation(main)
