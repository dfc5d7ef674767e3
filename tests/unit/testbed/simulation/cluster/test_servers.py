"""Server processes: what a stop leaves behind, what a crash does not, and that a restart finds the same place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from model.event_log import EventLog, EventSink
from model.events import EventKind
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import RemotingServer, serve
from remoting.tasks import background_tasks
from testbed.simulation.cluster.servers import SimulatedServer
from testbed.simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation


class Diary:
    """A server that writes a line when it starts and one when it ends, and tells both as events."""

    def __init__(self, simulation: Simulation, data_dir: Path) -> None:
        self.simulation = simulation
        self.path = data_dir / "diary"
        self.reported: list[str] = []

    @property
    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").split()

    def _write(self, word: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{word}\n")

    @asynccontextmanager
    async def open(self, sink: EventSink) -> AsyncIterator[RemotingServer]:
        log = EventLog("diary", self.simulation.clock_ms, sink=sink)
        self._write("up")
        log.emit(EventKind.BROKER_UP)
        try:
            async with serve({RequestCode.GET_SERVER_STATE: self.state}, "0.0.0.0:1000") as server:
                yield server
        finally:
            self._write("down")
            log.emit(EventKind.BROKER_DOWN)

    def state(self, connection: Connection, request: Command) -> Reply:
        return Reply({"kind": "diary", "name": connection.local_host, "uptime_s": 0.0})


@asynccontextmanager
async def diary_server(
    simulation: Simulation, data_dir: Path
) -> AsyncIterator[tuple[Diary, SimulatedServer[RemotingServer]]]:
    diary = Diary(simulation, data_dir)
    async with background_tasks() as tasks:
        server = SimulatedServer(
            simulation,
            tasks,
            "diary-1",
            1000,
            diary.open,
            data_dir=data_dir,
            sink=lambda event: diary.reported.append(event.kind),
        )
        await server.start()
        yield diary, server


async def dial(simulation: Simulation) -> Connection:
    made = Connection(simulation.loop, on_request=lambda *_: None, pause_reads_when_blocked=False)
    with simulation.on_host("client"):
        await simulation.loop.create_connection(lambda: made, "diary-1", 1000)
    return made


def test_a_server_listens_on_its_own_host_and_is_found_at_its_address(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with diary_server(simulation, tmp_path) as (_, server):
            assert server.address == "diary-1:1000"
            assert server.running.address == "0.0.0.0:1000"
            made = await dial(simulation)
            answer = await made.request(RequestCode.GET_SERVER_STATE)
            assert answer.header["name"] == "diary-1"
            made.close()

    run_simulation(main)


def test_a_stopped_server_has_said_goodbye_and_starts_again_where_it_was(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with diary_server(simulation, tmp_path) as (diary, server):
            await server.stop()
            assert server.process is None
            assert diary.lines == ["up", "down"]
            await server.stop()
            await server.start()
            assert diary.lines == ["up", "down", "up"]
            assert diary.reported == ["BROKER_UP", "BROKER_DOWN", "BROKER_UP"]

    run_simulation(main)


def test_a_crashed_server_leaves_its_data_as_it_was_and_reports_nothing(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with diary_server(simulation, tmp_path) as (diary, server):
            await server.crash()
            assert server.process is None
            assert diary.lines == ["up"]
            await server.start()
            assert diary.lines == ["up", "up"]
            assert diary.reported == ["BROKER_UP", "BROKER_UP"]

    run_simulation(main)
    assert not tmp_path.with_name(f"{tmp_path.name}.crashed").exists()


def test_the_connections_of_a_crashed_server_are_reset_and_its_port_is_free(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        async with diary_server(simulation, tmp_path) as (_, server):
            made = await dial(simulation)
            started = simulation.loop.time()
            await server.crash()
            assert simulation.loop.time() - started < 0.01
            await anyio.sleep(0.01)
            assert made.closed
            with pytest.raises(ConnectionRefusedError):
                await dial(simulation)

    run_simulation(main)


def test_a_server_that_refuses_to_start_says_so_to_who_started_it(tmp_path: Path) -> None:
    @asynccontextmanager
    async def broken(sink: EventSink) -> AsyncIterator[None]:
        raise ValueError("no")
        yield

    async def main(simulation: Simulation) -> None:
        async with background_tasks() as tasks:
            server = SimulatedServer(simulation, tasks, "s", 1, broken, data_dir=None, sink=lambda event: None)
            with pytest.raises(ValueError, match="no"):
                await server.start()
            assert server.process is None
            await server.stop()

    run_simulation(main)


def test_a_server_that_is_killed_has_no_effect_from_then_on_and_its_files_are_those_of_that_moment(
    tmp_path: Path,
) -> None:
    async def main(simulation: Simulation) -> None:
        data_dir = tmp_path / "diary"
        data_dir.mkdir()
        async with diary_server(simulation, data_dir) as (diary, server):
            server.kill()
            assert not any((server.serves, server.can_be_killed, server.is_down))
            (data_dir / "late").touch()
            await server.crash()
            assert server.is_down
            assert diary.lines == ["up"]
            assert diary.reported == [EventKind.BROKER_UP]
            assert not (data_dir / "late").exists()
            await server.start()
            assert server.serves

    run_simulation(main)


def test_a_server_that_is_killed_while_it_starts_is_down_and_can_be_started_again(tmp_path: Path) -> None:
    async def main(simulation: Simulation) -> None:
        data_dir = tmp_path / "slow"
        data_dir.mkdir()
        started = anyio.Event()

        @asynccontextmanager
        async def open_slowly(sink: EventSink) -> AsyncIterator[str]:
            started.set()
            await anyio.sleep(5.0)
            yield "open"

        async with background_tasks() as tasks:
            server: SimulatedServer[str] = SimulatedServer(
                *(simulation, tasks, "slow-1", 1000, open_slowly), data_dir=data_dir, sink=lambda event: None
            )
            tasks.start_soon(server.start)
            await started.wait()
            await server.crash()
            assert server.is_down
            await server.start()
            assert server.process == "open"
            await server.stop()

    run_simulation(main)
