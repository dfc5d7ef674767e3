"""The lazy gRPC dialect: which connections it accepts, when it imports the rest, and without the extra."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from model.own_name import PREFIX
from rocketmq.edge import ServerFacts
from rocketmq.grpc import lazy_dialect
from rocketmq.grpc.http2.frame_guard import PREFACE
from tests.unit.broker.harness import World, simulated
from tests.unit.rocketmq.grpc.grpc_client import GrpcClient


def test_http2_is_recognised_by_its_first_bytes() -> None:
    matches = lazy_dialect.lazy_broker_grpc(ServerFacts()).matches
    assert [matches(PREFACE[:n]) for n in (1, 5, 23)] == [None] * 3
    assert [matches(first) for first in (PREFACE, PREFACE + b"\0", b"\0\0\0\x7f\x96", b"PRINT", b"PRI * HTTP/3")] == [
        *(True, True, False, False, False)
    ]


def test_a_server_without_grpc_clients_imports_neither_h2_nor_protobuf() -> None:
    code = (
        f"import sys, {PREFIX}namesrv.server, {PREFIX}broker.broker, {PREFIX}replica.host\n"
        f"names = 'h2', 'hpack', 'google.protobuf', '{PREFIX}rocketmq.grpc.edge'\n"
        "print([name for name in names if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@simulated
async def test_without_the_extra_a_client_is_closed_and_a_line_says_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lazy_dialect, "_NEEDED", ("a_package_that_does_not_exist.part",))
    await world.start_broker()
    with caplog.at_level(logging.WARNING):
        client = await GrpcClient.connect(world)
        await client.closed
    [line] = [record.getMessage() for record in caplog.records if "gRPC" in record.getMessage()]
    assert "pip install 'rebalance-lab[grpc]'" in line


@simulated
async def test_a_broker_may_be_without_the_dialect(world: World) -> None:
    await world.start_broker(rocketmq=False)
    client = await GrpcClient.connect(world)
    await client.closed
    assert client.goaway is None
