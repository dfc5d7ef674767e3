"""The console over HTTP: what it answers, what it refuses, how its streams resume, and that text stays text."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import anyio.lowlevel
import pytest
import uvloop

from broker.broker import run_broker
from broker.config import BrokerConfig
from client import Admin, Message, Producer, PushConsumer
from console.server import ConsoleOptions, run_console
from console.testbed import TestPart as Part
from model.errors import ConfigError
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from remoting.security.key import Key
from remoting.security.policy import Policy, parse_policy
from remoting.security.tls.certificates import TlsFiles
from testbed.cluster.certificates import make_certificate

pytestmark = pytest.mark.tcp
ANY = "127.0.0.1:0"
PATIENCE_S = 30.0
MARKUP = "<img src=x onerror=alert(1)>"


class Browser:
    """Asks a console as a browser does."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self.address = address
        self.token = ""

    async def get(self, path: str, **headers: str) -> tuple[int, str, Any]:
        async with self._session.get(f"http://{self.address}{path}", headers=headers) as answer:
            return answer.status, await answer.text(), answer.headers

    async def json(self, path: str) -> Any:
        status, text, _ = await self.get(path)
        assert status == 200, text
        return json.loads(text)

    async def change(self, name: str, wanted: Any, **headers: str) -> tuple[int, Any]:
        known = {"Origin": f"http://{self.address}", "X-Console-Token": self.token, **headers}
        async with self._session.post(f"http://{self.address}/api/{name}", json=wanted, headers=known) as answer:
            return answer.status, await answer.json()

    @asynccontextmanager
    async def stream(self, query: str, last_id: str = "") -> AsyncIterator[AsyncIterator[dict[str, str]]]:
        headers = {"Last-Event-ID": last_id} if last_id else {}
        async with self._session.get(f"http://{self.address}/api/stream?{query}", headers=headers) as answer:
            assert answer.content_type == "text/event-stream"
            yield self._events(answer)

    @staticmethod
    async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[dict[str, str]]:
        event: dict[str, str] = {}
        async for line in answer.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                event[name] = value
            elif event:
                yield event
                event = {}


@asynccontextmanager
async def consoled_cluster(
    tmp_path: Path, access: Policy | None = None, **options: Any
) -> AsyncIterator[tuple[str, Browser]]:
    async with (
        run_name_server(NameServerConfig(listen=ANY, access=access)) as name_server,
        run_broker(
            BrokerConfig(name="b", data_dir=tmp_path, listen=ANY, name_servers=(name_server.address,), access=access)
        ) as running,
    ):
        await running.broker.topics.registration.wait_attempted()
        made = ConsoleOptions(name_servers=name_server.address, **options)
        async with run_console(made) as address, aiohttp.ClientSession() as session:
            browser = Browser(session, address)
            browser.token = (await browser.json("/api/session"))["token"]
            yield name_server.address, browser


class Bed:
    """Processes and faults as their owner has them, in memory."""

    def __init__(self) -> None:
        self.faults: dict[int, Mapping[str, Any]] = {}

    def parts(self) -> list[Part]:
        return [Part("b", "broker", "running", ("kill",))]

    def missing(self) -> str:
        return ""

    async def act(self, name: str, action: str) -> str:
        return f"{name}: {action}"

    async def add_consumer(self, group: str, topic: str) -> str:
        return group

    async def begin_fault(self, document: Mapping[str, Any]) -> dict[str, Any]:
        self.faults[7] = document
        return {"id": 7, "cause": "b/1", "done": 2}

    async def heal(self, number: int | None = None) -> int:
        return self.faults.pop(number or 0, None) is not None

    async def active_faults(self) -> list[dict[str, Any]]:
        return [{"id": number, "fault": fault, "done": 2} for number, fault in self.faults.items()]


async def nothing(messages: Any) -> None:
    """A listener."""


