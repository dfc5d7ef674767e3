"""Keeps a broker known to every name server: on a timer, at once on a change, at once after a lost connection.

RocketMQ: BrokerController.registerBrokerAll, BrokerOuterAPI. Each name server has a task of its own, so that one that
is away delays nobody.
"""

from __future__ import annotations

import logging
import random

import anyio
import msgpack
from anyio.abc import TaskGroup

from broker.broker import Broker
from model.errors import RlabError
from model.limits import REQUEST_TIMEOUT_S
from model.topic_route import Perm
from remoting.address import format_address, parse_address
from remoting.client import RemotingClient
from remoting.request_code import RequestCode

logger = logging.getLogger(__name__)

_ANY_HOST = ("0.0.0.0", "::", "")


class Registration:
    """The registration of one broker with its name servers.

    Args:
        broker: whose topics are announced.
        listen: address that the broker listens on, with the real port.
    """

    def __init__(self, broker: Broker, listen: str) -> None:
        self._broker = broker
        self._listen = listen
        # Wall clock first, so that it grows over restarts; then one up for every change.
        self._version = int(broker.config.clock_ms())
        self._cause = ""
        self._wakes = {address: anyio.Event() for address in broker.config.name_servers}
        self._announced: dict[str, str] = {}
        self._client = RemotingClient(on_lost=self._wake, rng=random.Random(broker.config.name))
        broker.topics_changed = self.changed

    def changed(self, cause: str) -> None:
        """Announce the topics again, now, to all name servers."""
        self._version += 1
        self._cause = cause
        for address in self._wakes:
            self._wake(address)

    def _wake(self, address: str) -> None:
        self._wakes[address].set()

    def start(self, tasks: TaskGroup) -> None:
        """Begin to register; a name server that is away is tried again and again."""
        for address in self._wakes:
            tasks.start_soon(self._keep_registered, address)

    async def _keep_registered(self, address: str) -> None:
        while True:
            self._wakes[address] = anyio.Event()
            try:
                await self._register(address)
                wait_s = self._broker.config.register_interval_s
            except RlabError as error:
                logger.warning("%s: not registered with name server %s: %s", self._broker.config.name, address, error)
                wait_s = max(self._client.backoff_s(address), 0.01)
            with anyio.move_on_after(wait_s):
                await self._wakes[address].wait()

    async def _register(self, address: str) -> None:
        config = self._broker.config
        connection = await self._client.connect(address)
        advertised = self._announced[address] = config.advertise or self._address_seen_from(connection.local_host)
        topics = [
            # INHERIT stays: producers find the template by it.
            topic.to_wire()
            for topic in self._broker.topics.configs()
            if topic.perm & (Perm.READ | Perm.WRITE)
        ]
        header = {
            "cluster": config.cluster,
            "broker_name": config.name,
            "broker_id": config.broker_id,
            "address": advertised,
            "version": self._version,
            "expiry_ms": int(config.expiry_s * 1000),
            "cause": self._cause,
        }
        await self._client.request(address, RequestCode.REGISTER_BROKER, header, msgpack.packb(topics))

    def _address_seen_from(self, local_host: str) -> str:
        host, port = parse_address(self._listen)
        return format_address(local_host if host in _ANY_HOST else host, port)

    async def stop(self) -> None:
        """Tell every name server that the broker leaves, then close. What cannot be told expires there.

        Cancellation: harmless.
        """
        config = self._broker.config
        with anyio.move_on_after(REQUEST_TIMEOUT_S / 3):
            async with anyio.create_task_group() as tasks:
                for address, advertised in self._announced.items():
                    header = {"broker_name": config.name, "broker_id": config.broker_id, "address": advertised}
                    tasks.start_soon(self._unregister, address, header)
        await self._client.aclose()

    async def _unregister(self, address: str, header: dict[str, object]) -> None:
        if self._client.connected(address) is None:
            return
        try:
            await self._client.request(address, RequestCode.UNREGISTER_BROKER, header)
        except RlabError as error:
            logger.warning("%s could not unregister from %s: %s", self._broker.config.name, address, error)
