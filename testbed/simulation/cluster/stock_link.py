"""StockLink: the connection of a client of RocketMQ 5 to one broker, with its stream of settings and its messages.

The connection is made with the first request, and again after it was lost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import anyio

from model.errors import RequestTimeout
from model.message_queue import MessageQueue
from remoting.address import parse_address
from rocketmq.grpc.handles import parse_handle
from rocketmq.grpc.proto import MESSAGES
from testbed.load.grpc import GrpcAnswer, GrpcClientConnection

TIMEOUT_S = 3.0
"""Timeout of a request."""
STEP_S = 0.05
"""Pause between two looks at something that offers no event."""


class StockMessage(NamedTuple):
    """A message as a member receives it; its place is that of the receipt handle, as the broker has it."""

    body: bytes
    key: str
    queue: MessageQueue
    offset: int
    attempt: int
    handle: str
    message_id: str


class StockLink:
    """See the module header."""

    def __init__(self, address: str, client_id: str, settings: Any) -> None:
        self._client_id, self._client_settings = client_id, settings
        self._host, self._port = parse_address(address)
        self._connection: GrpcClientConnection | None = None
        self._settings: GrpcAnswer | None = None
        self._lock = anyio.Lock()

    async def _connected(self) -> GrpcClientConnection:
        async with self._lock:
            connection = self._connection
            if connection is None or connection.closed.done() or connection.goaway is not None:
                self._connection = connection = await GrpcClientConnection.to_server(self._host, self._port)
                self._settings = None
            if self._settings is None or self._settings.ended.done():
                number = connection.open("Telemetry", self._client_id)
                self._settings = connection.say(number, self._client_settings, end=False)
            return connection

    async def ask(self, rpc: str, message: Any, timeout_s: float = TIMEOUT_S) -> list[Any]:
        """See `GrpcClientConnection.ask`; a connection that does not answer is replaced."""
        connection = await self._connected()
        try:
            return await connection.ask(rpc, message, self._client_id, timeout_s)
        except RequestTimeout:
            self.close()
            raise

    async def settings(self) -> Any:
        """The settings of the server. Raises: RlabError. Cancellation: harmless."""
        await self._connected()
        with anyio.move_on_after(TIMEOUT_S):
            while self._settings is not None and not self._settings.messages:  # noqa: ASYNC110 - virtual time
                await anyio.sleep(STEP_S)
        if self._settings is None or not self._settings.messages:
            self.close()
            raise RequestTimeout("the broker sent no settings")
        return MESSAGES["TelemetryCommand"].FromString(self._settings.messages[-1]).settings

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None and not self._connection.closed.done():
            self._connection.abort()


def read_message(broker: str, message: Any) -> StockMessage:
    """A message of a broker's answer."""
    system = message.system_properties
    handle = parse_handle(system.receipt_handle, broker)
    return StockMessage(
        body=message.body,
        key=system.keys[0] if system.keys else "",
        queue=MessageQueue(handle.topic, broker, handle.queue_id),
        offset=handle.offset,
        attempt=system.delivery_attempt,
        handle=system.receipt_handle,
        message_id=system.message_id,
    )
