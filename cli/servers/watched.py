"""Adds an HTTP endpoint for metrics and health to servers, if the option `--metrics` is given.

aiohttp and prometheus-client are imported only here, and only if wanted: they take a third of a second.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer

from remoting.tasks import background_tasks

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from broker.broker import RunningBroker
    from broker.config import BrokerConfig
    from namesrv.config import NameServerConfig
    from namesrv.server import NameServer
    from remoting.security.key import Key
    from replica.config import ReplicaConfig
    from replica.host import RunningReplica

Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Serve /metrics for Prometheus, /live and /ready on this address; 0 for any port. On a network it takes a "
        "key in RLAB_HTTP_KEY_FILE, or --insecure.",
    ),
]


@asynccontextmanager
async def watched_broker(
    config: BrokerConfig, listen: str | None, key: Key | None = None
) -> AsyncIterator[tuple[RunningBroker, str]]:
    """Run a broker, with an endpoint if `listen` is given; yields it with the address of the endpoint or "".

    Raises:
        ConfigError: see `run_broker`, or the endpoint cannot listen.

    Cancellation: both are stopped.
    """
    from broker.broker import run_broker

    if listen is None:
        async with run_broker(config) as running:
            yield running, ""
        return
    from prometheus_client import CollectorRegistry

    from metrics.broker import add_broker, readiness_problem
    from metrics.event_counts import EventCounts
    from metrics.requests import timed_connections

    registry, counts = CollectorRegistry(), EventCounts(config.event_sink)
    config = replace(config, event_sink=counts, connection_class=timed_connections(registry))
    async with run_broker(config) as running:
        add_broker(registry, running, counts, version("rebalance-lab"))
        async with _endpoint(listen, registry, key, lambda: readiness_problem(running.broker)) as address:
            yield running, address


@asynccontextmanager
async def watched_replica(
    config: ReplicaConfig, listen: str | None, key: Key | None = None
) -> AsyncIterator[tuple[RunningReplica, str]]:
    """Run a replica, with an endpoint if `listen` is given; yields it with the address of the endpoint or "".

    Raises:
        ConfigError: see `run_replica`, or the endpoint cannot listen.

    Cancellation: both are stopped.
    """
    from replica.host import run_replica

    if listen is None:
        async with run_replica(config) as replica:
            yield replica, ""
        return
    from prometheus_client import CollectorRegistry

    from metrics.event_counts import EventCounts
    from metrics.replica import add_replica, replica_readiness_problem
    from metrics.requests import timed_connections

    registry, counts = CollectorRegistry(), EventCounts(config.broker.event_sink)
    watched = replace(config.broker, event_sink=counts, connection_class=timed_connections(registry))
    async with run_replica(replace(config, broker=watched)) as replica:
        add_replica(registry, replica, counts, version("rebalance-lab"))
        async with _endpoint(listen, registry, key, lambda: replica_readiness_problem(replica)) as address:
            yield replica, address


@asynccontextmanager
async def watched_name_server(
    config: NameServerConfig, listen: str | None, key: Key | None = None
) -> AsyncIterator[tuple[NameServer, str]]:
    """Run a name server, with an endpoint if `listen` is given; yields it with the address of the endpoint or "".

    Raises:
        ConfigError: an address cannot be listened on.

    Cancellation: both are stopped.
    """
    from namesrv.server import run_name_server

    if listen is None:
        async with run_name_server(config) as server:
            yield server, ""
        return
    from prometheus_client import CollectorRegistry

    from metrics.name_server import add_name_server
    from metrics.requests import timed_connections

    registry = CollectorRegistry()
    config = replace(config, connection_class=timed_connections(registry))
    async with run_name_server(config) as server:
        add_name_server(registry, server, config.name, version("rebalance-lab"))
        async with _endpoint(listen, registry, key) as address:
            yield server, address


@asynccontextmanager
async def _endpoint(
    listen: str, registry: CollectorRegistry, key: Key | None, readiness_problem: Callable[[], str] = lambda: ""
) -> AsyncIterator[str]:
    """Serve the metrics of a server, and measure the delay of its event loop; yields the address."""
    from metrics.endpoint import serve_metrics
    from metrics.exposition import watch_loop_delay

    async with background_tasks() as tasks:
        tasks.start_soon(watch_loop_delay, registry)
        async with serve_metrics(listen, registry, readiness_problem, key) as address:
            yield address
