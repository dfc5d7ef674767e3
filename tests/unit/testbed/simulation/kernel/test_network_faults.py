"""Faults of the simulated network: each does what it says, to whom it says, until it is healed."""

from __future__ import annotations

import anyio
import pytest

from testbed.simulation.kernel.run import Simulation
from tests.tcp.transport_conformance import Recorder
from tests.unit.testbed.simulation.nodes import LATENCY_S, PORT, A, B, C, answers, nodes, simulate


def test_latency_is_set_for_two_hosts_or_one_way_and_restored() -> None:
    async def main(simulation: Simulation) -> list[float]:
        async def round_trip_s(client: Recorder) -> float:
            begun_s = simulation.loop.time()
            assert await answers(client, within_s=100)
            return simulation.loop.time() - begun_s

        async with nodes(simulation, A) as node:
            near, far = await node.connect(B, A), await node.connect(C, A)
            times = [await round_trip_s(far)]
            with simulation.network.set_latency(A, C, 1.0):
                times += [await round_trip_s(far), await round_trip_s(near)]
            with simulation.network.set_latency(A, C, 1.0, one_way=True):
                times += [await round_trip_s(far)]
            return [*times, await round_trip_s(far)]

    assert simulate(main) == [0.25, 2.0, 0.25, 1.125, 0.25]


def test_a_lower_latency_does_not_let_later_bytes_overtake() -> None:
    async def main(simulation: Simulation) -> bytes:
        async with nodes(simulation, A) as node:
            client = await node.connect(B, A)
            simulation.network.set_latency(A, B, 5.0)
            client.transport.write(b"slow ")
            await anyio.sleep(0.001)
            simulation.network.set_latency(A, B, 0.0)
            client.transport.write(b"fast")
            await client.until_received(9)
            return bytes(client.received)

    assert simulate(main) == b"slow fast"


def test_a_partition_stalls_bytes_and_healing_lets_them_flow() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            client, other = await node.connect(B, A), await node.connect(C, A)
            with simulation.network.partition([A], [B]):
                assert not await answers(client, within_s=3_600)
                assert await answers(other, within_s=1)
            healed_s = simulation.loop.time()
            await client.until_received(4)
            assert simulation.loop.time() == healed_s + 2 * LATENCY_S
            assert client.happened == ["made", "data"]

    simulate(main)


def test_a_partition_holds_what_was_on_its_way_when_it_began() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            client = await node.connect(B, A)
            client.transport.write(b"ping")
            await anyio.sleep(1.5 * LATENCY_S)  # the echo is half way back
            with simulation.network.partition(A, B):
                await anyio.sleep(60)
                assert client.received == b""
            await client.until_received(4)

    simulate(main)


def test_a_one_way_partition_lets_the_other_way_through() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            client = await node.connect(B, A)
            with simulation.network.partition(A, B, one_way=True):
                assert not await answers(client, within_s=60)
                assert node.protocols[1].received == b"ping"
            await client.until_received(4)
            with simulation.network.partition(B, A, one_way=True):
                assert not await answers(client, within_s=60)
                assert node.protocols[1].received == b"ping"
            await client.until_received(8)

    simulate(main)


@pytest.mark.parametrize(("source", "target", "one_way"), [(A, B, False), (B, A, True), (A, B, True)])
def test_connecting_through_a_partition_hangs_until_it_is_healed(source: str, target: str, one_way: bool) -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node, anyio.create_task_group() as group:
            fault = simulation.network.partition(source, target, one_way=one_way)
            with pytest.raises(TimeoutError), anyio.fail_after(30):
                await node.connect(B, A)
            group.start_soon(node.connect, B, A)
            await anyio.sleep(30)
            assert simulation.network.connections() == ()
            fault.heal()
            await anyio.sleep(3 * LATENCY_S)
            assert len(simulation.network.connections(A, B)) == 1

    simulate(main)


def test_a_partition_covers_hosts_that_come_later() -> None:
    async def main(simulation: Simulation) -> None:
        fault = simulation.network.partition([A], [B, C])
        async with nodes(simulation, A) as node:
            with pytest.raises(TimeoutError), anyio.fail_after(30):
                await node.connect(C, A)
            fault.heal()
            assert await answers(await node.connect(C, A), within_s=1)

    simulate(main)


def test_faults_that_overlap_are_healed_one_by_one() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            client = await node.connect(B, A)
            partition, stall = simulation.network.partition(A, B), simulation.network.stall(B)
            assert not await answers(client, within_s=60)
            partition.heal()
            partition.heal()
            assert not await answers(client, within_s=60)
            stall.heal()
            await client.until_received(8)

    simulate(main)


def test_a_stalled_host_receives_nothing_says_nothing_and_goes_on_later() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A, B) as node:
            to_a, from_a, beside = await node.connect(B, A), await node.connect(A, B), await node.connect(C, B)
            with simulation.network.stall(A):
                assert not await answers(to_a, within_s=60)
                assert not await answers(from_a, within_s=60)
                assert await answers(beside, within_s=1)
            await to_a.until_received(4)
            await from_a.until_received(4)

    simulate(main)


