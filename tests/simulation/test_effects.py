"""Each request does no more at a broker than its schema says, so that it is refused where it has to be."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import msgpack
import pytest

import broker.broker
from broker.broker import Broker
from remoting.client import RemotingClient
from remoting.request_code import RequestCode
from remoting.server import Handler, RemotingServer
from remoting.wire.field import Effect
from remoting.wire.schema import SCHEMA
from testbed.simulation.cluster.access import derived_key
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.test_matrix import MATRIX, USERS, WITH_USERS, started

pytestmark = [pytest.mark.simulation, pytest.mark.walk]

EFFECTS = list(Effect)
serve_as_usual = broker.broker._serve


class Watch:
    """Compares what each handler of a broker does with the effect of its command; `seen` has what it did."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.seen: dict[RequestCode, Effect] = {}

    def serve(self, broker: Broker, closed: Any) -> AbstractAsyncContextManager[RemotingServer]:
        watched = {code: self.watched(broker, code, handler) for code, handler in broker.features.handlers().items()}
        broker.features.__dict__["handlers"] = lambda: watched
        return serve_as_usual(broker, closed)

    def watched(self, broker: Broker, code: RequestCode, handler: Handler) -> Handler:
        def state() -> tuple[int, Any]:
            journals = [len(journal.pending) for journal in broker.metadata._journals]
            return len(broker.store._buffer), (list(broker.metadata._pending.items()), journals)

        def call(connection: Any, request: Any) -> Any:
            buffered, rows = state()
            try:
                return handler(connection, request)
            finally:
                now_buffered, now_rows = state()
                self.did(
                    code, Effect.APPENDS if now_buffered > buffered else Effect.CHANGES if now_rows != rows else None
                )

        return call

    def did(self, code: RequestCode, effect: Effect | None) -> None:
        declared = SCHEMA[code].effect
        if effect is not None:
            self.seen[code] = max(effect, self.seen.get(code, effect), key=EFFECTS.index)
            if declared is None or EFFECTS.index(declared) < EFFECTS.index(effect):
                self.wrong.append(f"{code.name} has the effect {effect.name}, and declares {declared}")


def test_no_request_changes_or_appends_more_than_it_declares(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    monkeypatch.setattr(broker.broker, "_serve", watch.serve)

    async def scenario(cluster: SimulatedCluster) -> None:
        addresses = await started(cluster)
        clients = {name: RemotingClient(key=derived_key(name)) for name in USERS}
        for case in (case for case in MATRIX if case.to == "broker"):
            body = case.body("owner") if callable(case.body) else case.body
            packed = body if body is None or isinstance(body, bytes) else msgpack.packb(body)
            connection = await clients[case.by].connect(addresses["broker"])
            await connection.request(case.code, case.header_of("owner"), packed)
        for client in clients.values():
            await client.aclose()

    simulate(scenario, brokers=1, **WITH_USERS)
    assert watch.wrong == []
    seen = watch.seen
    assert (seen[RequestCode.SEND_MESSAGE], seen[RequestCode.LOCK_BATCH_MQ]) == (Effect.APPENDS, Effect.CHANGES)
    assert len(seen) >= 15, "most commands that change something were seen to do so"
