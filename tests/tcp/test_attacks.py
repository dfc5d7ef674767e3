"""Attacks on real sockets: none gets in, and none keeps another client from being served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import anyio
import anyio.lowlevel
import pytest

from broker.broker import RunningBroker, run_broker
from broker.config import BrokerConfig
from model.access_limits import MAX_GREETING_BYTES, MAX_REFUSALS_UNAUTHENTICATED, MAX_UNAUTHENTICATED
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from remoting.client import RemotingClient
from remoting.codec import CODEC, MsgpackDecoder
from remoting.command import REQUEST, Command
from remoting.request_code import RequestCode
from remoting.security.login import ClientHandshake
from remoting.security.policy import Rights
from remoting.security.records import RecordSigner
from rocketmq.frame import Frame, FrameDecoder, encode_frame
from testbed.fuzz.run import FuzzPlan, Protocol, fuzz_server
from testbed.simulation.cluster.access import CLIENT_KEY, EVERYTHING, SERVER_ACCESS, derived_user

pytestmark = pytest.mark.tcp

PATIENCE_S = 30.0
STOCK = derived_user("stock", Rights(produce=EVERYTHING), rocketmq_secret="12345678")


def on_broker(folder: Path, attack: Callable[[RunningBroker], Awaitable[None]], **options: object) -> None:
    """Run an attack on a broker with access control, and see that a well-behaved client is served afterwards."""

    async def main() -> None:
        access = {**SERVER_ACCESS["access"], "stock": STOCK}
        config = BrokerConfig(name="broker-a", data_dir=folder, listen="127.0.0.1:0", access=access, trace=False)
        with anyio.fail_after(PATIENCE_S):
            async with run_broker(config) as running, RemotingClient(key=CLIENT_KEY) as client:
                await client.request(running.address, RequestCode.GET_SERVER_STATE)
                await attack(running)
                await client.request(running.address, RequestCode.GET_SERVER_STATE)
                assert stored(running) == 0

    asyncio.run(main())


def stored(running: RunningBroker) -> int:
    """Messages of the topic that attackers try to send to."""
    entry = running.broker.topics.table.get("orders")
    return 0 if entry is None else running.broker.store.max_offset(entry.topic_id, 0)


def frame(code: RequestCode, header: dict[str, object], opaque: int = 1) -> bytes:
    return CODEC.encode(REQUEST, code, opaque, header, None)


SEND = frame(RequestCode.SEND_MESSAGE, {"topic": "orders", "queue_id": 0, "tag_hash": 0})


class Attacker:
    """A client that may write what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self) -> Command:
        """The next unsigned frame."""
        length = int.from_bytes(await self.reader.readexactly(4))
        (command,) = MsgpackDecoder().feed(length.to_bytes(4, "big") + await self.reader.readexactly(length))
        return command

    async def proof(self, handshake: ClientHandshake) -> bytes:
        """The frame that proves the key over this connection."""
        self.writer.write(frame(RequestCode.GET_CHALLENGE, dict(handshake.challenge)))
        return frame(RequestCode.AUTHENTICATE, dict(handshake.proof(await self.answer())))

    async def log_in(self) -> RecordSigner:
        handshake = ClientHandshake(CLIENT_KEY)
        self.writer.write(await self.proof(handshake))
        return handshake.finish(await self.answer())[0]

    async def is_cut_off(self) -> bool:
        """Wait for the end of the connection."""
        with suppress(ConnectionError):
            await self.reader.read()
        return self.reader.at_eof() or self.reader.exception() is not None


@asynccontextmanager
async def attacker(address: str) -> AsyncIterator[Attacker]:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Attacker(reader, writer)
    finally:
        writer.transport.abort()


