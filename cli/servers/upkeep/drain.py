"""`rlab broker drain`: stop writes to a broker, and then wait until its groups have read its messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from cli.ask import ask_cluster
from cli.options import DEFAULT_NAME_SERVER, Config, Json, NameServers, switch
from model.limits import ROUTE_POLL_INTERVAL_S
from model.names import is_system_topic
from process.output import print_note, print_outcome
from process.runtime import FAILED

if TYPE_CHECKING:
    from client.admin.admin import Admin

_POLL_S = 1.0
_SETTLE_S = ROUTE_POLL_INTERVAL_S + 5.0
"""After this time without a new message, every producer has polled a route without the broker's queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainResult:
    """The result of a drain: the document of `--json`."""

    broker: str
    drained: bool
    left: dict[str, int]  # messages that each group has not consumed there
    seconds: float


def drain(
    broker: Annotated[str, typer.Argument(show_default=False, help="Name of the broker.")],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="How long to wait.")] = 600.0,
    undo: Annotated[bool, switch("--undo", help_text="Let producers write to it again.")] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Take the writes from a broker before its maintenance, and wait until groups have consumed all it has.

    Producers go to the queues of other brokers within 30 s; a topic that has no other broker cannot be written. The
    exit code is 1 if something is left at the end of the time. Then stop the broker. After its maintenance: --undo.

    Example: rlab broker drain broker-a --namesrv ns1:9876
    """
    if undo:
        ask_cluster(namesrv, lambda admin: admin.allow_writes(broker, allowed=True))
        print_outcome({"broker": broker, "writes": True}, f"{broker} takes messages again", as_json=json)
        return
    done = ask_cluster(namesrv, lambda admin: drain_broker(admin, broker, timeout))
    left = ", ".join(f"{group} {n:,}" for group, n in done.left.items())
    text = f"{broker} is drained: stop it" if done.drained else f"{broker} is not drained, left of groups: {left or 0}"
    print_outcome(done, text, as_json=json)
    print_note(f"note: {broker} takes no messages until 'rlab broker drain {broker} --undo'")
    if not done.drained:
        raise typer.Exit(FAILED)


async def drain_broker(admin: Admin, broker: str, timeout_s: float) -> DrainResult:
    """Stop writes to a broker, and wait until no message arrives and none is left to consume.

    Raises:
        RlabError: the cluster cannot be asked.

    Cancellation: writes stay taken.
    """
    await admin.allow_writes(broker, allowed=False)
    began = quiet_since = anyio.current_time()
    stored = -1
    while True:
        info = await admin.broker_info(broker)
        now = anyio.current_time()
        ends = sum(
            each.max_offset for topic in info.topics if not is_system_topic(topic.config.topic) for each in topic.ranges
        )
        if ends != stored:
            stored, quiet_since = ends, now
        left = await _left(admin, broker)
        is_done = not left and now - quiet_since >= _SETTLE_S
        if is_done or now - began >= timeout_s:
            return DrainResult(broker=broker, drained=is_done, left=left, seconds=round(now - began, 1))
        await anyio.sleep(_POLL_S)


async def _left(admin: Admin, broker: str) -> dict[str, int]:
    left: dict[str, int] = {}
    for summary in await admin.groups():
        group = await admin.group(summary.group)
        lags = [each.lag or 0 for each in group.queues if each.queue.broker_name == broker]
        in_flight = sum(each.in_flight for each in group.popped_queues if each.queue.broker_name == broker)
        if n := sum(lags) + in_flight:
            left[summary.group] = n
    return left
