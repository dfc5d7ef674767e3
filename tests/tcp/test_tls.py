"""TLS on real sockets: who shows no certificate of the authority is not spoken to, and certificates are replaced live.

An authority is made for each run: with a server and a client of 127.0.0.1, and a server whose certificate has expired.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
import trustme
import uvloop

from model.errors import ConfigError, ConnectFailed, NetworkError
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from pipeline.access import AccessFiles
from pipeline.wire import WireClient
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from remoting.security.tls.certificates import ServerTls, TlsFiles
from testbed.simulation.cluster.access import CLIENT_KEY, SERVER_ACCESS

pytestmark = pytest.mark.tcp

PATIENCE_S = 30.0


@dataclass(frozen=True)
class Certificates:
    """The files of an authority, and of those that it has signed: NAME.pem and NAME.key."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def of(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def key_of(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def tls(self, name: str = "server", *, mutual: bool = False) -> TlsFiles:
        return TlsFiles(cert=self.of(name), key=self.key_of(name), client_ca=self.ca if mutual else None)

    def copy(self, name: str, to: TlsFiles) -> None:
        shutil.copy(self.key_of(name), to.key)
        shutil.copy(self.of(name), to.cert)

    def trusted(self, monkeypatch: pytest.MonkeyPatch, *, shown: str = "") -> None:
        """Clients of this process trust the authority, and may show a certificate."""
        monkeypatch.setenv("RLAB_TLS_CA", str(self.ca))
        if shown:
            monkeypatch.setenv("RLAB_TLS_CERT", str(self.of(shown)))
            monkeypatch.setenv("RLAB_TLS_KEY", str(self.key_of(shown)))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    authority = trustme.CA()
    authority.cert_pem.write_to_path(made.ca)
    expired = datetime(2020, 1, 2, tzinfo=UTC)
    for name, not_after in (("server", None), ("client", None), ("expired", expired), ("stranger", None)):
        issuer = trustme.CA() if name == "stranger" else authority
        cert = issuer.issue_cert("127.0.0.1", not_before=datetime(2020, 1, 1, tzinfo=UTC), not_after=not_after)
        cert.cert_chain_pems[0].write_to_path(made.of(name))
        cert.private_key_pem.write_to_path(made.key_of(name))
    return made


async def state_of(address: str) -> object:
    async with RemotingClient(key=CLIENT_KEY) as client:
        return (await client.request(address, RequestCode.GET_SERVER_STATE)).header["kind"]


