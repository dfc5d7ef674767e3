"""The peers of a server that are silent get a PING, and lose their connection without a sign of life."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from model.grpc_limits import SILENT_PEER_S, SILENT_PEER_TIMEOUT_S
from remoting.overload.lifecycle import Lifecycle
from remoting.overload.silence import SilentPeers
from testbed.simulation.kernel.run import Simulation, run_simulation


class PeerConnection:
    """A connection, whose codec is its own lifecycle."""

    peer = "10.0.0.7:5000"

    def __init__(self, *, has_pings: bool = True) -> None:
        self.reads = self.unsent_bytes = 0
        self.is_held_back = self.closed = False
        self.lifecycle: Lifecycle | None = self if has_pings else None
        self.pings: list[float] = []
        self.left: list[float] = []
        self.dropped: list[float] = []
        self._is_gone = anyio.Event()

    held_bytes = 0

    def look(self) -> None:
        pass

    def ping(self) -> None:
        self.pings.append(anyio.current_time())
        self.unsent_bytes += 17 * bool(self.unsent_bytes)

    def leave(self) -> None:
        self.left.append(anyio.current_time())

    def drop_unsent(self, reason: str) -> None:
        assert reason == "its peer did not answer a PING"
        self.dropped.append(anyio.current_time())
        self.close()

    def close(self) -> None:
        self.closed = True
        self._is_gone.set()

    async def wait_closed(self) -> None:
        await self._is_gone.wait()


def watched(
    body: Callable[[list[PeerConnection], SilentPeers], Coroutine[Any, Any, None]], *connections: PeerConnection
) -> None:
    """Run a body from time 0 on, while the connections are watched."""

    async def main(simulation: Simulation) -> None:
        open_now = list(connections)
        peers = SilentPeers(asyncio.get_running_loop(), open_now)
        began = anyio.current_time()
        peers.watch()
        await body(open_now, peers)
        for each in connections:
            for times in (each.pings, each.left, each.dropped):
                times[:] = [time - began for time in times]
        open_now.clear()

    run_simulation(main)


def test_a_silent_peer_gets_one_ping_and_loses_its_connection_in_time(caplog: pytest.LogCaptureFixture) -> None:
    silent = PeerConnection()

    async def body(_: list[PeerConnection], peers: SilentPeers) -> None:
        await anyio.sleep(100)

    watched(body, silent)
    assert silent.pings == pytest.approx([2 * SILENT_PEER_S])
    assert silent.dropped == pytest.approx([2 * SILENT_PEER_S + SILENT_PEER_TIMEOUT_S])
    assert caplog.messages == ["closing the connection of 10.0.0.7:5000: nothing arrived within 20 s after a PING"]


@pytest.mark.parametrize("sign", ["reads", "unsent_bytes", "is_held_back"])
def test_a_sign_of_life_or_load_of_this_side_keeps_a_connection(sign: str) -> None:
    alive = PeerConnection()
    alive.unsent_bytes = 10_000

    async def body(_: list[PeerConnection], peers: SilentPeers) -> None:
        alive.is_held_back = sign == "is_held_back"
        for _second in range(300):
            await anyio.sleep(1)
            if alive.pings[-1:] and anyio.current_time() - alive.pings[-1] > 15:
                alive.reads += sign == "reads"
                alive.unsent_bytes -= 100 * (sign == "unsent_bytes")

    watched(body, alive)
    assert not alive.dropped
    assert bool(alive.pings) == (sign != "is_held_back")


def test_peers_without_a_ping_may_be_silent() -> None:
    quiet = PeerConnection(has_pings=False)

    async def body(_: list[PeerConnection], peers: SilentPeers) -> None:
        await anyio.sleep(3_600)
        await peers.leave()

    watched(body, quiet)
    assert (quiet.pings, quiet.dropped, quiet.left) == ([], [], [])


def test_after_a_sleep_of_this_process_peers_have_the_whole_time_again() -> None:
    silent = PeerConnection()

    async def body(_: list[PeerConnection], peers: SilentPeers) -> None:
        await anyio.sleep(25)
        peers._due -= 5  # the next look is as late
        await anyio.sleep(100)

    watched(body, silent)
    assert silent.pings == pytest.approx([20, 40])
    assert silent.dropped == pytest.approx([60])


def test_the_timer_ends_with_the_last_connection_and_begins_with_the_next() -> None:
    first = PeerConnection()

    async def body(open_now: list[PeerConnection], peers: SilentPeers) -> None:
        open_now.clear()
        await anyio.sleep(1_000)
        assert peers._timer is None
        open_now.append(first)
        peers.watch()
        await anyio.sleep(25)

    watched(body, first)
    assert first.pings == pytest.approx([1_000 + 2 * SILENT_PEER_S])


def test_a_server_that_leaves_waits_until_its_peers_close() -> None:
    slow, gone = PeerConnection(), PeerConnection()
    gone.closed = True

    async def body(_: list[PeerConnection], peers: SilentPeers) -> None:
        asyncio.get_running_loop().call_later(3, slow.close)
        began = anyio.current_time()
        await peers.leave()
        assert anyio.current_time() - began == pytest.approx(3)
        await anyio.sleep(100)

    watched(body, slow, gone)
    assert (slow.left, slow.pings, gone.left) == ([0], [], [])