def test_a_group_is_shown_with_its_owners_and_a_page_that_was_away_reads_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with consoled_cluster(tmp_path) as (address, browser), Admin(address) as admin:
            await admin.create_topic("t", queues=2)
            with anyio.fail_after(20):
                async with PushConsumer(address, group="g") as consumer:
                    await consumer.subscribe("t", nothing)
                    found = await browser.json("/api/groups/g")
                    while not all(row[1] for row in found["rows"]) or len(found["rows"]) < 2:
                        found = await browser.json("/api/groups/g")
                    owners = {row[0]: row[1] for row in found["rows"]}
                    assert owners["t@b:0"] == owners["t@b:1"] == consumer.client_id
                    first_id = found["id"]
                    async with browser.stream(f"group=g&after={first_id}") as events:
                        changes, clients = 0, []
                        async for event in events:
                            if "data" in event:
                                updates = json.loads(event["data"])
                                changes += len(updates.get("changes", ())) // 4
                                # The queues may come in two parts, and the second does not repeat the name.
                                clients += updates.get("clients", [])
                                if changes == 2:
                                    break
                        last_id = event["id"]
                    assert clients == [consumer.client_id]
                    whole = await browser.json("/api/groups/g")
                    assert [whole["changes"][n + 2] for n in (0, 4)] == [0, 0]
                    assert whole["rebalances"][0]["because"] == f"{consumer.client_id} started"
                # Away meanwhile: the member has left. From its last id the page learns just that.
                async with browser.stream("group=g", last_id) as events:
                    async for event in events:
                        if json.loads(event.get("data", "{}")).get("member_list") == []:
                            break
                async with browser.stream("group=g", "beef-7") as events:
                    reported = [event async for event in events]
                    assert reported[-1]["event"] == "reset", "an id of another run: load all again"

    uvloop.run(main())


def test_who_is_not_our_own_page_changes_nothing_and_other_names_are_not_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with consoled_cluster(tmp_path, allow_changes=True) as (address, browser), Admin(address) as admin:
            await admin.create_topic("t", queues=1)
            wanted = {"topic": "t", "body": "x"}
            foreign = {"Origin": "http://evil.example"}
            assert (await browser.change("publish", wanted, **foreign))[0] == 403
            assert (await browser.change("publish", wanted, **{"X-Console-Token": "guess"}))[0] == 403
            assert (await browser.get("/api/session", Host="evil.example"))[0] == 403
            assert (await browser.get("/", Host="evil.example"))[0] == 403
            assert (await browser.json("/api/topics/t"))["queues"][0]["max"] == 0

            status, reported = await browser.change("publish", wanted)
            assert (status, "t@b:0" in reported["done"]) == (200, True)
            assert (await browser.json("/api/topics/t"))["queues"][0]["max"] == 1
            for no_text in (7, "half of a pair \ud800"):
                assert (await browser.change("publish", {"topic": "t", "body": no_text}))[0] == 400
            assert (await browser.change("publish", ["t"]))[0] == 400
            assert (await browser.change("nothing", {}))[0] == 400
            assert (await browser.change("act", {"name": "b", "action": "kill"}))[0] == 409, "it owns no process"
            assert (await browser.change("scale", {"topic": "t", "queues": 3}))[0] == 200
            assert len((await browser.json("/api/topics/t"))["queues"]) == 3

    uvloop.run(main())


def test_a_page_begins_faults_of_connections_and_heals_them(tmp_path: Path) -> None:
    fault = {"do": "drop", "code": "NOTIFY_CONSUMER_IDS_CHANGED", "client": MARKUP}

    async def main() -> None:
        async with consoled_cluster(tmp_path, allow_changes=True, test_bed=Bed()) as (_, browser):
            assert (await browser.json("/api/test-cluster"))["faults"] == []
            status, reported = await browser.change("begin-fault", {"fault": fault})
            assert (status, reported["done"]) == (200, "begun: drop; done 2 times at once")
            [active] = (await browser.json("/api/test-cluster"))["faults"]
            assert active["fault"] == fault
            refused: list[tuple[str, dict[str, Any]]] = [("begin-fault", {}), ("begin-fault", {"fault": "drop"})]
            refused += [("heal", {}), ("heal", {"id": "7"}), ("heal", {"id": True})]
            for change, wanted in refused:
                assert (await browser.change(change, wanted))[0] == 400
            assert [(await browser.change("heal", {"id": 7}))[1]["done"] for _ in "ab"] == [
                "healed",
                "the fault had already ended",
            ]
            assert (await browser.json("/api/test-cluster"))["faults"] == []

    uvloop.run(main())


