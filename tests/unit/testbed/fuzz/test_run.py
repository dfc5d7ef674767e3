"""`rlab fuzz` finds what is planted in a server: internal errors, silence, answers too many, hangs and leaks."""

from __future__ import annotations

import os
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

from model.errors import ConfigError, ConnectFailed
from remoting.codec import CODEC
from remoting.command import REQUEST, Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.security.policy import Rights
from remoting.server import Handler, serve
from testbed.fuzz.frames import BATCH_FRAMES
from testbed.fuzz.run import FuzzPlan, FuzzReport, fuzz_server
from testbed.simulation.checks.process_usage import ProcessUsage
from testbed.simulation.cluster.access import EVERYTHING, derived_key, derived_user
from testbed.simulation.kernel.run import Simulation, run_simulation

ADDRESS = "10.0.0.1:10911"
COMMANDS = 1_000


def nothing(*_: object) -> Reply:
    return Reply({})


HANDLERS: dict[RequestCode, Handler] = {
    **dict.fromkeys(RequestCode, nothing),
    RequestCode.GET_SERVER_STATE: lambda *_: Reply({"kind": "broker"}),
}


def served(
    planted: Handler, others: Handler = nothing, options: dict[str, Any] | None = None, **plan: Any
) -> FuzzReport:
    """Fuzz a server that answers every request, but what the planted handler is for; options are those of `serve`."""

    async def main(_: Simulation) -> FuzzReport:
        handlers = {**dict.fromkeys(RequestCode, others), RequestCode.GET_MAX_OFFSET: planted}
        handlers[RequestCode.GET_SERVER_STATE] = HANDLERS[RequestCode.GET_SERVER_STATE]
        async with serve(handlers, ADDRESS, **options or {}):
            return await fuzz_server(ADDRESS, FuzzPlan(**{"seed": 1, "commands": COMMANDS} | plan))

    return run_simulation(main)


def test_a_server_without_a_fault_is_found_to_have_none() -> None:
    report = served(nothing)
    assert report.found == []
    assert COMMANDS <= report.commands < COMMANDS + 17 * BATCH_FRAMES
    assert report.codes["0"] > 100


def test_an_unexpected_error_is_found_and_the_request_named() -> None:
    def planted(*_: object) -> Reply:
        raise KeyError("planted")

    report = served(planted)
    assert len(report.found) > 1
    assert all("internal error (unexpected KeyError" in found for found in report.found)
    assert all("GET_MAX_OFFSET {" in found for found in report.found)


def test_one_batch_is_sent_again_by_its_number_alone() -> None:
    def planted(*_: object) -> Reply:
        raise KeyError("planted")

    found = served(planted).found[-1]
    number = int(found.removeprefix("batch ").partition(":")[0])
    assert number > 0
    assert found in served(planted, skip=number, commands=1).found


def test_a_request_that_is_never_answered_is_found_also_when_the_time_is_over_long_before() -> None:
    report = served(lambda *_: None, seconds=0.1)
    assert report.found
    assert all("not answered, the first: GET_MAX_OFFSET {" in found for found in report.found)


def test_a_connection_that_is_closed_instead_of_an_answer_is_found() -> None:
    def planted(connection: Connection, request: Command) -> None:
        connection.abort()

    assert all("closed () instead of an answer" in found for found in served(planted).found)
    assert served(planted).found


def test_an_answer_that_comes_twice_is_found() -> None:
    def planted(connection: Connection, request: Command) -> Reply:
        connection.respond(request, {"planted": 1})
        connection.accept(request)
        return Reply({})

    assert any("an answer without a request" in found for found in served(planted).found)


def test_what_a_server_asks_is_not_an_answer_also_with_the_number_of_a_request() -> None:
    def planted(connection: Connection, request: Command) -> None:
        connection.send_frame(
            CODEC.encode(REQUEST, RequestCode.GET_CONSUMER_RUNNING_INFO, request.opaque, {"client_id": "a"}, None)
        )

    report = served(planted)
    assert report.found
    assert all("not answered, the first: GET_MAX_OFFSET {" in found for found in report.found)


