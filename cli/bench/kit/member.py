"""A process with one orderly consumer, to be killed or stopped by the benchmark `stalls`.

    python -m cli.bench.kit.member 127.0.0.1:9876 group-name instance-name 3.0

It announces its client id in one line, as servers announce their address, and ends with its parent.
"""

from __future__ import annotations

import sys

from cli.bench.kit.consumers import ignore
from cli.bench.kit.echo import TOPIC
from cli.output import print_json
from cli.runtime import run, wait_for_eof
from client import PushConsumer


async def consume(name_server: str, group: str, instance_name: str, session_timeout_s: str) -> None:
    """Consume `TOPIC` until standard input ends, or until cancelled, and unregister."""
    async with PushConsumer(
        name_server, group, order="queue", instance_name=instance_name, session_timeout_s=float(session_timeout_s)
    ) as consumer:
        await consumer.subscribe(TOPIC, ignore)
        print_json({"kind": "member", "name": group, "address": consumer.client_id})
        await wait_for_eof()


if __name__ == "__main__":
    run(lambda: consume(*sys.argv[1:]), endless=True)
