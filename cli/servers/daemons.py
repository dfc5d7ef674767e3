"""`rlab namesrv` and `rlab broker`: one daemon in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from cli.ask import register_at
from cli.options import DEFAULT_NAME_SERVER, AutoCreate, Config, Json, Listen, NameServers, RegisterPlace, Verbose
from cli.security.options import (
    Access,
    GrpcTlsText,
    Insecure,
    TlsCert,
    TlsClientCa,
    TlsKey,
    read_http_port_key,
    secured,
)
from cli.servers.console import console
from cli.servers.copies.elect import elect
from cli.servers.copies.handover import handover
from cli.servers.copies.options import Copies, CopiesGiven, MinInSync, ReplicaLease, ReplicaOf, SetAcks, SetElect
from cli.servers.copies.replicas import replicas
from cli.servers.copies.salvage import salvage
from cli.servers.copies.serving import ReplicaOrders, announcement_fields, replica_config
from cli.servers.descriptors import connections_within_limits
from cli.servers.doctor import doctor
from cli.servers.exporter import exporter
from cli.servers.options import (
    RETAIN_AGE,
    SEGMENT_AGE,
    SEGMENT_SIZE,
    UNLIMITED,
    Advertise,
    Data,
    ExitWithStdin,
    Expiry,
    Flush,
    Log,
    Quirks,
    RecoverTopics,
    RegisterInterval,
    RestoreGrace,
    RetainAge,
    RetainSize,
    RetainSizeMax,
    Rocketmq,
    SegmentAge,
    SegmentSize,
    Trace,
    TraceTopic,
    TransactionCheckInterval,
    TransactionKeep,
    TransactionMaxChecks,
    TransactionTimeout,
    make_retention,
    make_store_options,
    make_transaction_options,
)
from cli.servers.trace_file import TraceFile
from cli.servers.upkeep.backup import dump, restore
from cli.servers.upkeep.drain import drain
from cli.servers.upkeep.forget import forget
from cli.servers.upkeep.verify import verify
from cli.servers.watched import Metrics, watched_broker, watched_name_server, watched_replica
from model.errors import ConfigError
from model.limits import (
    BROKER_EXPIRY_S,
    BROKER_REGISTER_INTERVAL_S,
    MAX_TRANSACTION_CHECKS,
    RECONNECT_MAX_S,
    TRACE_FLUSH_INTERVAL_S,
    TRANSACTION_CHECK_INTERVAL_S,
    TRANSACTION_KEEP_H,
    TRANSACTION_TIMEOUT_S,
)
from model.record import FlushMode
from process.orders import Orders
from process.output import document, print_note, print_outcome
from process.runtime import run
from remoting.address import is_loopback, parse_address, parse_addresses
from remoting.tasks import background_tasks

if TYPE_CHECKING:
    from broker.broker import RunningBroker
    from broker.config import BrokerConfig
    from remoting.security.key import Key


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("namesrv")(namesrv)
    of_broker = typer.Typer()
    of_broker.callback(invoke_without_command=True)(broker)
    of_broker.command("verify")(verify)
    of_broker.command("dump")(dump)
    of_broker.command("restore")(restore)
    of_broker.command("drain")(drain)
    of_broker.command("forget")(forget)
    of_broker.command("replicas")(replicas)
    of_broker.command("handover")(handover)
    of_broker.command("elect")(elect)
    of_broker.command("salvage")(salvage)
    app.add_typer(of_broker, name="broker")
    app.command("exporter")(exporter)
    app.command("console")(console)
    app.command("doctor")(doctor)


def namesrv(
    listen: Listen = "127.0.0.1:9876",
    name: Annotated[str, typer.Option(help="Name in the log and the announcement; by default its address.")] = "",
    rocketmq: Rocketmq = True,
    elections: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the register of replica sets in this directory: for brokers with copies. One name server of a "
            "cluster keeps it.",
        ),
    ] = None,
    access: Access = None,
    insecure: Insecure = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    grpc_tls: GrpcTlsText = None,
    metrics: Metrics = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
    exit_with_stdin: ExitWithStdin = False,
) -> None:
    """Run a name server until it is stopped.

    Name servers do not know each other: start two, and list both for every broker and client.

    Example: rlab namesrv --listen 10.0.0.1:9876 --access users.toml
    """
    from namesrv.config import NameServerConfig
    from namesrv.faults import NameServerFaults

    async def main() -> None:
        key = read_http_port_key(metrics, insecure, "--metrics")
        settings = NameServerConfig(
            listen=listen,
            name=name,
            rocketmq=rocketmq,
            elections=elections,
            **secured(access, listen, insecure, tls_cert, tls_key, tls_client_ca, grpc_tls)._asdict(),
            **connections_within_limits(http=metrics is not None)._asdict(),
        )
        async with watched_name_server(settings, metrics, key) as (server, shown_at):
            announce(
                *("namesrv", name or server.address, server.address),
                as_json=json,
                is_open=access is None,
                metrics=shown_at,
            )
            orders = Orders(NameServerFaults(server.server), Random())
            await (orders.obey() if exit_with_stdin else anyio.sleep_forever())

    run(main, endless=True, verbose=verbose, log_format=log)


def broker(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="Broker name; must not change as long as its data is used.")] = "broker-a",
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    listen: Listen = "127.0.0.1:10911",
    advertise: Advertise = None,
    data: Data = None,
    cluster: Annotated[str, typer.Option(help="Cluster name.")] = "DefaultCluster",
    auto_create: AutoCreate = True,
    flush: Flush = FlushMode.ASYNC,
    retain_age: RetainAge = RETAIN_AGE,
    retain_size: RetainSize = UNLIMITED,
    retain_size_max: RetainSizeMax = UNLIMITED,
    segment_size: SegmentSize = SEGMENT_SIZE,
    segment_age: SegmentAge = SEGMENT_AGE,
    transaction_timeout: TransactionTimeout = TRANSACTION_TIMEOUT_S,
    transaction_check_interval: TransactionCheckInterval = TRANSACTION_CHECK_INTERVAL_S,
    transaction_max_checks: TransactionMaxChecks = MAX_TRANSACTION_CHECKS,
    transaction_keep: TransactionKeep = TRANSACTION_KEEP_H,
    trace: Trace = None,
    trace_topic: TraceTopic = True,
    quirk: Quirks = None,
    recover_topics: RecoverTopics = False,
    rocketmq: Rocketmq = True,
    register_interval: RegisterInterval = BROKER_REGISTER_INTERVAL_S,
    expiry: Expiry = BROKER_EXPIRY_S,
    restore_grace: RestoreGrace = 2 * RECONNECT_MAX_S,
    copies: Copies = None,
    acks: SetAcks = None,
    min_in_sync: MinInSync = None,
    replica_lease: ReplicaLease = None,
    elect: SetElect = None,
    replica_of: ReplicaOf = None,
    register: RegisterPlace = None,
    access: Access = None,
    insecure: Insecure = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    grpc_tls: GrpcTlsText = None,
    metrics: Metrics = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
    exit_with_stdin: ExitWithStdin = False,
) -> None:
    """Run a broker or a replica of one until it is stopped; or drain or forget one, or care for its data or copies.

    Example: rlab broker --name broker-a --namesrv ns1:9876,ns2:9876 --listen 0.0.0.0:10911 --access users.toml
    """
    transaction_options = transaction_timeout, transaction_check_interval, transaction_max_checks, transaction_keep

    def made() -> BrokerConfig:
        return _config_class()(
            name=replica_of or name,
            data_dir=data or Path("rlab-data", replica_of or name),
            name_servers=parse_addresses(namesrv),
            listen=listen,
            advertise=None if advertise is None else dialable(advertise),
            cluster=cluster,
            auto_create_topics=auto_create,
            register_interval_s=register_interval,
            expiry_s=expiry,
            restore_grace_s=restore_grace,
            flush=flush,
            recover_topics=recover_topics,
            rocketmq=rocketmq,
            retention=make_retention(retain_age, retain_size, retain_size_max),
            store=make_store_options(segment_size, segment_age),
            transactions=make_transaction_options(*transaction_options),
            **secured(access, listen, insecure, tls_cert, tls_key, tls_client_ca, grpc_tls)._asdict(),
            trace=trace_topic,
            quirks=frozenset(quirk or ()),
        )

    copies_given = CopiesGiven(copies, acks, min_in_sync, replica_lease, replica_of, register, elect)
    serving = partial(_serve, made, copies_given, trace, metrics, insecure, json, exit_with_stdin)
    if context.invoked_subcommand is None:
        run(serving, endless=True, verbose=verbose, log_format=log)


def _config_class() -> type[BrokerConfig]:
    from broker.config import BrokerConfig  # late: help needs nothing of a broker

    return BrokerConfig


async def _serve(
    make_config: Callable[[], BrokerConfig],
    copies_given: CopiesGiven,
    trace: Path | None,
    metrics: str | None,
    insecure: bool,
    as_json: bool,
    exit_with_stdin: bool,
) -> None:
    copies_given.check()
    with nullcontext() if trace is None else TraceFile(trace) as trace_file:
        sink = None if trace_file is None else trace_file.write
        key, fit = (
            read_http_port_key(metrics, insecure, "--metrics"),
            connections_within_limits(http=metrics is not None),
        )
        config = replace(make_config(), event_sink=sink, **fit._asdict())
        copies_given.check_quirks(config.quirks)
        if copies_given.any:
            async with flush_regularly(trace_file):
                await _serve_replica(copies_given, config, metrics, key, as_json, exit_with_stdin)
            return
        async with watched_broker(config, metrics, key) as (running, shown_at), flush_regularly(trace_file):
            # A reader of the announcement looks the broker up at a name server at once.
            await running.broker.topics.registration.wait_attempted()
            recovery = {"seconds": running.recovery_s, **document(running.broker.store.recovery)}
            announce(
                *("broker", running.name, running.address),
                as_json=as_json,
                is_open=config.access is None,
                metrics=shown_at,
                recovery=recovery,
            )
            await (_orders_of(running).obey() if exit_with_stdin else anyio.sleep_forever())


async def _serve_replica(
    copies_given: CopiesGiven,
    broker: BrokerConfig,
    metrics: str | None,
    key: Key | None,
    as_json: bool,
    exit_with_stdin: bool,
) -> None:
    async with (
        register_at(broker.name_servers, copies_given.register, broker.key) as register,
        watched_replica(replica_config(copies_given, broker, register), metrics, key) as (replica, shown_at),
    ):
        await replica.wait_attempted()
        announce(
            *("broker", replica.name, replica.address),
            as_json=as_json,
            is_open=broker.access is None,
            metrics=shown_at,
            **announcement_fields(replica),
        )
        await (ReplicaOrders(replica, Random()).obey() if exit_with_stdin else anyio.sleep_forever())


def _orders_of(running: RunningBroker) -> Orders:
    from broker.groups.faults import BrokerFaults

    broker = running.broker
    store_trace = broker.store_trace if broker.config.trace else lambda: None
    return Orders(BrokerFaults(running.server, broker.groups, broker.events, store_trace), Random())


def dialable(address: str) -> str:
    """Check the address that clients are given.

    Raises:
        ConfigError: it is malformed, or has port 0, which cannot be reached.
    """
    if parse_address(address)[1] == 0:
        raise ConfigError(f"--advertise {address}: clients cannot connect to port 0; name the port they can reach")
    return address


def announce(
    kind: str, name: str, address: str, *, as_json: bool, is_open: bool = True, metrics: str = "", **more: object
) -> None:
    """Print the line that announces a daemon and its address; `more` is added only to the JSON document.

    A note on stderr follows if other machines than this one reach an address without access control.
    """
    line = {"kind": kind, "name": name, "ready": True, "address": address, **more}
    text = f"{kind} {name} listens on {address}"
    if metrics:
        line["metrics"] = metrics
        text += f", metrics on http://{metrics}/metrics"
    print_outcome(line, text, as_json=as_json)
    if is_open and not is_loopback(parse_address(address)[0]):
        print_note(
            f"note: there is no access control: all who reach {address} may read, change and delete everything there "
            "(docs/security.md)"
        )


@asynccontextmanager
async def flush_regularly(file: TraceFile | None) -> AsyncIterator[None]:
    """Flush a trace file regularly while the block runs. Cancellation: harmless; closing the file flushes it."""
    async with background_tasks() as tasks:
        if file is not None:
            tasks.start_soon(_flush_regularly, file)
        yield


async def _flush_regularly(file: TraceFile) -> None:
    while True:
        await anyio.sleep(TRACE_FLUSH_INTERVAL_S)
        file.flush()
