"""A client of RocketMQ that signs its requests, and connections of any protocol from a host of their own."""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import Mapping
from typing import Any, TypeVar

from rocketmq.frame import Frame
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.unit.rocketmq.stock_client import StockClient

SECRET = "12345678"
"""The `rocketmq_secret` of each user of the tests."""

P = TypeVar("P", bound=asyncio.Protocol)


class Signed(StockClient):
    """A client of RocketMQ that signs what it asks; `tampered` is added to the body behind its signature."""

    tampered = b""

    def __init__(self, client_id: str, user: str = "mallory", secret: str = SECRET) -> None:
        super().__init__(client_id)
        self._user = user
        self._secret = secret

    def begin(self, code: int, fields: Mapping[str, Any], body: bytes | None = None) -> asyncio.Future[Frame]:
        signed = {**{name: str(value) for name, value in fields.items()}, "AccessKey": self._user}
        content = "".join(value for _, value in sorted(signed.items())).encode() + (body or b"")
        signature = base64.b64encode(hmac.digest(self._secret.encode(), content, "sha1")).decode()
        tampered = None if body is None else body + self.tampered
        return super().begin(code, {**signed, "Signature": signature}, tampered)


async def connected(cluster: SimulatedCluster, address: str, protocol: P) -> P:
    """Connect a protocol from a host of its own."""
    name, _, port = address.rpartition(":")
    with cluster.simulation.on_host("bad"):
        await cluster.simulation.loop.create_connection(lambda: protocol, name, int(port))
    return protocol


def grpc_headers(user: str, secret: str = SECRET) -> dict[str, str]:
    """The headers of a gRPC call that a user signs."""
    date = "20261128T060000Z"
    signature = hmac.digest(secret.encode(), date.encode(), "sha1").hex().upper()
    credential = f"MQv2-HMAC-SHA1 Credential={user}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return {"x_mq_date_time": date, "authorization": credential}
