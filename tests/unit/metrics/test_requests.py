from __future__ import annotations

import asyncio

import uvloop
from prometheus_client import CollectorRegistry, generate_latest

from metrics.requests import timed_connections
from model.errors import TopicNotExist
from remoting.client import RemotingClient
from remoting.command import Command, Reply
from remoting.connection import Connection
from remoting.request_code import RequestCode
from remoting.server import Handler, serve


def served(handler: Handler, code: int, times: int = 1) -> str:
    """The exposition of a server after requests of one code."""
    registry = CollectorRegistry()

    async def main() -> None:
        kind = timed_connections(registry)
        async with serve({RequestCode.GET_SERVER_STATE: handler}, "127.0.0.1:0", connection_class=kind) as server:
            client = RemotingClient()
            try:
                connection = await client.connect(server.address)
                for _ in range(times):
                    await connection.request(code)
            finally:
                await client.aclose()

    uvloop.run(main())
    return generate_latest(registry).decode()


def test_requests_are_observed_by_their_code_and_what_became_of_them() -> None:
    def refuse(connection: Connection, request: Command) -> Reply:
        raise TopicNotExist("no such topic")

    text = served(refuse, RequestCode.GET_SERVER_STATE, 3)
    assert 'rlab_request_seconds_count{code="GET_SERVER_STATE",result="TOPIC_NOT_EXIST"} 3.0' in text


def test_a_request_that_is_answered_later_takes_until_then() -> None:
    def later(connection: Connection, request: Command) -> None:
        asyncio.get_running_loop().call_later(0.03, connection.respond, request)

    text = served(later, RequestCode.GET_SERVER_STATE)
    assert 'le="0.025",result="SUCCESS"} 0.0' in text
    assert 'le="15.0",result="SUCCESS"} 1.0' in text


def test_codes_that_no_one_knows_are_one_series() -> None:
    def never(connection: Connection, request: Command) -> None:
        raise AssertionError("not reached")

    for code in (77_001, 77_002):
        text = served(never, code)
        assert 'rlab_request_seconds_count{code="unknown",result="REQUEST_CODE_NOT_SUPPORTED"} 1.0' in text
