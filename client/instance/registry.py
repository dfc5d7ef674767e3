"""The client instances of a process, one for each event loop and instance name. RocketMQ: MQClientManager."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import anyio

from client.config import ClientConfig
from client.instance.instance import ClientInstance
from remoting.address import parse_addresses
from remoting.security.key import Key


@dataclass(slots=True)
class _SharedInstance:
    """An instance and how many clients use it; `lock` lets one of them start it while the others wait."""

    instance: ClientInstance
    users: int = 0
    lock: anyio.Lock = field(default_factory=anyio.Lock)


_Key = tuple[int, tuple[str, ...], str, str, Key | None, str]
_instances: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, _SharedInstance]] = WeakKeyDictionary()


async def acquire_instance(config: ClientConfig) -> ClientInstance:
    """Get or create the running instance for these options; each call is undone by one `release_instance`.

    Raises:
        ConnectFailed: it is new, and no name server answers.

    Cancellation: nothing is left running that was not before.
    """
    if config.instance_name is None:
        instance = ClientInstance(config)
        await instance.start()
        return instance
    addresses = parse_addresses(config.name_servers)
    # With the process: a fork may run the same event loop, and has no instances yet.
    key = (os.getpid(), addresses, config.client_ip or "", config.instance_name, config.key, config.dialect)
    shared_here = _instances.setdefault(asyncio.get_running_loop(), {})
    while True:
        shared = shared_here.get(key)
        if shared is None or shared.instance.background.failed:
            shared = shared_here[key] = _SharedInstance(ClientInstance(config))
        async with shared.lock:
            if shared_here.get(key) is not shared:
                # While we waited, its last user released it, or its start failed: this one never runs again.
                continue
            if shared.users == 0:
                try:
                    await shared.instance.start()
                except BaseException:
                    del shared_here[key]
                    raise
            shared.users += 1
            return shared.instance


async def release_instance(instance: ClientInstance) -> None:
    """Release an instance; the last of its users stops it, also if cancelled."""
    shared_here = _instances.get(asyncio.get_running_loop(), {})
    for key, shared in list(shared_here.items()):
        if shared.instance is instance:
            shared.users -= 1
            if shared.users:
                return
            del shared_here[key]
    await instance.stop()
