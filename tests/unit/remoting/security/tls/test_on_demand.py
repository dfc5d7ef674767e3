"""A server that finds out by the first byte of a connection whether its client uses TLS."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from model.errors import ConfigError
from model.limits import FIRST_REQUEST_S
from remoting.codec import CODEC
from remoting.command import REQUEST, RESPONSE
from remoting.request_code import RequestCode
from remoting.security.tls import on_demand
from remoting.security.tls.certificates import self_signed_context
from remoting.security.tls.on_demand import PortTls, TlsChoice
from testbed.simulation.cluster.access import SERVER_ACCESS
from tests.unit.broker.harness import ADDRESS, World, simulated
from tests.unit.remoting.security.tls.tls_client import TlsClient

ASK = CODEC.encode(REQUEST, RequestCode.GET_SERVER_STATE, 7, {}, None)
AUTO = {"grpc_tls": TlsChoice.AUTO}


async def connected(world: World, client: TlsClient | None = None, *, host: str = "stock") -> TlsClient:
    made = client or TlsClient()
    where, _, port = ADDRESS.rpartition(":")
    with world.simulation.on_host(host):
        await world.simulation.loop.create_connection(lambda: made, where, int(port))
    world.at_end.append(made.close)
    return made


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1_000):
        if condition():
            return
        await anyio.sleep(0.01)
    raise TimeoutError("10 s have passed")


class Half(TlsClient):
    """Sends a part of its greeting."""

    def begin(self) -> None:
        self.write_raw(self.greeting()[:20])


@simulated
async def test_clients_with_tls_and_without_are_served_on_one_port(world: World) -> None:
    await world.start_broker(**AUTO)
    client = await connected(world)
    client.write(ASK)
    await until(lambda: client.got)
    [answer] = CODEC.decoder().feed(client.got)
    assert (answer.flags, answer.opaque, answer.header["kind"]) == (RESPONSE, 7, "broker")
    assert client.tls.selected_alpn_protocol() == "h2"
    assert (await world.peer("a").call(RequestCode.GET_SERVER_STATE)).header["kind"] == "broker"


@simulated
async def test_clients_that_come_together_share_one_certificate(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ssl.SSLContext] = []

    def make() -> ssl.SSLContext:
        made.append(self_signed_context())
        return made[-1]

    monkeypatch.setattr(on_demand, "self_signed_context", make)
    await world.start_broker(**AUTO)
    assert made == [], "the first client that needs it pays for it"
    clients = [await connected(world) for _ in range(3)]
    await until(lambda: all(each.is_shaken for each in clients))
    await until(lambda: len(made) == 1)


@simulated
async def test_a_client_with_tls_gets_an_alert_where_it_is_off(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.start_broker(grpc_tls=TlsChoice.OFF)
    client = await connected(world)
    assert client.closed is not None
    await client.closed
    assert "handshake failure" in str(client.error)
    assert "it uses TLS, and this server does not: switch TLS off at the client, or on at the server" in caplog.text


@simulated
async def test_where_no_certificate_can_be_made_the_log_has_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    await world.start_broker(**AUTO)
    client = await connected(world)
    assert client.closed is not None
    await client.closed
    assert "no certificate can be made: trustme is missing: pip install 'rebalance-lab[certs]'" in caplog.text
    assert (await world.peer("a").call(RequestCode.GET_SERVER_STATE)).header["kind"] == "broker"


@simulated
async def test_a_handshake_that_does_not_end_is_closed_as_a_connection_without_a_request(world: World) -> None:
    await world.start_broker(**AUTO)
    began = world.now
    client = await connected(world, Half())
    assert client.closed is not None
    await client.closed
    assert world.now - began == pytest.approx(FIRST_REQUEST_S, abs=0.1)


@simulated
async def test_for_one_handshake_too_many_the_oldest_ends(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(on_demand, "MAX_TLS_HANDSHAKES", 2)
    await world.start_broker(**AUTO)
    halves = [await connected(world, Half()) for _ in range(2)]
    whole = await connected(world)
    await until(lambda: whole.is_shaken)
    await until(lambda: halves[0].closed is not None and halves[0].closed.done())
    assert halves[1].closed is not None
    assert not halves[1].closed.done()
    assert "newer ones need its place" in caplog.text
    await connected(world, Half())  # the whole one has ended, and takes no place
    await anyio.sleep(0.1)
    assert not halves[1].closed.done()


@simulated
async def test_for_one_handshake_too_many_of_an_address_its_own_oldest_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_demand, "MAX_TLS_HANDSHAKES_OF_ADDRESS", 2)
    await world.start_broker(**AUTO)
    other = await connected(world, Half(), host="other")
    halves = [await connected(world, Half()) for _ in range(3)]
    await until(lambda: halves[0].closed is not None and halves[0].closed.done())
    for each in (other, *halves[1:]):
        assert each.closed is not None
        assert not each.closed.done()


@simulated
async def test_handshakes_of_one_address_begin_in_turns_and_those_of_others_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_demand, "TLS_HANDSHAKES_OF_ADDRESS_PER_S", 50)
    await world.start_broker(**AUTO)
    first = await connected(world, host="other")  # the certificate is there
    await until(lambda: first.is_shaken)
    began = world.now
    clients = [await connected(world) for _ in range(30)]
    other = await connected(world, host="other")
    await world.sleep(0.05)
    assert other.is_shaken
    assert sum(each.is_shaken for each in clients) == pytest.approx(5 + 50 * (world.now - began), abs=2)
    await until(lambda: all(each.is_shaken for each in clients))
    assert world.now - began == pytest.approx((30 - 5) / 50, abs=0.05)


@simulated
async def test_a_greeting_without_end_is_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(on_demand, "MAX_TLS_GREETING_BYTES", 100)
    await world.start_broker(**AUTO)
    client = await connected(world)
    assert client.closed is not None
    await client.closed
    assert "a greeting of TLS has more than 100 bytes" in caplog.text


@simulated
async def test_a_certificate_that_a_client_refuses_is_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.start_broker(**AUTO)
    client = await connected(world, TlsClient(ssl.create_default_context()))
    await until(lambda: "a TLS handshake failed" in caplog.text)
    assert "certificate verify failed" in str(client.error)


@simulated
async def test_with_access_control_the_deadline_of_a_key_holds_from_the_first_byte_on(world: World) -> None:
    await world.start_broker(**AUTO, access=SERVER_ACCESS["access"])
    began = world.now
    client = await connected(world)
    await until(lambda: client.is_shaken)
    assert client.closed is not None
    await client.closed
    assert world.now - began == pytest.approx(5.0, abs=0.1)


def test_tls_is_on_by_default_where_only_this_machine_connects() -> None:
    for host, is_on in (("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("ns1", False)):
        assert (PortTls(None, None, host).make_context is not None) is is_on, host
        assert PortTls(None, TlsChoice.AUTO, host).make_context is not None
        assert PortTls(None, TlsChoice.OFF, host).make_context is None


def test_a_file_that_has_no_certificate_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        PortTls(None, tmp_path / "none.pem", "127.0.0.1")
    empty = tmp_path / "empty.pem"
    empty.touch()
    with pytest.raises(ConfigError, match="cannot use the certificate"):
        PortTls(None, empty, "127.0.0.1")
