"""Clients of an earlier commit with the servers of this one: their recorded requests, sent again one by one.

The answers have to fit those that they got then. What servers choose (tokens, versions, handles) is replaced in later
requests by what the new ones chose.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import msgpack
import pytest

from remoting.codec import CODEC, LENGTH_BYTES, decode_frame
from remoting.command import ONE_WAY, REQUEST, RESPONSE, Command
from remoting.request_code import RequestCode
from testbed.simulation.cluster.cluster import SimulatedCluster
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.compat.recording import BROKER_HOST, RAW, Frame, content, differences, load

pytestmark = [pytest.mark.simulation, pytest.mark.walk]

WITHIN_S = 30.0
CHOSEN_FROM = 10**9
"""Numbers from here up are tokens, versions and times; lower ones are counts and offsets, which are the same."""


class Chosen:
    """What the new servers chose instead of what the old ones chose."""

    def __init__(self) -> None:
        self._new: dict[Any, Any] = {}

    def learn(self, old: Any, new: Any) -> None:
        """Note the differences between two answers that fit."""
        if isinstance(old, dict) and isinstance(new, dict):
            for key in old.keys() & new.keys():
                self.learn(old[key], new[key])
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            for a, b in zip(old, new, strict=True):
                self.learn(a, b)
        elif type(old) is int and type(new) is int and old >= CHOSEN_FROM:
            self._new[old] = new

    def replace(self, value: Any) -> Any:
        """A value of a request as a client sends it that heard of the new servers."""
        if isinstance(value, dict):
            return {key: self.replace(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.replace(each) for each in value]
        return self._new.get(value, value) if type(value) is int else value


class OldClient:
    """One connection of an old client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests: dict[int, Command] = {}
        self._reader, self._writer = reader, writer
        self._answers: dict[int, Command] = {}
        self._pushed: list[Command] = []

    def send(self, command: Command, chosen: Chosen) -> None:
        """Send a recorded request."""
        body = command.body
        if body is not None and command.code not in RAW:
            body = msgpack.packb(chosen.replace(msgpack.unpackb(body, strict_map_key=False)))
        if command.flags == REQUEST:
            self.requests[command.opaque] = command
        header = chosen.replace(command.header)
        self._writer.write(CODEC.encode(command.flags, command.code, command.opaque, header, body))

    async def answer(self, opaque: int) -> Command:
        """Wait for an answer."""
        async with asyncio.timeout(WITHIN_S):
            while opaque not in self._answers:
                await self._read()
        return self._answers.pop(opaque)

    async def pushed(self, code: int) -> Command:
        """Wait for the next notification with this code."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                for command in self._pushed:
                    if command.code == code:
                        self._pushed.remove(command)
                        return command
                await self._read()

    async def _read(self) -> None:
        length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
        command = decode_frame(await self._reader.readexactly(length))
        if command.flags == RESPONSE:
            self._answers[command.opaque] = command
        else:
            self._pushed.append(command)

    def close(self) -> None:
        self._writer.close()


async def replay(simulation: Simulation, frames: list[Frame], data_dir: Path, brokers: int) -> list[str]:
    """Send what was sent to the servers of this commit; returns where their answers do not fit."""
    clients: dict[int, OldClient] = {}
    chosen = Chosen()
    wrong: list[str] = []
    async with SimulatedCluster(simulation, data_dir, brokers=brokers) as cluster:
        for frame in frames:
            await anyio.sleep(max(0.0, frame.at_s - simulation.loop.time()))
            if frame.connection not in clients:
                with simulation.on_host(frame.client):
                    port = int(_address(cluster, frame.server).partition(":")[2])
                    clients[frame.connection] = OldClient(*await asyncio.open_connection(frame.server, port))
            wrong += await _play(frame, clients[frame.connection], chosen)
        for client in clients.values():
            client.close()
    return wrong


def _address(cluster: SimulatedCluster, server: str) -> str:
    return (cluster.brokers.get(server) or cluster.name_servers[server]).address


async def _play(frame: Frame, client: OldClient, chosen: Chosen) -> list[str]:
    old = frame.command
    if not frame.from_server:
        client.send(old, chosen)
        return []
    asked = old if old.flags == ONE_WAY else client.requests[old.opaque]
    name = f"{frame.at_s} s, {frame.client}, {RequestCode(asked.code).name}"
    try:
        new = await (client.pushed(old.code) if old.flags == ONE_WAY else client.answer(old.opaque))
    except TimeoutError:
        return [f"{name}: nothing came"]
    if new.code != old.code:
        return [f"{name}: answer {new.code} {new.header}, not {old.code} {old.header}"]
    parts = ((old.header, new.header), (content(asked.code, old.body), content(asked.code, new.body)))
    for a, b in parts:
        chosen.learn(a, b)
    return [f"{name}: {each}" for a, b in parts for each in differences(a, b)]


def test_every_request_of_an_old_client_is_answered_in_a_form_that_it_can_read(tmp_path: Path) -> None:
    frames = [frame for frame in load().frames if frame.client != BROKER_HOST]

    async def main(simulation: Simulation) -> list[str]:
        return await replay(simulation, frames, tmp_path, brokers=1)

    assert run_simulation(main, seed=1) == []


def test_an_old_broker_registers_at_a_name_server(tmp_path: Path) -> None:
    frames = [frame for frame in load().frames if frame.client == BROKER_HOST]

    async def main(simulation: Simulation) -> list[str]:
        return await replay(simulation, frames, tmp_path, brokers=0)

    assert len(frames) > 10
    assert run_simulation(main, seed=1) == []
