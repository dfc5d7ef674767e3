from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.decode import decode_messages
from model.message_queue import MessageQueue
from model.record import encode_record
from remoting.codec import CODEC
from remoting.request_code import RequestCode
from testbed.bench.kit.echo import BODY, TOPIC, split
from testbed.simulation.kernel.run import Simulation, run_simulation
from tests.unit.testbed.bench.embedded import echo_connected


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_frames_are_found_wherever_the_stream_is_cut(payloads: list[bytes], data: st.DataObject) -> None:
    whole = [frame(payload) for payload in payloads]
    stream = b"".join(whole)
    cut = data.draw(st.integers(0, len(stream)))
    first, rest = split(stream[:cut])
    second, rest = split(rest + stream[cut:])
    assert (first + second, rest) == (whole, b"")


def test_every_request_gets_its_own_frame_back() -> None:
    async def main(simulation: Simulation) -> None:
        async with echo_connected() as client:
            for _ in range(3):
                answers = await asyncio.gather(*[client.request() for _ in range(64)])
                opaques = [answer[3] for answer in answers]
                assert opaques == list(range(opaques[0], opaques[0] + 64))

    run_simulation(main)


def test_the_frame_is_that_of_a_real_send() -> None:
    async def main(simulation: Simulation) -> None:
        async with echo_connected() as client:
            flags, code, opaque, header, body = (await client.request())[1:]
            assert (code, header) == (RequestCode.SEND_MESSAGE, {"topic": TOPIC, "queue_id": 0, "tag_hash": 0})
            queue = MessageQueue(TOPIC, "broker-a", 0)
            (message,) = decode_messages(queue, encode_record(1, 0, 0, 0, 0, 0, 0, body))
            assert message.body == BODY
            (command,) = CODEC.decoder().feed(CODEC.encode(flags, code, opaque, header, body))
            assert command.body == body

    run_simulation(main)


def test_a_request_that_is_abandoned_does_not_disturb_the_others() -> None:
    async def main(simulation: Simulation) -> None:
        async with echo_connected() as client:
            given_up, kept = client.request(), client.request()
            given_up.cancel()
            assert (await kept)[3] == 2

    run_simulation(main)


def test_anyone_who_waits_is_reported_when_the_server_is_gone() -> None:
    async def main(simulation: Simulation) -> None:
        async with echo_connected() as client:
            future = client.request()
            client.close()
            with pytest.raises(ConnectionError):
                await future

    run_simulation(main)
