"""What is made of the answers of etcd, of those that no etcd gives, and of none: from servers with prepared answers.

The answers are those of etcd 3.4. Requests that succeed at a real etcd are in test_contract.py and test_etcd.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from model.errors import ConfigError, NoPermission, NotAuthenticated, RegisterUnavailable
from model.replica_limits import MAX_ETCD_ANSWER_BYTES
from replica.registers.etcd_gateway import EtcdGateway
from replica.registers.etcd_place import EtcdPlace

pytestmark = [pytest.mark.tcp, pytest.mark.asyncio]

DONE = {"header": {"revision": "7"}, "succeeded": True}
BAD_TOKEN = (401, {"error": "etcdserver: invalid auth token", "code": 16})
OLD_TOKEN = (400, {"error": "etcdserver: revision of auth store is old", "code": 3})
HANGS, BREAKS, CUT = "hangs", "breaks", "cut"
Answer = tuple[int, Any] | str | bytes


class Member:
    """A server that gives prepared answers, and then DONE; `received` has path, token and document of each request."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = list(answers)
        self.received: list[tuple[str, str, Any]] = []
        self.address = ""

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Path and token of each request."""
        return [(path.rpartition("/")[2], token) for path, token, _ in self.received]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                fields = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}
                document = json.loads(await reader.readexactly(int(fields["content-length"])))
                self.received.append((lines[0].split()[1], fields.get("authorization", ""), document))
                answer = self._answers.pop(0) if self._answers else (200, DONE)
                if answer == HANGS:
                    await reader.read()  # until the client closes the connection
                if answer in (HANGS, BREAKS):
                    break
                writer.write(_encoded(answer))
                await writer.drain()
                if answer == CUT:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _encoded(answer: Answer) -> bytes:
    if answer == CUT:  # a part of its document
        return b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"header": {"rev'
    status, document = (200, answer) if isinstance(answer, str | bytes) else answer
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def members(*answers: Iterable[Answer]) -> AsyncIterator[list[Member]]:
    """A member for each list of answers."""
    servers, made = [], []
    for each in answers:
        member = Member(each)
        server = await asyncio.start_server(member.serve, "127.0.0.1", 0)
        member.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        servers.append(server)
        made.append(member)
    yield made
    for server in servers:
        server.close()


def gateway(*endpoints: Member | str, timeout_s: float = 5.0, login: tuple[str, str] | None = None) -> EtcdGateway:
    addresses = tuple(each if isinstance(each, str) else each.address for each in endpoints)
    return EtcdGateway(EtcdPlace(endpoints=addresses), timeout_s=timeout_s, login=lambda: login)


def token(text: str) -> Answer:
    return 200, {"header": {}, "token": text}


async def test_a_token_that_has_expired_is_renewed_and_the_change_is_sent_again() -> None:
    for refusal in (BAD_TOKEN, OLD_TOKEN):
        async with (
            members([token("t1"), (200, DONE), refusal, token("t2")]) as [member],
            gateway(member, login=("u", "p")) as etcd,
        ):
            for _ in range(3):
                assert await etcd.change({"success": []}) == DONE
            assert member.calls == [
                *(("authenticate", ""), ("txn", "t1"), ("txn", "t1")),
                *(("authenticate", ""), ("txn", "t2"), ("txn", "t2")),
            ]
            assert member.received[0][2] == {"name": "u", "password": "p"}


async def test_a_member_that_refuses_each_token_is_passed_over_and_not_asked_for_ever() -> None:
    async with (
        members([token("t1"), BAD_TOKEN, token("t2"), BAD_TOKEN], []) as [first, second],
        gateway(first, second, login=("u", "p")) as etcd,
    ):
        assert await etcd.change({"success": []}) == DONE
        assert len(first.received) == 4
        assert second.calls == [("txn", "t2")]


async def test_an_etcd_without_authentication_is_used_without_a_token(caplog: pytest.LogCaptureFixture) -> None:
    off = (412, {"error": "etcdserver: authentication is not enabled", "code": 9})
    async with members([off]) as [member], gateway(member, login=("u", "p")) as etcd:
        assert await etcd.read({}) == DONE
        assert member.calls == [("authenticate", ""), ("txn", "")]
        assert "RLAB_ETCD_USER is not needed" in caplog.text


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (
            (400, {"error": "etcdserver: authentication failed, invalid user ID or password", "code": 3}),
            NotAuthenticated,
            "refuses the login .* check RLAB_ETCD_USER and RLAB_ETCD_PASSWORD_FILE",
        ),
        ((400, {"error": "etcdserver: user name is empty", "code": 3}), NotAuthenticated, "check RLAB_ETCD_USER"),
        ((403, {"error": "etcdserver: permission denied", "code": 7}), NoPermission, "readwrite .* begin with /rlab/"),
        ((404, b"Not Found"), ConfigError, "does not serve the JSON gateway of etcd 3.4 or newer"),
        ((200, b"<html>"), RegisterUnavailable, "its answer is not a JSON object: '<html>'"),
        ((200, [1]), RegisterUnavailable, "not a JSON object"),
        ((200, b"[" * 100_000), RegisterUnavailable, "not a JSON object"),
        ((200, b"\xff\xfe"), RegisterUnavailable, "not a JSON object"),
        ((302, b""), ConfigError, "HTTP 302"),
        (
            (400, b"Client sent an HTTP request to an HTTPS server.\n"),
            ConfigError,
            "HTTPS server.*: set RLAB_ETCD_CA",
        ),
        ((503, {"error": "etcdserver: request timed out", "code": 14}), RegisterUnavailable, "request timed out"),
        ((500, b""), RegisterUnavailable, "HTTP 500"),
        ((429, {"message": "etcdserver: mvcc: database space exceeded"}), RegisterUnavailable, "space exceeded"),
        (CUT, RegisterUnavailable, "the connection failed"),
        (BREAKS, RegisterUnavailable, "the connection failed"),
        (HANGS, RegisterUnavailable, "no answer within"),
    ],
)
async def test_each_other_answer_is_an_error_that_names_member_and_reason(
    answer: Answer, kind: type[Exception], reason: str
) -> None:
    for call in (EtcdGateway.read, EtcdGateway.change):
        async with members([answer]) as [member], gateway(member, timeout_s=0.3) as etcd:
            with pytest.raises(kind, match=f"(?s){member.address}.*{reason}") as raised:
                await call(etcd, {"success": []})
            if kind is RegisterUnavailable:
                assert ("may have changed" in str(raised.value)) == (call is EtcdGateway.change)
            assert len(member.received) == 1


async def test_an_answer_that_is_longer_than_any_register_is_not_read_to_its_end() -> None:
    async with members([(200, b" " * MAX_ETCD_ANSWER_BYTES + b"{}")]) as [member], gateway(member) as etcd:
        with pytest.raises(RegisterUnavailable, match="is longer than"):
            await etcd.read({})


@pytest.mark.parametrize("fault", [HANGS, BREAKS, CUT, (503, {"error": "no leader"}), (200, b"x")])
async def test_a_read_goes_to_the_next_member_and_a_change_that_may_be_done_does_not(fault: Answer) -> None:
    async with members([fault], []) as [first, second], gateway(first, second, timeout_s=0.6) as etcd:
        assert await etcd.read({"success": []}) == DONE
        assert (len(first.received), len(second.received)) == (1, 1)
        assert await etcd.read({"success": []}) == DONE
        assert (len(first.received), len(second.received)) == (1, 2), "the one that has answered is asked first"
    async with members([fault], []) as [first, second], gateway(first, second, timeout_s=0.6) as etcd:
        with pytest.raises(RegisterUnavailable, match="etcd may have changed the register, or not"):
            await etcd.change({"success": []})
        assert (len(first.received), len(second.received)) == (1, 0)
        assert await etcd.change({"success": []}) == DONE, "the next call goes to the other member"
        assert (len(first.received), len(second.received)) == (1, 1)


async def test_a_change_that_did_not_reach_a_member_goes_to_the_next_one() -> None:
    async with members([]) as [member], gateway("127.0.0.1:1", member) as etcd:
        assert await etcd.change({"success": []}) == DONE
    async with gateway("127.0.0.1:1", "127.0.0.1:2") as etcd:
        with pytest.raises(RegisterUnavailable, match=r"no member .* 127.0.0.1:1: cannot connect: .* 127.0.0.1:2: can"):
            await etcd.change({"success": []})


async def test_a_call_takes_no_longer_than_its_time_however_many_members_hang() -> None:
    async with members([HANGS], [HANGS], [HANGS]) as hanging, gateway(*hanging, timeout_s=0.6) as etcd:
        with anyio.fail_after(5), pytest.raises(RegisterUnavailable, match=r"(no answer within 0.2 s.*){3}"):
            await etcd.read({})


async def test_a_call_that_is_cancelled_leaves_the_gateway_usable() -> None:
    async with members([HANGS]) as [member], gateway(member) as etcd:
        with anyio.move_on_after(0.1):
            await etcd.read({})
        assert await etcd.read({}) == DONE


@pytest.mark.parametrize(("endpoint", "warned"), [("10.0.0.1:2379", True), ("127.0.0.1:2379", False)])
async def test_a_password_over_a_network_without_tls_is_warned_of(
    endpoint: str, warned: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RLAB_ETCD_CA", raising=False)
    gateway(endpoint, login=("u", "p"))
    assert ("without TLS: set RLAB_ETCD_CA" in caplog.text) == warned