def served(
    tls: TlsFiles,
    ask: Callable[[str], Awaitable[None]],
    *,
    max_connections: int = 100,
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run a name server with TLS and access control, and ask it."""

    async def main() -> None:
        access = SERVER_ACCESS["access"]
        config = NameServerConfig(listen="127.0.0.1:0", tls=tls, access=access, max_connections=max_connections)
        with anyio.fail_after(PATIENCE_S):
            async with run_name_server(config) as server:
                await ask(server.address)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_a_client_that_trusts_the_authority_is_served_and_one_without_tls_is_not(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(address: str) -> None:
        with pytest.raises(NetworkError):
            await state_of(address)
        certificates.trusted(monkeypatch)
        assert await state_of(address) == "namesrv"
        monkeypatch.setenv("RLAB_KEY", CLIENT_KEY.text())  # the blocking client of Spark speaks both as well
        with WireClient(address, retries=0) as client:
            assert await asyncio.to_thread(client.masters) == {}

    served(certificates.tls(), ask)


@dataclass(frozen=True)
class SparkClient:
    """Requests of the blocking client of Spark, which has files of its own; it must not wait before a retry."""

    files: AccessFiles

    async def refusal(self, address: str) -> str:
        waits: list[float] = []
        with WireClient(address, access=self.files, wait=waits.append) as client:
            with pytest.raises(ConfigError) as caught:
                await asyncio.to_thread(client.topics)
            assert waits == []
            return str(caught.value)

    async def brokers(self, address: str) -> dict[str, str]:
        with WireClient(address, access=self.files, retries=0) as client:
            return await asyncio.to_thread(client.masters)


def test_a_process_has_a_client_with_tls_and_one_without_and_whatever_does_not_fit_is_refused_at_once(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "client.key"
    key.write_text(CLIENT_KEY.text())
    key.chmod(0o600)
    secured = SparkClient(AccessFiles(key_file=str(key), tls_ca=str(certificates.ca)))
    bare = SparkClient(AccessFiles(key_file="", tls_ca=""))
    certificates.trusted(monkeypatch)  # the options of a client replace what its process has

    async def with_tls(address: str) -> None:
        assert await secured.brokers(address) == {}
        assert f"{address} uses TLS, and this client does not: see the options tlsCa" in await bare.refusal(address)
        other = SparkClient(AccessFiles(key_file=str(key), tls_ca=str(certificates.of("client"))))
        assert "its certificate is refused" in await other.refusal(address)
        nothing = SparkClient(AccessFiles(key_file=str(key), tls_ca=str(tmp_path / "none")))
        assert f"cannot use the authority {tmp_path / 'none'}" in await nothing.refusal(address)

    async def without_tls() -> None:
        async with run_name_server(NameServerConfig(listen="127.0.0.1:0")) as server:
            assert await bare.brokers(server.address) == {}
            mismatch = f"{server.address} serves without TLS, and this client uses it"
            assert mismatch in await secured.refusal(server.address)

    served(certificates.tls(), with_tls)
    asyncio.run(without_tls())


def test_a_client_refuses_a_certificate_of_another_authority_and_one_that_has_expired(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def untrusted(address: str) -> None:
        monkeypatch.setenv("RLAB_TLS_CA", str(certificates.of("client")))
        with pytest.raises(ConnectFailed, match="certificate is refused"):
            await state_of(address)

    async def expired(address: str) -> None:
        certificates.trusted(monkeypatch)
        with pytest.raises(ConnectFailed, match="certificate has expired"):
            await state_of(address)

    served(certificates.tls(), untrusted)
    served(certificates.tls("expired"), expired)


def test_a_server_that_asks_for_certificates_serves_no_one_without_one_that_is_good(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(address: str) -> None:
        for bad in ("", "expired", "stranger"):
            certificates.trusted(monkeypatch, shown=bad)
            with pytest.raises(NetworkError):
                await state_of(address)
        certificates.trusted(monkeypatch, shown="client")
        assert await state_of(address) == "namesrv"

    served(certificates.tls(mutual=True), ask)


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ("", "asks its clients for a certificate, and this client shows none: see the options tlsCa"),
        ("stranger", "refuses the certificate that this client shows: see the options tlsCa"),
    ],
)
def test_a_client_of_spark_that_shows_no_good_certificate_is_refused_at_once(
    certificates: Certificates, tmp_path: Path, shown: str, reason: str
) -> None:
    key = tmp_path / "client.key"
    key.write_text(CLIENT_KEY.text())
    key.chmod(0o600)

    def client(name: str) -> SparkClient:
        of_key, ca = str(key), str(certificates.ca)
        if not name:
            return SparkClient(AccessFiles(key_file=of_key, tls_ca=ca))
        cert, cert_key = str(certificates.of(name)), str(certificates.key_of(name))
        return SparkClient(AccessFiles(key_file=of_key, tls_ca=ca, tls_cert=cert, tls_key=cert_key))

    async def ask(address: str) -> None:
        assert f"{address} {reason}" in await client(shown).refusal(address)
        assert await client("client").brokers(address) == {}

    served(certificates.tls(mutual=True), ask)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_on_a_port_with_tls_on_demand_each_client_chooses(
    certificates: Certificates,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    monkeypatch.setattr("remoting.security.tls.certificates.ACCESS_RELOAD_S", 0.01)
    file = tmp_path / "both.pem"

    def put(name: str) -> None:
        file.write_bytes(certificates.of(name).read_bytes() + certificates.key_of(name).read_bytes())

    put("server")
    config = NameServerConfig(listen="127.0.0.1:0", grpc_tls=file, access=SERVER_ACCESS["access"])

    async def main() -> None:
        with anyio.fail_after(PATIENCE_S):
            async with run_name_server(config) as server:
                assert await state_of(server.address) == "namesrv"
                certificates.trusted(monkeypatch)
                assert await state_of(server.address) == "namesrv"
                await ends_in_an_error(server.address)
                put("expired")
                assert "certificate has expired" in await refusal(server.address)
                monkeypatch.delenv("RLAB_TLS_CA")
                assert await state_of(server.address) == "namesrv"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


async def ends_in_an_error(address: str) -> None:
    """Begin with TLS, and go on with garbage: the server closes the connection, and no other."""
    context = ssl.create_default_context(cafile=os.environ["RLAB_TLS_CA"])
    reader, writer = await asyncio.open_connection(*address.split(":"), ssl=context)
    writer.write(b"\xff" * 64)
    assert b"a frame of 4294967295 bytes was announced" in await reader.read()
    writer.close()


async def refusal(address: str) -> str:
    """Ask until the certificate of a server is refused; returns the reason."""
    while True:
        try:
            await state_of(address)
        except ConnectFailed as error:
            return str(error)


def test_where_all_connections_are_encrypted_clients_of_grpc_are_offered_their_protocol(
    certificates: Certificates,
) -> None:
    async def ask(address: str) -> None:
        context = ssl.create_default_context(cafile=str(certificates.ca))
        context.set_alpn_protocols(["h2"])
        _, writer = await asyncio.open_connection(*address.split(":"), ssl=context)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        writer.close()

    served(certificates.tls(), ask)


class HalfHandshakes:
    """Connections that have sent a part of the greeting of TLS."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self.all: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def more(self, n: int, greeting: bytes = b"\x16\x03\x01\x02\x00\x01", local: str = "127.0.0.1") -> None:
        for _ in range(n):
            made = await asyncio.open_connection(self._host, int(self._port), local_addr=(local, 0))
            made[1].write(greeting)
            self.all.append(made)

    async def are_cut(self, *numbers: int) -> None:
        """Wait until these are closed, and see that all others are open."""
        for number in numbers:
            with suppress(ConnectionError):
                await self.all[number][0].read()
        closed = [reader.at_eof() or reader.exception() is not None for reader, _ in self.all]
        assert closed == [number in numbers for number in range(len(self.all))]

    def close(self) -> None:
        for _, writer in self.all:
            writer.transport.abort()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_of_too_many_handshakes_the_oldest_is_cut_and_a_client_still_gets_in(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    monkeypatch.setattr("remoting.security.tls.arrivals.MAX_TLS_HANDSHAKES", 3)
    monkeypatch.setattr("remoting.security.tls.arrivals.MAX_TLS_HANDSHAKES_OF_ADDRESS", 2)
    certificates.trusted(monkeypatch)

    async def ask(address: str) -> None:
        with closing(HalfHandshakes(address)) as halves:
            await halves.more(1, local="127.0.0.2")
            await halves.more(2)
            assert await state_of(address) == "namesrv"  # two of its address are under way, so it cuts the older one
            await halves.are_cut(1)
            await halves.more(1, greeting=b"no TLS at all")
            await halves.are_cut(1, 3)
            assert await state_of(address) == "namesrv"  # what has failed has left its place
            await halves.are_cut(1, 3)
            await halves.more(1, local="127.0.0.3")
            await halves.more(1, local="127.0.0.4")  # of all addresses the oldest
            await halves.are_cut(0, 1, 3)

    served(certificates.tls(), ask, new_loop=new_loop)


def test_handshakes_have_a_deadline_and_only_places_that_connections_leave(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remoting.security.tls.arrivals.UNAUTHENTICATED_S", 0.01)
    certificates.trusted(monkeypatch)

    async def ask(address: str) -> None:
        with closing(HalfHandshakes(address)) as halves:
            await halves.more(1)
            await halves.are_cut(0)
            monkeypatch.setattr("remoting.security.tls.arrivals.UNAUTHENTICATED_S", PATIENCE_S)
            await halves.more(2)  # there are two places
            async with RemotingClient(key=CLIENT_KEY) as client:
                await client.request(address, RequestCode.GET_SERVER_STATE)
                await halves.are_cut(0, 1)
                await halves.more(1)  # the second place is another's
                await halves.are_cut(0, 1, 2)
                async with RemotingClient(key=CLIENT_KEY) as second:
                    await second.request(address, RequestCode.GET_SERVER_STATE)
                    await halves.more(1)
                    await halves.are_cut(0, 1, 2, 3, 4)
                    await client.request(address, RequestCode.GET_SERVER_STATE)

    served(certificates.tls(), ask, max_connections=2)


def test_certificates_are_replaced_while_the_server_runs_and_a_wrong_pair_changes_nothing(
    tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates.trusted(monkeypatch)
    tls = TlsFiles(cert=tmp_path / "cert.pem", key=tmp_path / "cert.key")
    certificates.copy("expired", tls)

    async def main() -> None:
        served = ServerTls(tls)
        assert not served.reload()
        shutil.copy(certificates.of("client"), tls.cert)
        with pytest.raises(ConfigError, match="cannot use the certificate"):
            served.reload()
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=served.context)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, RemotingClient() as client:
            with pytest.raises(ConnectFailed, match="expired"):
                await client.connect(address)
            certificates.copy("server", tls)
            assert served.reload()
            await anyio.sleep(client.backoff_s(address))
            await client.connect(address)

    asyncio.run(main())


def test_files_that_cannot_be_used_are_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        ServerTls(TlsFiles(cert=tmp_path / "none", key=tmp_path / "none"))
    monkeypatch.setenv("RLAB_TLS_CA", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="RLAB_TLS_CA"):
        asyncio.run(state_of("127.0.0.1:1"))