def test_one_connection_is_stalled_beside_another() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            hung, well = await node.connect(B, A), await node.connect(B, A)
            (first, _) = simulation.network.connections(A, B)
            with simulation.network.stall_connection(first):
                assert not await answers(hung, within_s=60)
                assert await answers(well, within_s=1)
            await hung.until_received(4)

    simulate(main)


def test_an_address_can_refuse_new_connections_and_keeps_the_old() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            old = await node.connect(B, A)
            with simulation.network.refuse(A, PORT):
                begun_s = simulation.loop.time()
                with pytest.raises(ConnectionRefusedError):
                    await node.connect(B, A)
                assert simulation.loop.time() == begun_s + 2 * LATENCY_S
                assert await answers(old, within_s=1)
            assert await answers(await node.connect(B, A), within_s=1)

    simulate(main)


def test_nothing_comes_from_a_process_that_was_killed_and_its_address_refuses_connections() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A, B) as node:
            old, last = await node.connect(B, A), await node.connect(A, B)
            attempts: list[str] = []

            async def attempt() -> None:
                await node.connect(A, B)
                attempts.append("connected")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(attempt)
                await anyio.sleep(LATENCY_S / 2)
                with simulation.network.kill(A):
                    tasks.start_soon(attempt)
                    assert not await answers(old, within_s=9)
                    assert not await answers(last, within_s=9)
                    begun_s = simulation.loop.time()
                    with pytest.raises(ConnectionRefusedError):
                        await node.connect(B, A)
                    assert simulation.loop.time() == begun_s + 2 * LATENCY_S
                    assert attempts == []
                    tasks.cancel_scope.cancel()
            assert await answers(await node.connect(B, A), within_s=1)

    simulate(main)


def test_a_cut_resets_both_ends_at_once_and_loses_what_was_on_its_way() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            client, other = await node.connect(B, A), await node.connect(C, A)
            assert await answers(client, within_s=1)
            client.transport.write(b"lost")
            cut_s = simulation.loop.time()
            assert simulation.network.cut(A, B) == 1
            await client.until_lost()
            server = node.protocols[1]
            await server.until_lost()
            assert simulation.loop.time() == cut_s
            assert isinstance(client.lost_with, ConnectionResetError)
            assert isinstance(server.lost_with, ConnectionResetError)
            assert server.received == b"ping"
            assert await answers(other, within_s=1)
            assert await answers(await node.connect(B, A), within_s=1)

    simulate(main)


def test_everything_of_one_host_can_be_cut() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A, B) as node:
            lost = [await node.connect(B, A), await node.connect(A, B), await node.connect(C, A)]
            kept = await node.connect(C, B)
            assert simulation.network.cut(A) == 3
            for client in lost:
                await client.until_lost()
            assert await answers(kept, within_s=1)

    simulate(main)


def test_a_cut_reaches_a_connection_through_a_partition() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            client = await node.connect(B, A)
            assert await answers(client, within_s=1)
            with simulation.network.partition(A, B):
                simulation.network.cut(A, B)
                await client.until_lost()
                await node.protocols[1].until_lost()

    simulate(main)


def test_a_connection_that_is_cut_before_the_server_accepts_it_leaves_nothing() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            client = await node.connect(B, A)
            simulation.network.cut(A, B)
            await client.until_lost()
            await anyio.sleep(1)
            assert node.protocols == [client]
            assert simulation.network.connections() == ()

    simulate(main)


def test_heal_ends_every_fault() -> None:
    async def main(simulation: Simulation) -> None:
        network = simulation.network
        async with nodes(simulation, A) as node:
            client = await node.connect(B, A)
            faults = [
                network.partition(A, [B, C]),
                network.stall(A),
                network.stall_connection(network.connections(A)[0]),
                network.refuse(A, PORT),
                network.set_latency(A, B, 9.0),
            ]
            assert all("active" in repr(fault) for fault in faults)
            network.heal()
            assert all("healed" in repr(fault) for fault in faults)
            assert await answers(client, within_s=1)
            assert await answers(await node.connect(B, A), within_s=1)

    simulate(main)


def test_a_hung_peer_is_noticed_by_anyone_who_waits_with_a_timeout_only() -> None:
    async def main(simulation: Simulation) -> None:
        async with nodes(simulation, A) as node:
            client = await node.connect(B, A)
            await anyio.sleep(1)
            simulation.network.stall(A)
            client.transport.close()  # the kernel takes the goodbye, so that this side is done
            await client.until_lost()
            assert client.lost_with is None
            await anyio.sleep(3_600)
            assert "eof" not in node.protocols[0].happened

    simulate(main)


def test_a_latency_is_not_negative() -> None:
    async def main(simulation: Simulation) -> None:
        with pytest.raises(ValueError, match="-1"):
            simulation.network.set_latency(A, B, -1.0)

    simulate(main)