def test_it_is_read_only_unless_configured_otherwise(tmp_path: Path) -> None:
    async def main() -> None:
        async with consoled_cluster(tmp_path) as (_, browser):
            assert browser.token == "", "nobody needs it"
            status, reported = await browser.change("publish", {"topic": "t", "body": "x"})
            assert (status, "--allow-changes" in reported["error"]) == (403, True)

    uvloop.run(main())


def test_with_access_control_a_change_needs_the_right_of_the_key_of_the_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Key("ops", bytes(32))
    monkeypatch.setenv("RLAB_KEY", key.text())
    rights = f'[users.ops]\nkey = "{key.hash()}"\nadmin = true\nbrokers = ["b"]\nconsume = ["SYS_TRACE"]\n'

    async def main() -> None:
        async with consoled_cluster(tmp_path, parse_policy(rights), allow_changes=True) as (address, browser):
            async with Admin(address) as admin:
                await admin.create_topic("t", queues=1)
            status, reported = await browser.change("publish", {"topic": "t", "body": "x"})
            assert (status, "produce" in reported["error"]) == (403, True), reported
            assert (await browser.change("scale", {"topic": "t", "queues": 2}))[0] == 200

    uvloop.run(main())


def test_markup_in_keys_and_bodies_is_answered_as_json_that_no_browser_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with consoled_cluster(tmp_path) as (address, browser), Admin(address) as admin:
            await admin.create_topic("t", queues=1)
            async with Producer(address, group="p") as producer:
                sent = await producer.send(
                    Message("t", f"{MARKUP}\n\n: ping".encode(), keys=(MARKUP.replace(" ", "_"),))
                )
            for query in ("topic=t&queue=b:0", "topic=t&queue=b:0&offset=0", f"id={sent.message_id}"):
                _, text, headers = await browser.get(f"/api/messages?{query}")
                [message] = json.loads(text)["messages"]
                assert (message["body"], message["offset"]) == (f"{MARKUP}\n\n: ping", 0)
                assert headers["Content-Type"].startswith("application/json")
                assert headers["X-Content-Type-Options"] == "nosniff"
            for bad in (
                *(
                    "topic=t&queue=b:x",
                    "topic=t&queue=b:" + 5000 * "9",
                    "topic=t&queue=b:" + 18 * "9",
                    "topic=t&queue=b:",
                ),
                *("topic=t&queue=b:0&offset=-1", "topic=&queue=b:0", ""),
            ):
                assert (await browser.get(f"/api/messages?{bad}"))[0] == 400

    uvloop.run(main())


def test_every_view_has_an_address_and_nothing_else_is_served(tmp_path: Path) -> None:
    async def main() -> None:
        async with consoled_cluster(tmp_path) as (_, browser):
            for path in ("/", "/topics", "/topics/a%7Cb", "/groups/g", "/groups/g/dead-letters", "/test-cluster"):
                status, text, headers = await browser.get(path)
                assert (status, "<script type" in text) == (200, True)
                assert "script-src 'self'" in headers["Content-Security-Policy"]
            for path in ("/static/console/app.js", "/static/pictures/timeline.js", "/static/pictures/pictures.css"):
                assert (await browser.get(path))[0] == 200
            for path in (
                "/static/console/..%2Fserver.py",
                "/static/model/limits.py",
                "/static/console/nothing.js",
                "/static/console/..",
                "/other",
            ):
                assert (await browser.get(path))[0] == 404
            status, text, _ = await browser.get("/api/topics/nothing")
            assert (status, json.loads(text)) == (404, {"error": "no broker has topic 'nothing'"})
            for path in ("/topics/", "/groups/", "/groups/g/", "/test-cluster/"):
                assert (await browser.get(path))[0] == 200, "as somebody types it"
            assert (await browser.get("/api/groups/no%20group"))[0] in (200, 400)

    uvloop.run(main())


