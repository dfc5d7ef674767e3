"""send-64 and send-1: awaited sends of one producer to a broker with real files, against the bare echo."""

from __future__ import annotations

from client import Message, Producer
from testbed.bench.kit.echo import BODY, TOPIC, EchoClient, connect_echo
from testbed.bench.kit.processes import cluster_processes, echo_process
from testbed.bench.kit.report import Result
from testbed.bench.kit.rounds import Progress, Round, Sizes, Window, Work, in_turns, make_result, rate

IN_FLIGHT = 64
QUEUES = 4


async def bench_send_64(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure sends, 64 of them awaited at the same time."""
    return await _bench_send(sizes, progress, IN_FLIGHT)


async def bench_send_1(sizes: Sizes, progress: Progress) -> list[Result]:
    """Measure sends, one awaited after the other."""
    return await _bench_send(sizes, progress, 1)


async def _bench_send(sizes: Sizes, progress: Progress, in_flight: int) -> list[Result]:
    async with (
        echo_process() as echo,
        cluster_processes({TOPIC: QUEUES}) as cluster,
        connect_echo(echo.address) as client,
        Producer(cluster.name_server) as producer,
    ):
        turns = await in_turns(
            make_round(sending(producer), in_flight, sizes, progress, f"send-{in_flight}"),
            make_round(echoing(client), in_flight, sizes, progress, f"echo-{in_flight}"),
            sizes.repeat,
        )
    return [make_result(f"send-{in_flight}", turns)]


def make_round(work: Work, workers: int, sizes: Sizes, progress: Progress, label: str) -> Round:
    """A round of some workers, for `in_turns`."""

    async def run() -> float:
        progress(label)
        return await rate(work, workers, sizes.seconds)

    return run


def echoing(client: EchoClient) -> Work:
    """A worker that sends one echo after another."""

    async def work(window: Window) -> None:
        done = 0
        while window.open:
            await client.request()
            done += 1
        window.done += done

    return work


def sending(producer: Producer) -> Work:
    """A worker that sends one message after another."""

    async def work(window: Window) -> None:
        done = 0
        while window.open:
            await producer.send(Message(TOPIC, BODY))
            done += 1
        window.done += done

    return work