def test_a_signed_write_that_is_repeated_does_nothing_on_its_connection_or_another(tmp_path: Path) -> None:
    async def attack(running: RunningBroker) -> None:
        state = frame(RequestCode.GET_SERVER_STATE, {})
        async with attacker(running.address) as one, attacker(running.address) as other:
            signer = await one.log_in()
            await other.log_in()
            recorded = signer.sign(state)
            one.writer.write(recorded)
            assert await one.reader.read(1)  # it is answered
            one.writer.write(recorded)
            other.writer.write(recorded)
            assert await one.is_cut_off()
            assert await other.is_cut_off()

    on_broker(tmp_path, attack)


def test_a_proof_that_was_recorded_is_good_for_no_other_connection_and_for_one_try(tmp_path: Path) -> None:
    async def attack(running: RunningBroker) -> None:
        async with attacker(running.address) as victim, attacker(running.address) as mallory:
            proof = await victim.proof(ClientHandshake(CLIENT_KEY))
            await mallory.proof(ClientHandshake(CLIENT_KEY))  # asks for a challenge of its own
            mallory.writer.write(proof)
            assert (await mallory.answer()).header["remark"].startswith("the key is wrong")
            mallory.writer.write(proof)
            assert "challenge" in (await mallory.answer()).header["remark"]
            assert running.server.gate is not None
            assert running.server.gate.refused["NOT_AUTHENTICATED"] == 2

    on_broker(tmp_path, attack)


def test_what_someone_puts_before_or_behind_a_proof_is_not_done_in_the_clients_name(tmp_path: Path) -> None:
    async def attack(running: RunningBroker) -> None:
        async with attacker(running.address) as behind, attacker(running.address) as before:
            behind.writer.write(await behind.proof(ClientHandshake(CLIENT_KEY)) + SEND)
            assert await behind.is_cut_off()
            before.writer.write(SEND)
            assert "access control" in (await before.answer()).header["remark"]

    on_broker(tmp_path, attack)


def test_unauthenticated_clients_with_garbage_large_frames_or_many_requests_are_cut_off(tmp_path: Path) -> None:
    async def attack(running: RunningBroker) -> None:
        async with attacker(running.address) as garbage, attacker(running.address) as large:
            garbage.writer.write(Random(1).randbytes(1_000_000))
            assert await garbage.is_cut_off()
            large.writer.write((MAX_GREETING_BYTES + 1).to_bytes(4, "big") + b"\x96")
            assert "2048 allowed" in (await large.answer()).header["remark"]
            assert await large.is_cut_off()
        async with attacker(running.address) as flood:
            flood.writer.write(SEND * (MAX_REFUSALS_UNAUTHENTICATED + 100))
            answers = await flood.reader.read()
            assert answers.count(b"access control") == MAX_REFUSALS_UNAUTHENTICATED

    on_broker(tmp_path, attack)


def test_unauthenticated_clients_that_say_nothing_have_so_many_places_and_take_none_of_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_UNAUTHENTICATED > 100
    monkeypatch.setattr("remoting.security.gate.MAX_UNAUTHENTICATED", 20)

    async def attack(running: RunningBroker) -> None:
        async with RemotingClient(key=CLIENT_KEY) as user:
            connection = await user.connect(running.address)
            sockets = [await asyncio.open_connection(*running.address.split(":")) for _ in range(21)]
            try:
                said = await sockets[-1][0].read()
                assert b"try again" in said
                answer = await connection.request(RequestCode.GET_SERVER_STATE)
                assert answer.code == 0
            finally:
                for _, writer in sockets:
                    writer.transport.abort()
            while len(running.server.connections) > 2:
                await anyio.lowlevel.checkpoint()

    on_broker(tmp_path, attack)


def test_unauthenticated_clients_of_one_address_leave_places_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remoting.security.gate.MAX_UNAUTHENTICATED_OF_ADDRESS", 3)

    async def attack(running: RunningBroker) -> None:
        host, port = running.address.split(":")
        sockets = [await asyncio.open_connection(host, port) for _ in range(4)]
        try:
            assert b"try again" in await sockets[-1][0].read()
            async with RemotingClient(key=CLIENT_KEY) as user:
                sockets[0][1].transport.abort()
                await sockets[0][1].wait_closed()
                while running.server.gate is not None and running.server.gate.unauthenticated == 3:
                    await anyio.lowlevel.checkpoint()
                answer = await (await user.connect(running.address)).request(RequestCode.GET_SERVER_STATE)
                assert answer.code == 0, "one that is closed has left its place"
            reader, writer = await asyncio.open_connection(host, port, local_addr=("127.0.0.2", 0))
            writer.write(SEND)
            assert b"access control" in await reader.read(1_000), "another address has places of its own"
            writer.transport.abort()
        finally:
            for _, writer in sockets:
                writer.transport.abort()

    on_broker(tmp_path, attack)


