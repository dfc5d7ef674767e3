"""A register in a real etcd: its id, restores, damage, users and TLS. The contract of registers has its own file."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

import anyio
import pytest

from model.errors import ConfigError, IllegalOperation, NoPermission, NotAuthenticated, RegisterUnavailable
from model.replica_limits import MAX_REPLICA_SETS
from model.replica_set import RESTORED_VERSIONS, ReplicaSet
from replica.registers import etcd_gateway
from replica.registers.etcd import EtcdRegister
from replica.registers.etcd_place import EtcdPlace
from replica.sets import create, with_options
from testbed.cluster.certificates import make_certificate
from tests.tcp.etcd_server import EtcdServer, etcd_server

pytestmark = [pytest.mark.tcp, pytest.mark.process]

ROW = create("broker-a", "h1:1", set_id=7, copies=2)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with etcd_server(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@pytest.fixture
def place(server: EtcdServer, tmp_path: Path) -> EtcdPlace:
    """Keys of this test's own."""
    return EtcdPlace(endpoints=(server.address,), prefix=tmp_path.name)


def call(address: str, path: str, token: str = "", **document: Any) -> Any:
    """Ask etcd itself."""
    headers = {"Authorization": token} if token else {}
    with urlopen(Request(f"http://{address}/v3/{path}", json.dumps(document).encode(), headers), timeout=20) as answer:
        return json.load(answer)


def text(raw: str) -> str:
    return b64encode(raw.encode()).decode()


def put(place: EtcdPlace, key: str, value: bytes) -> None:
    call(place.endpoints[0], "kv/put", key=text(f"/{place.prefix}/{key}"), value=b64encode(value).decode())


def keys(place: EtcdPlace) -> list[str]:
    found = call(place.endpoints[0], "kv/range", key=text(f"/{place.prefix}/"), range_end=text(f"/{place.prefix}0"))
    return [b64decode(each["key"]).decode() for each in found.get("kvs", [])]


@pytest.mark.asyncio
async def test_a_read_makes_nothing_and_the_first_row_makes_the_id(place: EtcdPlace) -> None:
    async with EtcdRegister(place) as register:
        assert await register.rows() == []
        assert keys(place) == []
        await register.write(ROW, 0)
        assert keys(place) == [f"/{place.prefix}/register", f"/{place.prefix}/sets/broker-a"]


@pytest.mark.asyncio
async def test_sets_that_are_made_at_the_same_time_get_one_register(place: EtcdPlace) -> None:
    async with EtcdRegister(place, rng=Random(1)) as first, EtcdRegister(place, rng=Random(2)) as second:
        async with anyio.create_task_group() as tasks:
            for n in range(6):
                register = first if n % 2 else second
                tasks.start_soon(register.write, replace(ROW, name=f"broker-{n}"), 0)
        rows = await first.rows()
        assert [row.name for row in rows] == [f"broker-{n}" for n in range(6)]
        assert len({row.register_id for row in rows}) == 1


@pytest.mark.asyncio
async def test_two_prefixes_are_two_registers(place: EtcdPlace) -> None:
    async with EtcdRegister(place) as register, EtcdRegister(replace(place, prefix=f"{place.prefix}-b")) as other:
        row = await register.write(ROW, 0)
        assert await other.rows() == []
        with pytest.raises(IllegalOperation, match="belongs to register"):
            await other.write(row, 0)
        await other.write(ROW, 0)
        assert await register.rows() == [row]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("register", b"seven", "is not the id of a register"),
        ("register", b"0", "is not the id of a register"),
        ("register", b"12", "and is register 12"),
        ("sets/broker-a", b"", "is not a row"),
        ("sets/broker-a", b"\xc1", "is not a row"),
    ],
)
async def test_keys_that_someone_else_has_changed_are_reported_and_not_believed(
    place: EtcdPlace, key: str, value: bytes, reason: str
) -> None:
    async with EtcdRegister(place) as register:
        row = await register.write(ROW, 0)
        put(place, key, value)
        for act in (
            register.read("broker-a"),
            register.rows(),
            register.write(with_options(row, copies=3), 1),
            register.remove("broker-a", 1),
        ):
            with pytest.raises(RegisterUnavailable, match=reason):
                await act


def many(n: int) -> list[ReplicaSet]:
    return [replace(ROW, name=f"broker-{i:04}", set_id=i + 1, version=3, register_id=99) for i in range(n)]


@pytest.mark.asyncio
async def test_the_largest_register_is_restored_and_is_full(place: EtcdPlace) -> None:
    async with EtcdRegister(place) as register:
        assert await register.restore(many(MAX_REPLICA_SETS)) == 99
        rows = await register.rows()
        assert (len(rows), rows[-1].version, rows[-1].register_id) == (MAX_REPLICA_SETS, 3 + RESTORED_VERSIONS, 99)
        with pytest.raises(IllegalOperation, match="the most it may have"):
            await register.write(ROW, 0)
        with pytest.raises(ConfigError, match="has a register already: name another prefix"):
            await register.restore(many(1))


