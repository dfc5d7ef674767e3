"""The metrics of a name server: its route table, read at each scrape."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prometheus_client import CollectorRegistry

from metrics.exposition import add_table
from metrics.families import (
    BROKERS,
    BROKERS_ABSENT,
    CONNECTIONS,
    INFO,
    REFUSED,
    REGISTER_FAILS,
    REGISTER_WRITES,
    REPLICA_SETS,
    ROUTES,
    UPTIME,
    WAITING_REQUESTS,
    Samples,
)
from namesrv.server import NameServer


def add_name_server(registry: CollectorRegistry, name_server: NameServer, name: str, version: str) -> None:
    """Add the metrics of a running name server."""
    loop = asyncio.get_running_loop()
    began, server, table = loop.time(), name_server.server, name_server.table

    def read() -> Iterator[Samples]:
        yield INFO, [(("namesrv", name or name_server.address, version), 1)]
        yield UPTIME, [((), loop.time() - began)]
        yield CONNECTIONS, [((), len(server.connections))]
        yield WAITING_REQUESTS, [((), server.waiting)]
        if server.gate is not None:
            yield REFUSED, [((reason,), n) for reason, n in sorted(server.gate.refused.items())]
        yield BROKERS, [((), sum(len(broker.addresses) for broker in table.clusters()))]
        yield BROKERS_ABSENT, [((), len(table.absent))]
        yield ROUTES, [((), len(table.topics()))]
        if (elections := name_server.elections) is not None:
            yield REPLICA_SETS, [((), elections.n_sets)]
            yield REGISTER_FAILS, [((), float(elections.is_failing))]
            yield REGISTER_WRITES, [((result,), n) for result, n in elections.writes.items()]

    add_table(registry, read)