def test_what_cannot_be_read_is_found_at_once_and_not_taken_for_silence() -> None:
    def planted(connection: Connection, request: Command) -> None:
        connection.send_frame(b"\xff" * 100)

    found = served(planted).found
    assert any("the server's data cannot be decoded" in each for each in found)
    assert not any("not answered" in each for each in found)


def test_a_server_that_hangs_in_the_middle_is_found() -> None:
    left = iter(range(100))

    def hangs(*_: object) -> Reply | None:
        return None if next(left, None) is None else Reply({})

    report = served(hangs, others=hangs)
    assert any("not answered" in found for found in report.found)


def test_a_server_that_takes_no_connection_any_more_is_found() -> None:
    async def main(_: Simulation) -> None:
        async with anyio.create_task_group() as server:

            async def listen(*, task_status: TaskStatus[None]) -> None:
                async with serve(HANDLERS, ADDRESS):
                    task_status.started()
                    await anyio.sleep(0.01)

            await server.start(listen)
            with pytest.raises(ConnectFailed, match=f"cannot connect to {ADDRESS} .* after [1-9][0-9,]* commands"):
                await fuzz_server(ADDRESS, FuzzPlan(seed=1))

    run_simulation(main)


def test_a_connection_that_a_server_keeps_although_its_client_has_ended_it_is_found() -> None:
    class Keeper(Connection):
        def eof_received(self) -> bool:
            return True

    report = served(nothing, options={"connection_class": Keeper})
    assert "the server keeps a connection that its client has ended" in report.found


def test_with_a_key_everything_is_signed_and_what_the_server_reports_is_not_answered() -> None:
    reached: list[int] = []

    def reports(connection: Connection, request: Command) -> Reply:
        reached.append(request.code)
        connection.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        return Reply({})

    policy = {"fuzz": derived_user("fuzz", Rights(produce=EVERYTHING, consume=EVERYTHING, admin=True))}
    report = served(nothing, reports, {"access": policy}, key=derived_key("fuzz"), connections=1)
    assert report.found == []
    assert report.codes["0"] > 100
    assert reached
    reached.clear()
    served(nothing, reports, {"access": policy})
    assert reached == []  # without a key; that a challenge is answered, depends on what is drawn


def test_descriptors_that_a_server_does_not_close_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.fuzz.run._POLL_S", 0.01)
    left: list[int] = []

    async def planted(connection: Connection, request: Command) -> Reply:
        left.append(os.open(os.devnull, os.O_RDONLY))
        await anyio.sleep(0.02)
        return Reply({})

    try:
        report = served(planted, planted, pid=os.getpid(), connections=2)
    finally:
        for descriptor in left:
            os.close(descriptor)
    assert [found.partition(" grows")[0] for found in report.found] == ["descriptors"]
    assert report.levels["descriptors"][2] > report.levels["descriptors"][0] + 100


def test_memory_that_grows_as_long_as_commands_come_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def levels(step: int) -> list[str]:
        used = iter(range(2**26, 2**40, step))
        monkeypatch.setattr("testbed.fuzz.run.process_usage", lambda pid: ProcessUsage(next(used), 10))
        monkeypatch.setattr("testbed.fuzz.run._POLL_S", 0.01)

        async def slow(connection: Connection, request: Command) -> Reply:
            await anyio.sleep(0.02)
            return Reply({})

        return [found.partition(" grows")[0] for found in served(slow, pid=1, connections=2).found]

    assert levels(2**26) == ["RSS MiB"]
    assert levels(2**12) == []


def test_a_process_that_may_not_be_looked_at_is_refused() -> None:
    with pytest.raises(ConfigError, match="--pid 0"):
        served(nothing, pid=0)