@pytest.mark.asyncio
async def test_a_restore_that_was_interrupted_is_not_believed_and_can_be_repeated(
    place: EtcdPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = 0
    change = etcd_gateway.EtcdGateway.change

    async def lost(self: etcd_gateway.EtcdGateway, document: Any) -> Any:
        nonlocal changes
        changes += 1
        done = await change(self, document)
        if changes == 2:
            raise RegisterUnavailable("the answer is lost")
        return done

    monkeypatch.setattr(etcd_gateway.EtcdGateway, "change", lost)
    copy = many(200)
    async with EtcdRegister(place) as register:
        with pytest.raises(RegisterUnavailable):
            await register.restore(copy)
        for act in (register.rows(), register.read("broker-0000"), register.write(copy[0], 0)):
            with pytest.raises(RegisterUnavailable, match="restore' was not finished, repeat it"):
                await act
        with pytest.raises(ConfigError, match="has a register already"):
            await register.restore(many(5)[:2])
        assert await register.restore(copy) == 99
        assert len(await register.rows()) == 200


def with_users(server: EtcdServer) -> None:
    """Turn authentication on: user u has the keys of /mine/."""
    for name in ("root", "u"):
        call(server.address, "auth/user/add", name=name, password=f"of {name}")
    call(server.address, "auth/role/add", name="us")
    call(server.address, "auth/user/grant", user="root", role="root")
    permission = {"permType": "READWRITE", "key": text("/mine/"), "range_end": text("/mine0")}
    call(server.address, "auth/role/grant", name="us", perm=permission)
    call(server.address, "auth/user/grant", user="u", role="us")
    call(server.address, "auth/enable")


@pytest.mark.asyncio
async def test_a_user_of_etcd_proves_itself_and_goes_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with etcd_server(tmp_path / "etcd") as server:
        with_users(server)
        own = EtcdPlace(endpoints=(server.address,), prefix="mine")
        password = tmp_path / "password"
        async with EtcdRegister(own) as register:
            with pytest.raises(NotAuthenticated, match="check RLAB_ETCD_USER"):
                await register.rows()
        monkeypatch.setenv("RLAB_ETCD_USER", "u")
        monkeypatch.setenv("RLAB_ETCD_PASSWORD_FILE", str(password))
        password.write_text("wrong")
        async with EtcdRegister(own) as register, EtcdRegister(replace(own, prefix="other")) as other:
            with pytest.raises(NotAuthenticated, match="refuses the login"):
                await register.write(ROW, 0)
            password.write_text("of u\n")
            row = await register.write(ROW, 0)
            with pytest.raises(NoPermission, match="readwrite for the keys that begin with /other/"):
                await other.rows()
            server.kill()  # with it, etcd forgets the tokens that it has given
            with pytest.raises(RegisterUnavailable):
                await register.read("broker-a")
            assert server.start(), server.log
            assert await register.write(with_options(row, copies=3), 1) == replace(row, version=2, copies=3)


@pytest.mark.asyncio
async def test_connections_use_tls_with_a_certificate_of_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = make_certificate(tmp_path / "tls", "etcd", ["127.0.0.1"], 1)
    own = make_certificate(tmp_path / "tls", "client", ["client"], 1)
    with etcd_server(tmp_path / "etcd", tls=(cert, key, tmp_path / "tls" / "ca.pem")) as server:
        place = EtcdPlace(endpoints=(server.address,))
        async with EtcdRegister(place) as plain:
            with pytest.raises(RegisterUnavailable, match="if etcd uses TLS, set RLAB_ETCD_CA"):
                await plain.rows()
        make_certificate(tmp_path / "other", "x", ["x"], 1)
        monkeypatch.setenv("RLAB_ETCD_CA", str(tmp_path / "other" / "ca.pem"))
        async with EtcdRegister(place) as outsider:
            with pytest.raises(RegisterUnavailable, match="cannot connect: its certificate is refused"):
                await outsider.rows()
        monkeypatch.setenv("RLAB_ETCD_CA", str(tmp_path / "tls" / "ca.pem"))
        async with EtcdRegister(place) as unknown:
            with pytest.raises(RegisterUnavailable, match="certificate"):
                await unknown.rows()
        monkeypatch.setenv("RLAB_ETCD_CERT", str(own[0]))
        monkeypatch.setenv("RLAB_ETCD_KEY", str(own[1]))
        async with EtcdRegister(place) as register:
            assert (await register.write(ROW, 0)).version == 1