def test_while_others_drip_flood_and_send_garbage_a_user_is_answered_each_time_and_nothing_of_them_stays(
    tmp_path: Path,
) -> None:
    rng, half = Random(1), (MAX_GREETING_BYTES).to_bytes(4, "big") + b"\x96"

    async def drip(address: str) -> None:
        async with attacker(address) as each:
            each.writer.write(half)
            while not each.reader.at_eof():
                each.writer.write(b"x")
                with anyio.move_on_after(0.05), suppress(ConnectionError):
                    await each.reader.read(1)

    async def garbage(address: str) -> None:
        async with attacker(address) as each:
            each.writer.write(rng.randbytes(1_000_000))
            assert await each.is_cut_off()

    async def flood(address: str) -> None:
        for _ in range(100):
            async with attacker(address):
                pass

    async def attack(running: RunningBroker) -> None:
        gate = running.server.gate
        assert gate is not None
        async with RemotingClient(key=CLIENT_KEY) as user:
            connection = await user.connect(running.address)
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(drip, running.address)
                for _ in range(4):
                    tasks.start_soon(garbage, running.address)
                    tasks.start_soon(flood, running.address)
                while gate.unauthenticated < 20:
                    await anyio.lowlevel.checkpoint()
                answers = [(await connection.request(RequestCode.GET_SERVER_STATE)).code for _ in range(300)]
                assert answers == [0] * 300
                tasks.cancel_scope.cancel()
            while gate.unauthenticated or len(running.server.connections) > 2:
                await anyio.lowlevel.checkpoint()

    on_broker(tmp_path, attack)


def test_clients_of_rocketmq_without_a_signature_or_with_a_wrong_one_get_nothing(tmp_path: Path) -> None:
    async def attack(running: RunningBroker) -> None:
        wanted = {"producerGroup": "p", "topic": "orders", "queueId": "0", "sysFlag": "0", "bornTimestamp": "1"}
        signed = {**wanted, "AccessKey": "stock", "Signature": "d3Jvbmc="}
        async with attacker(running.address) as stock:
            decoder = FrameDecoder()
            for fields in (wanted, signed):
                stock.writer.write(encode_frame(Frame(10, 0, 1, fields, b"x")))
                (answer,) = decoder.feed(await stock.reader.read(4096))
                assert answer.code == 16
                assert "signature" in (answer.remark or "").lower()

    on_broker(tmp_path, attack)


@pytest.mark.walk
@pytest.mark.parametrize("protocol", list(Protocol))
def test_wrong_types_in_every_field_of_every_command_are_not_internal_error(tmp_path: Path, protocol: Protocol) -> None:
    async def main() -> None:
        config = BrokerConfig(name="broker-a", data_dir=tmp_path, listen="127.0.0.1:0")
        with anyio.fail_after(PATIENCE_S):
            async with run_broker(config) as broker, run_name_server(NameServerConfig(listen="127.0.0.1:0")) as names:
                for address in (broker.address, names.address):
                    async with RemotingClient() as beside:
                        await beside.request(address, RequestCode.GET_SERVER_STATE)
                        most = 1_000 if protocol is Protocol.RLAB else 500
                        report = await fuzz_server(address, FuzzPlan(seed=7, commands=most, protocol=protocol))
                        assert report.found == []
                        assert report.commands >= most
                        assert report.codes["0"] > most / 100
                        await beside.request(address, RequestCode.GET_SERVER_STATE)

    asyncio.run(main())
