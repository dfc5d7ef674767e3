"""`rlab broker forget`: makes name servers forget a broker that left without a goodbye and will not return."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.ask import ask_cluster
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers
from process.output import print_outcome


def forget(
    broker: Annotated[str, typer.Argument(show_default=False, help="Name of the broker.")],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Json = False,
    config: Config = None,
) -> None:
    """Forget a broker that was killed or cut off and will not return, so that tools do not report it as away any more.

    A broker that stops by itself says goodbye, and one that returns is not away: neither has to be forgotten. Its data
    directory is not touched; a broker that is started on it registers again.

    Example: rlab broker forget broker-b --namesrv ns1:9876,ns2:9876
    """
    n = ask_cluster(namesrv, lambda admin: admin.forget_broker(broker))
    print_outcome({"broker": broker, "name_servers": n}, f"{broker} is forgotten", as_json=json)
