"""`rlab exporter`: the metrics of the groups of a whole cluster, from its trace.

One broker sees only a part of a rebalance, so these metrics need the events of all nodes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import anyio
import typer

from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, Verbose
from cli.security.options import Insecure, read_http_port_key
from cli.servers.options import ExitWithStdin, Log
from process.output import print_outcome
from process.runtime import run, wait_for_eof
from remoting.tasks import background_tasks


class Since(StrEnum):
    """The beginning of the part of the trace that is read."""

    EARLIEST = "earliest"
    LATEST = "latest"


def exporter(
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of /metrics; port 0 takes a free one.")
    ] = "127.0.0.1:9464",
    since: Annotated[
        Since, typer.Option("--from", help="Count from the first event that the brokers still have, or from now on.")
    ] = Since.EARLIEST,
    insecure: Insecure = False,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
    exit_with_stdin: ExitWithStdin = False,
) -> None:
    """Show rebalances, time to balance, orphan and double-owner time of all groups to Prometheus, until it is stopped.

    It reads the topic SYS_TRACE, and joins no group. One exporter is enough for a cluster. The metrics of brokers
    (--metrics) can be added up; these cannot, because they need the events of all brokers and members.

    Example: rlab exporter --namesrv ns1:9876
    """

    async def main() -> None:
        from prometheus_client import CollectorRegistry

        from client.config import wall_clock_ms
        from metrics.endpoint import serve_metrics
        from metrics.exporter import follow_trace, make_counts

        key = read_http_port_key(listen, insecure)
        registry = CollectorRegistry()
        counts = make_counts(registry)
        since_ms = None if since is Since.EARLIEST else wall_clock_ms()
        async with background_tasks() as tasks, serve_metrics(listen, registry, key=key) as address:
            tasks.start_soon(lambda: follow_trace(namesrv, counts, since_ms=since_ms))
            line = {"kind": "exporter", "ready": True, "address": address}
            print_outcome(line, f"exporter shows http://{address}/metrics", as_json=json)
            await (wait_for_eof() if exit_with_stdin else anyio.sleep_forever())

    run(main, endless=True, verbose=verbose, log_format=log)