def test_an_error_is_a_page_for_people_and_json_for_programs(tmp_path: Path) -> None:
    opened = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    async def main() -> None:
        async with consoled_cluster(tmp_path) as (_, browser):
            for path, status, said in (
                ("/other", 404, "no page of this address"),
                ("/groups/g/other", 404, "no page of this address"),
                ("/api/topics/nothing", 404, "no broker has topic &#x27;nothing&#x27;"),
                ("/api/messages?topic=t&queue=<b>:x", 400, "queue &#x27;x&#x27; is not a whole number"),
            ):
                found, text, headers = await browser.get(path, **opened)
                assert (found, headers["Content-Type"]) == (status, "text/html; charset=utf-8"), path
                assert said in text
                assert '<a href="/groups">' in text
                assert "script-src 'self'" in headers["Content-Security-Policy"]
                found, text, headers = await browser.get(path)
                assert (found, headers["Content-Type"].startswith("application/json")) == (status, True), path
                assert set(json.loads(text)) == {"error"}
            found, text, headers = await browser.get("/", Host="evil.example", **opened)
            assert (found, "--allow-host" in text) == (403, True)
            assert "Content-Security-Policy" in headers
            document = await browser.json("/api/groups/nobody")
            assert "rlab consume TOPIC --group nobody" in document["problem"]

    uvloop.run(main())


def test_changes_are_not_allowed_on_an_address_that_others_reach(tmp_path: Path) -> None:
    async def main() -> None:
        options = ConsoleOptions(name_servers="127.0.0.1:1", listen="0.0.0.0:0", allow_changes=True)
        with pytest.raises(ConfigError, match="anyone who can reach it"):
            async with run_console(options):
                raise AssertionError("not reached")

    uvloop.run(main())


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with consoled_cluster(tmp_path) as (address, browser):
            options = ConsoleOptions(name_servers=address, listen=browser.address)
            with pytest.raises(ConfigError, match=f"cannot listen on {browser.address}"):
                async with run_console(options):
                    raise AssertionError("not reached")

    uvloop.run(main())


def test_with_a_certificate_the_pages_come_over_https_alone_and_a_new_one_is_taken_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remoting.security.tls.certificates.ACCESS_RELOAD_S", 0.01)
    cert, key = make_certificate(tmp_path, "console", ["127.0.0.1"], 30)

    async def shown(address: str) -> bytes:
        context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        reader, writer = await asyncio.open_connection(*address.split(":"), ssl=context)
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.write(f"GET /api/session HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200")
        assert isinstance(certificate, bytes)
        return certificate

    async def main() -> None:
        async with run_name_server(NameServerConfig(listen=ANY)) as server:
            tls = TlsFiles(cert=cert, key=key)
            options = ConsoleOptions(name_servers=server.address, tls=tls, allow_changes=True)
            async with run_console(options) as address:
                first = await shown(address)
                trusted = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=tmp_path / "ca.pem"))
                async with aiohttp.ClientSession(connector=trusted) as session:
                    with pytest.raises(aiohttp.ClientError):
                        await session.get(f"http://{address}/api/session")
                    token = (await (await session.get(f"https://{address}/api/session")).json())["token"]
                    for scheme, status in (
                        ("https", 400),
                        ("http", 403),
                    ):  # such a change there is not, nor is our page
                        headers = {"Origin": f"{scheme}://{address}", "X-Console-Token": token}
                        change = await session.post(f"https://{address}/api/nothing", json={}, headers=headers)
                        assert change.status == status
                make_certificate(tmp_path, "console", ["127.0.0.1"], 30)
                with anyio.fail_after(PATIENCE_S):
                    while await shown(address) == first:
                        await anyio.lowlevel.checkpoint()

    asyncio.run(main())
