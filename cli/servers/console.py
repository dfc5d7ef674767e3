"""`rlab console`: the web page of a cluster, on which a rebalance is seen as it happens."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, Verbose, switch
from cli.security.options import Insecure, TlsCert, TlsClientCa, TlsKey, read_http_port_key, read_tls
from cli.servers.options import ExitWithStdin, Log
from process.output import print_note, print_outcome
from process.runtime import run, wait_for_eof

CONSOLE_PORT = 9480
AllowChanges = Annotated[
    bool, switch("--allow-changes", help_text="Let the pages publish, send dead letters again, scale topics.")
]


def console(
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of the page; port 0 takes a free one.")
    ] = f"127.0.0.1:{CONSOLE_PORT}",
    allow_changes: AllowChanges = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name that browsers may call it by; may be repeated."),
    ] = None,
    insecure: Insecure = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    log: Log = None,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
    exit_with_stdin: ExitWithStdin = False,
) -> None:
    """Show a cluster and its groups in a browser, until it is stopped.

    Who owns which queue now and an hour back, each rebalance with its cost, each move stage by stage, and messages. It
    reads only, unless changes are allowed, and joins no group.

    Example: rlab console --namesrv 127.0.0.1:9876
    """

    async def main() -> None:
        from console.server import ConsoleOptions, run_console
        from remoting.address import is_loopback, parse_address

        options = ConsoleOptions(
            name_servers=namesrv,
            listen=listen,
            allow_changes=allow_changes,
            allow_hosts=tuple(allow_host or ()),
            tls=read_tls(tls_cert, tls_key, tls_client_ca),
            key=read_http_port_key(listen, insecure, certificates=tls_client_ca is not None),
        )
        if insecure and options.key is None and not is_loopback(parse_address(listen)[0]):
            print_note(f"note: everyone who reaches {listen} can read every message of this cluster on the page")
        async with run_console(options) as address:
            line = {"kind": "console", "ready": True, "address": address}
            scheme = "http" if options.tls is None else "https"
            print_outcome(line, f"console is on {scheme}://{address}/", as_json=json)
            await (wait_for_eof() if exit_with_stdin else anyio.sleep_forever())

    run(main, endless=True, verbose=verbose, log_format=log)
